"""What a step of the paper's LSTM costs, as a ratio to `keras.layers.LSTM`.

    python -m benchmarks.recurrent_step

512 cells, 87 one-hot inputs, 100 time steps, batch 100, and a dense layer of 87
logits: a training step and an inference, each with and without XLA, and where
the time of the training step goes.
"""

import argparse
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

import keras_lab
from benchmarks import harness, tables

CHARACTERS = 87
LAYERS = {
    "keras": lambda cells: keras.layers.LSTM(cells, return_sequences=True),
    "lab": lambda cells: keras_lab.BinaryLSTM(cells, return_sequences=True),
    "lab, one_hot": lambda cells: keras_lab.BinaryLSTM(
        cells, return_sequences=True, one_hot=CHARACTERS
    ),
}


class Network:
    """A compiled model and the functions whose times are compared."""

    def __init__(self, name, jit_compile, arguments):
        keras.utils.set_random_seed(1)
        self.layer = LAYERS[name](arguments.cells)
        # Keras' own says no to XLA, for the sake of cuDNN.
        self.layer.supports_jit = True
        rng = np.random.default_rng(1)
        text = rng.integers(
            0, CHARACTERS, (arguments.batch, arguments.steps + 1)
        )
        x, self.y = text[:, :-1, None], text[:, 1:]
        if name != "lab, one_hot":
            x = np.eye(CHARACTERS, dtype="float32")[x[..., 0]]
        self.x, self.jit_compile = tf.constant(x), jit_compile
        model = keras.Sequential(
            [
                keras.Input(x.shape[1:], dtype=x.dtype),
                self.layer,
                keras.layers.Dense(CHARACTERS),
            ]
        )
        adam = keras.optimizers.Adam if name == "keras" else keras_lab.LABAdam
        model.compile(
            adam(0.002, clipvalue=5.0),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            jit_compile=jit_compile,
        )
        model.optimizer.build(model.trainable_variables)
        model.make_train_function()
        self.model = model
        data = iter(tf.data.Dataset.from_tensors((x, self.y)).repeat())
        self.train = lambda: model.train_function(data)
        self.infer = self._function(lambda: model(self.x, training=False))

    def prefixes(self):
        """The training step up to the end of each part."""
        model, cell = self.model, self.layer.cell
        variables = [v.value for v in model.trainable_variables]

        def forward():
            return model.loss(self.y, model(self.x, training=True))

        def backward():
            with tf.GradientTape() as tape:
                loss = forward()
            return tape.gradient(loss, variables)

        prefixes = {
            "loop": self._function(forward),
            "backward": self._function(backward),
            "update": self.train,
        }
        if not hasattr(cell, "look_ahead"):
            return prefixes
        first = tf.transpose(self.x, [1, 0, 2])
        return {
            "form ŵ": self._function(lambda: cell.look_ahead()[:2]),
            "project": self._function(
                lambda: (
                    cell.binary_recurrent_kernel,
                    cell.project(first, cell.binary_kernel),
                )
            ),
            **prefixes,
        }

    def _function(self, function):
        return tf.function(function, jit_compile=self.jit_compile)


def measure(arguments):
    names = [(n, jit) for n in LAYERS for jit in (False, True)]
    networks = {key: Network(*key, arguments) for key in names}
    rows = []
    for what in ("train", "infer"):
        print(f"{what}:", flush=True)
        runs = {key: getattr(networks[key], what) for key in names}
        seconds = harness.interleave(runs, arguments.rounds)
        rows += [_row(what, *key, seconds) for key in names]
    print("parts of a training step:", flush=True)
    return rows, [_parts(networks[key], *key, arguments) for key in names]


def _row(what, name, jit_compile, seconds):
    """Against Keras as it comes: without XLA."""
    return {
        "what": what,
        "layer": name,
        "jit_compile": jit_compile,
        "ratio": harness.ratio(seconds, (name, jit_compile), ("keras", False)),
        "seconds": seconds[(name, jit_compile)],
    }


def _parts(network, name, jit_compile, arguments):
    seconds = harness.interleave(network.prefixes(), arguments.rounds)
    median = {part: float(np.median(s)) for part, s in seconds.items()}
    parts, before = {}, 0.0
    for part, until in median.items():
        parts[part], before = until - before, until
    return {
        "layer": name,
        "jit_compile": jit_compile,
        "milliseconds": {part: 1000 * value for part, value in parts.items()},
    }


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    positive = harness.at_least(1)
    add("--rounds", type=harness.at_least(2), default=11)
    add("--cells", type=positive, default=512)
    add("--steps", type=positive, default=100, help="time steps")
    add("--batch", type=positive, default=100)
    add("--output", default=str(harness.RESULTS / "recurrent_step.json"))
    return parser.parse_args(argv)


def run(arguments):
    """Measures all, and writes the file."""
    harness.check_output(arguments.output)
    rows, parts = measure(arguments)
    print("\n" + tables.recurrent_step(rows) + "\n")
    print(tables.recurrent_parts(parts) + "\n")
    for part, meaning in tables.PARTS.items():
        print(f"{part}: {meaning}")
    harness.write_json(
        arguments.output,
        {
            "benchmark": "recurrent_step",
            "configuration": {
                name: getattr(arguments, name)
                for name in ("rounds", "cells", "steps", "batch")
            },
            "environment": harness.environment(),
            "rows": rows,
            "parts": parts,
        },
    )
    print(f"\nwrote {arguments.output}")


def main(argv=None) -> int:
    return harness.report_errors(lambda: run(parse(argv)))


if __name__ == "__main__":
    sys.exit(main())
