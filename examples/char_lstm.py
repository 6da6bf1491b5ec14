"""A character model with a binary LSTM, as in Section 4.2 of the paper.

    python examples/char_lstm.py --scheme lab --epochs 5
    python examples/char_lstm.py --text my.txt --cells 128 --steps 50

One LSTM layer and a softmax over the next byte. The text is cut into sequences
that do not overlap, and each starts from a zero state. It is War and Peace,
unless `--text` names a file. Prints the cross-entropy in nats at each epoch and
a sample of what the network writes, and saves the model of the best epoch and
a JSON file with the numbers.
"""

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import keras_lab
from examples.paper import data as datasets
from examples.paper.schemes import SCHEMES
from examples.records import environment, write_json


def character_lstm(
    characters: int,
    cells: int,
    kernel_quantizer: str | None = "lab",
    input_quantizer: str | None = None,
    activation: str = "tanh",
    clip: float | None = None,
) -> keras.Model:
    """The paper's model: bytes in, logits of the next byte out.

    The LSTM looks up the rows of its kernel: no one-hot vector is formed. The
    dense layer is in full precision, as with the authors.

    Args:
        characters: How many different bytes there are.
        cells: The width of the LSTM.
        kernel_quantizer, input_quantizer: As in `keras_lab.BinaryLSTM`.
        activation: `"tanh"`, or `"sign"` for h = σ(o)·sign(c).
        clip: The largest absolute value of an entry of a kernel, those of the
            softmax layer and in full precision included. If `None`, latent
            weights are clipped at 1 and others are not.
    """
    constraint = (
        None if clip is None else keras_lab.constraints.WeightClip(clip)
    )
    clipped = {}
    if constraint:
        names = ("kernel_constraint", "recurrent_constraint")
        clipped = dict.fromkeys(names, constraint)
    uniform = {"minval": -0.08, "maxval": 0.08}
    layers = [
        keras.Input((None,), dtype="uint8"),
        keras.layers.Reshape((-1, 1)),
        keras_lab.BinaryLSTM(
            cells,
            activation,
            kernel_quantizer=kernel_quantizer,
            input_quantizer=input_quantizer,
            one_hot=characters,
            return_sequences=True,
            kernel_initializer=keras.initializers.RandomUniform(**uniform),
            recurrent_initializer=keras.initializers.RandomUniform(**uniform),
            **clipped,
            name="lstm",
        ),
        keras.layers.Dense(
            characters,
            kernel_initializer=keras.initializers.RandomUniform(**uniform),
            kernel_constraint=constraint,
            name="softmax",
        ),
    ]
    return keras.Sequential(layers, name="character_lstm")


def learning_rate(epoch: int, rate: float) -> float:
    """The paper's: 2% less at each epoch after the tenth. Counts from 0."""
    return rate * 0.98 ** max(0, epoch - 10)


def write_text(model, vocabulary, length, seed, temperature=0.7):
    """What the network writes, one byte after the other, after a newline."""
    cell, softmax = model.get_layer("lstm").cell, model.get_layer("softmax")
    rng = np.random.default_rng(seed)
    states = cell.get_initial_state(batch_size=1)
    byte, written = vocabulary.find(b"\n"), bytearray()
    for _ in range(length):
        index = np.array([[max(byte, 0)]], np.uint8)
        output, states = cell(index, states)
        logits = np.asarray(softmax(output), np.float64)[0] / temperature
        share = np.exp(logits - logits.max())
        byte = rng.choice(len(share), p=share / share.sum())
        written.append(vocabulary[byte])
    return written.decode("utf-8", errors="replace")


class Progress(keras.callbacks.Callback):
    """One line an epoch, with the time left."""

    def __init__(self, epochs):
        super().__init__()
        self.epochs, self.start = epochs, time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        spent = time.monotonic() - self.start
        left = spent / (epoch + 1) * (self.epochs - epoch - 1)
        print(
            f"epoch {epoch + 1} of {self.epochs}: "
            f"train {logs['loss']:.3f}, validation {logs['val_loss']:.3f} nats"
            f", {spent:.0f} s, {left:.0f} s left",
            flush=True,
        )


