"""Networks and histories for several tests."""

import keras
from keras import layers

import keras_lab
from keras_lab.analysis.history import CSV_COLUMNS


def rows(layers, epochs):
    """A history with numbers that are easy to recognize."""
    values = dict.fromkeys(CSV_COLUMNS)
    return [
        {
            **values,
            "epoch": epoch,
            "step": 10 * (epoch + 1),
            "weight": f"dense_{layer}/kernel",
            "alpha": 0.1 * layer + 0.01 * epoch,
            "flips": 0.5 / (1 + epoch) ** (1 + layer / 10),
            "clipped": 0.02 * epoch,
        }
        for epoch in range(epochs)
        for layer in range(1, layers + 1)
    ]


def describe(model, exported=False):
    return keras_lab.summary(model, exported=exported, return_dict=True)


def character_lstm(units):
    """The paper's network for text: 87 characters, given by index."""
    return keras.Sequential(
        [
            keras.Input((None, 1), dtype="int32"),
            keras_lab.BinaryLSTM(units, one_hot=87, return_sequences=True),
            layers.Dense(87),
        ]
    )


def shared_and_nested():
    block_inputs = keras.Input((6, 6, 3))
    conv = keras_lab.BinaryConv2D(5, 3, use_bias=False, name="conv")
    block = keras.Model(block_inputs, conv(block_inputs), name="block")
    shared = keras_lab.BinaryDense(4, use_bias=False, name="shared")
    inputs = keras.Input((6, 6, 3))
    flat = [layers.Flatten()(block(inputs)) for _ in range(2)]
    return keras.Model(inputs, shared(flat[0]) + shared(flat[1]))
