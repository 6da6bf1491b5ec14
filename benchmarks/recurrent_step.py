"""The time of a step of the paper's LSTM, relative to `keras.layers.LSTM`.

512 cells, 87 one-hot inputs, 100 time steps, batch 100, and a dense layer of 87
logits: a training step and an inference, each with and without XLA, and how the
time of the training step divides into parts.
"""

import statistics

import keras
import numpy as np
import tensorflow as tf

import keras_lab
from benchmarks import harness, networks

OPTIONS = {"rounds": 11, "cells": 512, "steps": 100, "batch": 100}
QUICK = {"rounds": 2, "cells": 8, "steps": 5, "batch": 2}
CHARACTERS = networks.CHARACTERS
LAYERS = {
    "keras": lambda cells: keras.layers.LSTM(cells, return_sequences=True),
    "lab": lambda cells: keras_lab.BinaryLSTM(cells, return_sequences=True),
    "lab, one_hot": lambda cells: keras_lab.BinaryLSTM(
        cells, return_sequences=True, one_hot=CHARACTERS
    ),
}


class Network:
    """A compiled model and the functions whose times are compared."""

    def __init__(self, name, jit_compile, options):
        keras.utils.set_random_seed(networks.SEED)
        self.layer = LAYERS[name](options.cells)
        # Keras' own layer refuses XLA, because of cuDNN.
        self.layer.supports_jit = True
        rng = np.random.default_rng(networks.SEED)
        text = rng.integers(0, CHARACTERS, (options.batch, options.steps + 1))
        x, self.y = text[:, :-1, None], text[:, 1:]
        if name != "lab, one_hot":
            x = np.eye(CHARACTERS, dtype="float32")[x[..., 0]]
        self.x, self.jit_compile = tf.constant(x), jit_compile
        model = keras.Sequential([keras.Input(x.shape[1:], dtype=x.dtype)])
        model.add(self.layer)
        model.add(keras.layers.Dense(CHARACTERS))
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
        """Returns the training step up to the end of each part."""
        model, cell = self.model, self.layer.cell
        variables = [v.value for v in model.trainable_variables]

        def forward():
            return model.loss(self.y, model(self.x, training=True))

        def backward():
            with tf.GradientTape() as tape:
                loss = forward()
            return tape.gradient(loss, variables)

        first = tf.transpose(self.x, [1, 0, 2])

        def project():
            projected = cell.project(first, cell.binary_kernel)
            return cell.binary_recurrent_kernel, projected

        functions = {"loop": forward, "backward": backward}
        if hasattr(cell, "look_ahead"):
            form = {"form ŵ": lambda: cell.look_ahead()[:2], "project": project}
            functions = form | functions
        compiled = {n: self._function(f) for n, f in functions.items()}
        return {**compiled, "update": self.train}

    def _function(self, function):
        return tf.function(function, jit_compile=self.jit_compile)


def measure(_, options, journal):
    keras_lab.config.keep_memory()
    keys = [(name, xla) for name in LAYERS for xla in (False, True)]
    made = {key: Network(*key, options) for key in keys}
    rows = []
    for what in ("train", "infer"):
        runs = {key: getattr(made[key], what) for key in keys}
        seconds = harness.interleave(runs, options.rounds)
        for layer, xla in keys:
            row = {"what": what, "layer": layer, "jit_compile": xla}
            # Keras runs its LSTM without XLA unless told otherwise.
            ratio = harness.ratio(seconds, (layer, xla), ("keras", False))
            rows.append({**row, "ratio": ratio, "seconds": seconds[layer, xla]})
    journal.content["parts"] = []
    for layer, xla in keys:
        spent = parts(made[layer, xla].prefixes(), options.rounds)
        row = {"layer": layer, "jit_compile": xla, "milliseconds": spent}
        journal.content["parts"].append(row)
    return rows


def parts(prefixes, rounds):
    """Returns the time of each part, as differences of medians."""
    found, before = {}, 0.0
    for part, values in harness.interleave(prefixes, rounds).items():
        until = 1000 * statistics.median(values)
        found[part], before = until - before, until
    return found