def train(arguments) -> dict:
    """Trains, saves the model of the best epoch, and returns the result."""
    sizes = (arguments.steps, arguments.batch, arguments.bytes)
    if arguments.text:
        data = datasets.text_file(arguments.text, *sizes)
    else:
        data = datasets.war_and_peace(arguments.data_dir, *sizes)
    scheme = SCHEMES[arguments.scheme]
    keras.utils.set_random_seed(arguments.seed)
    model = character_lstm(
        data.classes,
        arguments.cells,
        scheme.kernel_quantizer,
        scheme.input_quantizer,
        arguments.activation,
    )
    model.compile(
        # The paper clips each gradient entry to [−5, 5].
        keras_lab.LABAdam(arguments.learning_rate, clipvalue=5.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    print(
        f"{scheme.title}: {arguments.cells} cells, {data.classes} bytes, "
        f"{len(data.train.x)} sequences of {arguments.steps}"
    )
    path = Path(arguments.output) / f"{arguments.scheme}-{arguments.seed}.keras"
    path.parent.mkdir(parents=True, exist_ok=True)
    history = model.fit(
        *data.train,
        batch_size=arguments.batch,
        epochs=arguments.epochs,
        validation_data=data.validation,
        validation_batch_size=arguments.batch,
        verbose=0,
        callbacks=[
            keras.callbacks.LearningRateScheduler(
                lambda epoch: learning_rate(epoch, arguments.learning_rate)
            ),
            Progress(arguments.epochs),
            keras.callbacks.ModelCheckpoint(path, save_best_only=True),
            keras.callbacks.TerminateOnNaN(),
        ],
    ).history
    if np.isfinite(history["val_loss"]).any():
        model = keras.models.load_model(path)
    test_loss = model.evaluate(*data.test, arguments.batch, verbose=0)
    sample = write_text(
        model, data.vocabulary, arguments.sample, arguments.seed
    )
    return {
        "configuration": {**vars(arguments), "data": data.files},
        "environment": environment(),
        "parameters": model.count_params(),
        "epochs_done": len(history["loss"]),
        "history": history,
        "test_loss_at_best_validation": test_loss,
        "alpha": [
            alpha.numpy().tolist()
            for alpha in model.non_trainable_variables
            if "alpha" in alpha.name
        ],
        "sample": sample,
    }


def parse(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--text", help="a text file; War and Peace if not given")
    add("--data-dir", help="where the data sets are; see examples.paper.data")
    add("--scheme", choices=SCHEMES, default="lab")
    add("--activation", choices=("tanh", "sign"), default="tanh",
        help="sign: h = σ(o)·sign(c), as in the authors' code")  # fmt: skip
    add("--cells", type=positive, default=512)
    add("--steps", type=positive, default=100, help="bytes a sequence")
    add("--batch", type=positive, default=100, help="sequences a step")
    add("--epochs", type=positive, default=5, help="the paper has 200")
    add("--bytes", type=positive, help="only the first so many of the text")
    add("--learning-rate", type=float, default=0.002)
    add("--seed", type=int, default=1)
    add("--sample", type=int, default=400, help="bytes to write at the end")
    add("--output", default="char_lstm", help="folder for model and numbers")
    arguments = parser.parse_args(argv)
    if arguments.text and not Path(arguments.text).is_file():
        parser.error(f"--text: no such file. Received: {arguments.text}")
    return arguments


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be positive. Received: {text}")
    return number


def main(argv=None):
    arguments = parse(argv)
    try:
        result = train(arguments)
    except datasets.DataError as error:
        sys.exit(f"error: {error}")
    name = f"{arguments.scheme}-{arguments.seed}"
    write_json(Path(arguments.output) / f"{name}.json", result)
    best = min(result["history"]["val_loss"])
    print(
        f"\nbest validation {best:.3f}, test there "
        f"{result['test_loss_at_best_validation']:.3f} nats\n\n"
        f"It writes:\n{result['sample']}\n\n"
        f"wrote {name}.keras and {name}.json in {arguments.output}"
    )


if __name__ == "__main__":
    main()
