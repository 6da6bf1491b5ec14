"""A character model with a binary LSTM, as in Section 4.2 of the paper.

    python examples/char_lstm.py --scheme lab --epochs 5
    python examples/char_lstm.py --text my.txt --cells 128 --steps 50

One LSTM layer and a softmax over the next byte. The text is cut into sequences
that do not overlap, and each starts from a zero state. It is War and Peace,
unless `--text` names a file. Saves the model of the best epoch, and exports the
same network with `stateful=True` and one step: the file has the state as inputs
and outputs, and the caller passes it to the next call. Prints the cross-entropy
in nats in each epoch, how far a text read byte by byte is from the same text at
once, and what the file writes. The paper's own experiments are in
`examples/paper`.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import keras_lab
from examples.environment import environment, write_json
from examples.paper import data as datasets
from examples.paper.recipes import WAR_AND_PEACE
from examples.paper.schemes import SCHEMES
from examples.text_options import load_text, make_parser
from tflite_export import export_tflite, make_interpreter


def with_one_step(model: keras.Model) -> keras.Model:
    """The same network, which reads one byte per call and keeps its state."""
    lstm, softmax = model.get_layer("lstm"), model.get_layer("softmax")
    letter = keras.Input((1,), 1, dtype="int32", name="letter")
    x = keras.layers.Reshape((1, 1))(letter)
    x = type(lstm).from_config(lstm.get_config() | {"stateful": True})(x)
    x = type(softmax).from_config(softmax.get_config())(x)
    stream = keras.Model(letter, x)
    stream.set_weights(model.get_weights())
    return stream


class Stream:
    """An exported file with its state. `read` takes one byte at a time."""

    def __init__(self, path):
        # A runner does not keep its interpreter alive.
        self.interpreter = make_interpreter(path)
        self.runner = self.interpreter.get_signature_runner()
        self.state = {
            name: np.zeros(detail["shape"], detail["dtype"])
            for name, detail in self.runner.get_input_details().items()
            if name != "letter"
        }

    def read(self, letter: int) -> np.ndarray:
        """Returns the logits of the next byte."""
        letters = np.array([[letter]], np.int32)
        outputs = self.runner(letter=letters, **self.state)
        self.state = {name: outputs[name] for name in self.state}
        return outputs["softmax"][0, 0]

    def write(self, logits, vocabulary, length, seed, temperature=0.7) -> str:
        """Returns what the network writes next, given the last logits."""
        rng, written = np.random.default_rng(seed), bytearray()
        for _ in range(length):
            share = np.exp((logits - logits.max()).astype(float) / temperature)
            letter = rng.choice(len(share), p=share / share.sum())
            written.append(vocabulary[letter])
            logits = self.read(letter)
        return written.decode("utf-8", errors="replace")


def train(arguments) -> dict:
    """Trains, saves and exports the best epoch; returns the result."""
    sizes = (arguments.steps, arguments.batch, arguments.bytes)
    data = load_text(arguments, *sizes)
    scheme = SCHEMES[arguments.scheme]
    keras_lab.config.keep_memory()
    keras.utils.set_random_seed(arguments.seed)
    model = WAR_AND_PEACE.build(scheme, data.classes, cells=arguments.cells)
    print(
        f"{scheme.title}: {arguments.cells} cells, {data.classes} bytes, "
        f"{len(data.train.x)} sequences of {arguments.steps}"
    )
    path = Path(arguments.output) / f"{arguments.scheme}-{arguments.seed}.keras"
    path.parent.mkdir(parents=True, exist_ok=True)

    def rate(epoch):
        return arguments.learning_rate * WAR_AND_PEACE.decay(epoch + 1)

    history = model.fit(
        *data.train,
        batch_size=arguments.batch,
        epochs=arguments.epochs,
        validation_data=data.validation,
        validation_batch_size=arguments.batch,
        verbose=2,
        callbacks=[
            keras.callbacks.LearningRateScheduler(rate),
            keras.callbacks.ModelCheckpoint(path, save_best_only=True),
            keras.callbacks.TerminateOnNaN(),
        ],
    ).history
    if np.isfinite(history["val_loss"]).any():
        model = keras.models.load_model(path)
    test_loss = model.evaluate(*data.test, arguments.batch, verbose=0)

    file = path.with_suffix(".tflz")
    format = "fast" if scheme.kernel_quantizer else "float"
    print(export_tflite(with_one_step(model), file, format))
    stream, excerpt = Stream(file), data.test.x[0]
    step_by_step = np.array([stream.read(letter) for letter in excerpt])
    at_once = np.asarray(model(excerpt[None]))[0]
    sample = (data.vocabulary, arguments.sample, arguments.seed)
    return {
        "configuration": {**vars(arguments), "data": data.files},
        "environment": environment(),
        "parameters": model.count_params(),
        "epochs_done": len(history["loss"]),
        "history": history,
        "test_loss_at_best_validation": test_loss,
        "stream_error": float(
            np.abs(step_by_step - at_once).max() / np.abs(at_once).max()
        ),
        "sample": stream.write(step_by_step[-1], *sample),
    }


def main(argv=None):
    parser = make_parser(__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--scheme", choices=SCHEMES, default="lab")
    add("--cells", type=int, default=512)
    add("--steps", type=int, default=100, help="bytes per sequence")
    add("--batch", type=int, default=100, help="sequences per step")
    add("--epochs", type=int, default=5, help="the paper has 200")
    add("--bytes", type=int, help="use only this many, from the start")
    add("--learning-rate", type=float, default=0.002)
    add("--seed", type=int, default=1)
    add("--sample", type=int, default=400, help="bytes of text to write")
    add("--output", default="char_lstm", help="folder for model and numbers")
    arguments = parser.parse_args(argv)
    try:
        result = train(arguments)
    except datasets.DataError as error:
        sys.exit(f"error: {error}")
    name = f"{arguments.scheme}-{arguments.seed}"
    write_json(Path(arguments.output) / f"{name}.json", result)
    print(
        f"\nbest validation {min(result['history']['val_loss']):.3f}, test "
        f"there {result['test_loss_at_best_validation']:.3f} nats\n"
        f"Byte by byte and at once differ by {result['stream_error']:.2g} of "
        f"the largest.\n\nIt writes:\n{result['sample']}\n\n"
        f"wrote {name}.keras, .tflz and .json in {arguments.output}"
    )


if __name__ == "__main__":
    main()
