"""A character model that goes on byte by byte, in an exported file.

    python examples/char_stream.py
    python examples/char_stream.py --text my.txt --cells 256 --epochs 20

Trains a small binary LSTM, on the pages of `docs/` unless `--text` names a
file. Then it exports the same network with `stateful=True` and one step: the
file has the state as inputs and outputs, and the caller hands it on. Prints how
far a text read byte by byte is from the same text at once, and what the file
writes next.
"""

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import keras_lab
from tflite_export import export_tflite, make_interpreter

STEPS = 50


def network(characters: int, cells: int, **stream) -> keras.Model:
    """Bytes in, logits of the next byte out.

    With `batch_size=1, steps=1, stateful=True` it reads one byte per call.
    """
    steps, stateful = stream.get("steps"), stream.get("stateful", False)
    letters = keras.Input(
        (steps,), stream.get("batch_size"), dtype="int32", name="letters"
    )
    x = keras.layers.Reshape((-1, 1))(letters)
    x = keras_lab.BinaryLSTM(
        cells,
        one_hot=characters,
        return_sequences=True,
        stateful=stateful,
        name="lstm",
    )(x)
    return keras.Model(letters, keras.layers.Dense(characters, name="next")(x))


class Stream:
    """An exported file with its state. `read` takes one byte at a time."""

    def __init__(self, path):
        # A runner does not keep its interpreter alive.
        self.interpreter = make_interpreter(path)
        self.runner = self.interpreter.get_signature_runner()
        self.state = {
            name: np.zeros(detail["shape"], detail["dtype"])
            for name, detail in self.runner.get_input_details().items()
            if name != "letters"
        }

    def read(self, letter: int) -> np.ndarray:
        """Returns the logits of the next byte."""
        letters = np.array([[letter]], np.int32)
        outputs = self.runner(letters=letters, **self.state)
        self.state = {name: outputs[name] for name in self.state}
        return outputs["next"][0, 0]


def train(text: np.ndarray, characters: int, arguments) -> keras.Model:
    """Trains on sequences of the text that do not overlap."""
    keras.utils.set_random_seed(arguments.seed)
    model = network(characters, arguments.cells)
    model.compile(
        keras_lab.LABAdam(0.005, clipvalue=5.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    count = (len(text) - 1) // STEPS
    x, y = (
        text[first : first + count * STEPS].reshape(count, STEPS)
        for first in (0, 1)
    )
    model.fit(x, y, batch_size=32, epochs=arguments.epochs, verbose=2)
    return model


def main(argv=None) -> float:
    """Returns the largest difference over the largest output."""
    arguments = parse(argv)
    files = [Path(arguments.text)] if arguments.text else ROOT.glob("docs/*.md")
    content = b"".join(file.read_bytes() for file in sorted(files))
    vocabulary, text = np.unique(
        np.frombuffer(content, np.uint8), return_inverse=True
    )
    text = text.astype(np.int32)
    model = train(text, len(vocabulary), arguments)

    one_step = {"batch_size": 1, "steps": 1, "stateful": True}
    streaming = network(len(vocabulary), arguments.cells, **one_step)
    streaming.set_weights(model.get_weights())
    print(export_tflite(streaming, arguments.output))

    stream, excerpt = Stream(arguments.output), text[: 4 * STEPS]
    step_by_step = np.array([stream.read(letter) for letter in excerpt])
    at_once = np.asarray(model(excerpt[None]))[0]
    error = np.abs(step_by_step - at_once).max() / np.abs(at_once).max()
    print(f"\nByte by byte and at once differ by {error:.2g} of the largest.")

    rng, logits, written = np.random.default_rng(1), step_by_step[-1], []
    for _ in range(arguments.sample):
        share = np.exp((logits - logits.max()) / 0.7)
        written.append(rng.choice(len(share), p=share / share.sum()))
        logits = stream.read(written[-1])
    print("It goes on:", bytes(vocabulary[written]).decode(errors="replace"))
    return float(error)


def parse(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--text", help="a text file; default: docs/*.md")
    parser.add_argument("--cells", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", default="char_stream.tflz")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
