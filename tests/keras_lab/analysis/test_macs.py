"""Multiply-accumulates, counted by hand."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.keras_lab.analysis.support import (
    character_lstm,
    describe,
    shared_and_nested,
)


def macs(model):
    totals = describe(model)["totals"]
    return totals["binary_macs"], totals["float_macs"], totals["xnor_macs"]


def mlp(kernel_quantizer="lab", input_quantizer=None):
    """The paper's network for MNIST."""
    model = keras.Sequential([keras.Input((784,))])
    for number, units in enumerate([2048, 2048, 2048, 10]):
        # The first layer takes the images as they are.
        signs = input_quantizer if number else None
        options = {"kernel_quantizer": kernel_quantizer}
        model.add(
            keras_lab.BinaryDense(units, **options, input_quantizer=signs)
        )
        model.add(layers.BatchNormalization())
    return model


def vgg(width):
    """The paper's network for CIFAR-10 and SVHN."""
    model = keras.Sequential([keras.Input((32, 32, 3))])
    for filters in (width, 2 * width, 4 * width):
        for _ in range(2):
            model.add(keras_lab.BinaryConv2D(filters, 3, padding="same"))
        model.add(layers.MaxPooling2D())
    model.add(layers.Flatten())
    for units in (1024, 1024, 10):
        model.add(keras_lab.BinaryDense(units))
    return model


# By hand, layer by layer. Convolutions: 9 taps, inputs, outputs, positions.
MLP = 784 * 2048 + 2048 * 2048 + 2048 * 2048 + 2048 * 10


def vgg_macs(k):
    return [
        9 * 3 * k * 32 * 32,
        9 * k * k * 32 * 32,
        9 * k * 2 * k * 16 * 16,
        9 * 2 * k * 2 * k * 16 * 16,
        9 * 2 * k * 4 * k * 8 * 8,
        9 * 4 * k * 4 * k * 8 * 8,
        4 * k * 4 * 4 * 1024,
        1024 * 1024,
        1024 * 10,
    ]


def test_multiply_accumulates_of_the_papers_mnist_network():
    assert MLP == 10_014_720
    assert macs(mlp()) == (MLP, 0, 0)
    assert macs(mlp(None)) == (0, MLP, 0)
    xnor = MLP - 784 * 2048
    assert macs(mlp("lab", "sign")) == (MLP, 0, xnor)


@pytest.mark.parametrize(
    ("width", "total"),
    [(128, 616_966_144), (64, 158_017_536)],
    ids=["cifar10", "svhn"],
)
def test_multiply_accumulates_of_the_papers_convolutions(width, total):
    table = vgg_macs(width)
    assert sum(table) == total
    rows = describe(vgg(width))["layers"]
    assert [r["binary_macs"] for r in rows if r["binary_params"]] == table
    assert sum(row["float_macs"] for row in rows) == 0


def test_multiply_accumulates_of_the_papers_lstm():
    # One byte: its row of the kernel is looked up. The length is open.
    content = describe(character_lstm(512))
    assert content["totals"]["binary_macs"] == 4 * 512 * 512
    assert content["totals"]["float_macs"] == 512 * 87
    assert any("one position" in note for note in content["notes"])
    # 100 bytes, as one-hot vectors that are multiplied.
    steps = keras.Sequential(
        [
            keras.Input((100, 87)),
            keras_lab.BinaryLSTM(512, return_sequences=True),
            layers.Dense(87),
        ]
    )
    per_step = 4 * 512 * (87 + 512)
    assert macs(steps) == (100 * per_step, 100 * 512 * 87, 0)
    assert not describe(steps)["notes"]


def test_sign_states_make_xnors_of_the_recurrent_products():
    layer = keras_lab.BinaryLSTM(8, input_quantizer="sign")
    model = keras.Sequential([keras.Input((10, 3)), layer])
    binary = 10 * 4 * 8 * (3 + 8)
    assert macs(model) == (binary, 0, 10 * 4 * 8 * 8)


