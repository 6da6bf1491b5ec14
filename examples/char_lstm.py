"""A character model with a binary LSTM, as in Section 4.2 of the paper.

    python examples/char_lstm.py --scheme lab --epochs 5
    python examples/char_lstm.py --text my.txt --cells 128 --steps 50

One LSTM layer and a softmax over the next byte. The text is cut into sequences
that do not overlap, and each starts from a zero state. It is War and Peace,
unless `--text` names a file. Prints the cross-entropy in nats in each epoch and
a sample of what the network writes, and saves the model of the best epoch and
a JSON file with the numbers. `examples/paper` has the paper's own experiments.
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


def write_text(model, vocabulary, length, seed, temperature=0.7):
    """Returns what the network writes after a newline, byte by byte."""
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


def train(arguments) -> dict:
    """Trains, saves the model of the best epoch, and returns the result."""
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
    history = model.fit(
        *data.train,
        batch_size=arguments.batch,
        epochs=arguments.epochs,
        validation_data=data.validation,
        validation_batch_size=arguments.batch,
        verbose=2,
        callbacks=[
            keras.callbacks.LearningRateScheduler(
                lambda epoch: (
                    arguments.learning_rate * WAR_AND_PEACE.decay(epoch + 1)
                )
            ),
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
        "sample": sample,
    }


def parse(argv=None):
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
    return parser.parse_args(argv)


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
