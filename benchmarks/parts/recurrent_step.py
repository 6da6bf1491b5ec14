"""The time of a step of the paper's LSTM, relative to `keras.layers.LSTM`.

512 cells, 87 one-hot inputs, 100 time steps, batch 100, and a dense layer of 87
logits: a training step and an inference, each with and without XLA.
"""

import numpy as np

from benchmarks import harness, networks
from benchmarks.tables import by_xla, grid, lines_of

OPTIONS = {"rounds": 11, "cells": 512, "steps": 100, "batch": 100}
QUICK = {"rounds": 2, "cells": 8, "steps": 5, "batch": 2}
CHARACTERS = networks.CHARACTERS
# The arguments of a layer, by its name in the table.
LAYERS = {"keras": {}, "lab": {}, "lab, one_hot": {"one_hot": CHARACTERS}}


def functions(name, jit_compile, options):
    """Returns a training step and an inference of a compiled model."""
    import keras
    import tensorflow as tf

    import keras_lab

    keras.utils.set_random_seed(networks.SEED)
    plain, more = name == "keras", LAYERS[name]
    make = keras.layers.LSTM if plain else keras_lab.BinaryLSTM
    layer = make(options.cells, return_sequences=True, **more)
    # Keras' own layer refuses XLA, because of cuDNN.
    layer.supports_jit = True
    rng = np.random.default_rng(networks.SEED)
    text = rng.integers(0, CHARACTERS, (options.batch, options.steps + 1))
    x, y = text[:, :-1, None], text[:, 1:]
    if not more:
        x = np.eye(CHARACTERS, dtype="float32")[x[..., 0]]
    model = keras.Sequential([keras.Input(x.shape[1:], dtype=x.dtype)])
    model.add(layer)
    model.add(keras.layers.Dense(CHARACTERS))
    adam = keras.optimizers.Adam if plain else keras_lab.LABAdam
    model.compile(
        adam(0.002, clipvalue=5.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=jit_compile,
    )
    model.optimizer.build(model.trainable_variables)
    model.make_train_function()
    data = iter(tf.data.Dataset.from_tensors((x, y)).repeat())
    x = tf.constant(x)
    infer = tf.function(
        lambda: model(x, training=False), jit_compile=jit_compile
    )
    return {"train": lambda: model.train_function(data), "infer": infer}


def measure(_, options, content):
    import keras_lab

    keras_lab.config.keep_memory()
    keys = [(name, xla) for name in LAYERS for xla in (False, True)]
    made = {key: functions(*key, options) for key in keys}
    rows = []
    for what in ("train", "infer"):
        runs = {key: made[key][what] for key in keys}
        seconds = harness.interleave(runs, options.rounds)
        for layer, xla in keys:
            row = {"what": what, "layer": layer, "jit_compile": xla}
            # Keras runs its LSTM without XLA unless told otherwise.
            ratio = harness.ratio(seconds, (layer, xla), ("keras", False))
            rows.append({**row, "ratio": ratio, "seconds": seconds[layer, xla]})
    return rows


def table(content):
    lines = lines_of(content, "layer")
    values = {"training": "train", "inference": "infer"}
    return grid(content, "layer", lines, by_xla("what", values, (False, True)))