LAYERS = {
    "dense of a sequence": (
        (7, 5),
        lambda: keras_lab.BinaryDense(3),
        7 * 5 * 3,
    ),
    "conv1d": ((9, 4), lambda: keras_lab.BinaryConv1D(5, 3), 7 * 3 * 4 * 5),
    "conv2d strides": (
        (9, 8, 4),
        lambda: keras_lab.BinaryConv2D(6, 3, strides=2, padding="same"),
        5 * 4 * 9 * 4 * 6,
    ),
    "conv2d groups": (
        (8, 8, 4),
        lambda: keras_lab.BinaryConv2D(6, 3, groups=2),
        6 * 6 * 9 * 2 * 6,
    ),
    "conv3d": (
        (4, 5, 6, 2),
        lambda: keras_lab.BinaryConv3D(3, 2),
        3 * 4 * 5 * 8 * 2 * 3,
    ),
    "depthwise": (
        (8, 7, 3),
        lambda: keras_lab.BinaryDepthwiseConv2D(3, depth_multiplier=2),
        6 * 5 * 9 * 3 * 2,
    ),
    "separable": (
        (8, 7, 3),
        lambda: keras_lab.BinarySeparableConv2D(4, 3),
        6 * 5 * (9 * 3 + 3 * 4),
    ),
    # Each input pixel meets the whole kernel.
    "transpose": (
        (5, 6, 3),
        lambda: keras_lab.BinaryConv2DTranspose(4, 3, strides=2),
        5 * 6 * 9 * 3 * 4,
    ),
    "gru": ((6, 4), lambda: keras_lab.BinaryGRU(5), 6 * 3 * 5 * (4 + 5)),
    "simple rnn": ((6, 4), lambda: keras_lab.BinarySimpleRNN(5), 6 * 5 * 9),
    "cells": (
        (6, 4),
        lambda: layers.RNN(
            [keras_lab.BinaryLSTMCell(3), keras_lab.BinaryGRUCell(2)]
        ),
        6 * (4 * 3 * (4 + 3) + 3 * 2 * (3 + 2)),
    ),
    "bidirectional": (
        (6, 4),
        lambda: layers.Bidirectional(keras_lab.BinaryLSTM(5)),
        2 * 6 * 4 * 5 * (4 + 5),
    ),
    "time distributed": (
        (6, 8, 8, 1),
        lambda: layers.TimeDistributed(keras_lab.BinaryConv2D(2, 3)),
        6 * 6 * 6 * 9 * 2,
    ),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_every_layer_is_counted_right(kind):
    shape, make, expected = LAYERS[kind]
    model = keras.Sequential([keras.Input(shape), make()])
    (row,) = describe(model)["layers"]
    assert row["binary_macs"] == expected
    latents = [w for w in model.weights if "kernel" in w.name]
    weights = sum(np.prod(w.shape) for w in latents)
    assert row["binary_params"] == weights
    assert row["float_params"] == model.count_params() - weights
    assert row["bytes"] == 4 * model.count_params()
    assert row["output_shape"] == model.output_shape


def test_a_shared_kernel_counts_once_and_is_multiplied_twice():
    content = describe(shared_and_nested())
    rows = {row["name"]: row for row in content["layers"]}
    assert rows["block/conv"]["binary_params"] == 9 * 3 * 5
    assert rows["block/conv"]["binary_macs"] == 2 * 4 * 4 * 9 * 3 * 5
    assert rows["shared"]["binary_params"] == 80 * 4
    assert rows["shared"]["binary_macs"] == 2 * 80 * 4
    assert content["totals"]["binary_params"] == 9 * 3 * 5 + 80 * 4
    assert content["totals"]["float_params"] == 2  # Two α.


def open_block():
    inputs = keras.Input((None, None, 3))
    conv = keras_lab.BinaryConv2D(4, 3, padding="same", name="conv")
    return keras.Model(inputs, conv(inputs), name="block")


def test_a_nested_model_is_counted_at_the_size_it_is_called_with():
    inputs = keras.Input((32, 32, 3))
    model = keras.Model(inputs, open_block()(inputs))
    content = describe(model)
    row = content["layers"][-1]
    assert row["binary_macs"] == 32 * 32 * 9 * 3 * 4 == 110_592
    assert row["output_shape"] == (None, 32, 32, 4)
    assert not row["open"] and not content["totals"]["open"]
    # Two calls of different sizes.
    small = keras.Input((8, 8, 3))
    block = keras.Sequential([keras.Input((None, None, 3)), open_block()])
    both = keras.Model([inputs, small], [block(inputs), block(small)])
    assert macs(both)[0] == (32 * 32 + 8 * 8) * 9 * 3 * 4


def test_a_model_for_each_time_step_is_counted():
    inputs = keras.Input((5, 8, 8, 3))
    outputs = layers.TimeDistributed(open_block())(inputs)
    assert macs(keras.Model(inputs, outputs)) == (5 * 8 * 8 * 108, 0, 0)


def test_counting_changes_nothing_in_the_model():
    model = shared_and_nested()
    config = model.get_config()
    describe(model)
    assert model.get_config() == config
    assert model.get_layer("block").output.shape == (None, 4, 4, 5)
