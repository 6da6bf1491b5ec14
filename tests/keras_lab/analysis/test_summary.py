"""The summary's numbers, counted by hand and against the exporter's files."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from examples.char_lstm import character_lstm
from examples.paper.recipes import CIFAR10, MNIST, SVHN
from examples.paper.schemes import SCHEMES
from tflite_export import export_tflite, plan


def describe(model, exported=False):
    return keras_lab.summary(model, exported=exported, return_dict=True)


def macs(model):
    totals = describe(model)["totals"]
    return totals["binary_macs"], totals["float_macs"], totals["xnor_macs"]


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
    assert macs(MNIST.build(SCHEMES["lab"], 10)) == (MLP, 0, 0)
    assert macs(MNIST.build(SCHEMES["full_precision"], 10)) == (0, MLP, 0)
    # The first layer sees the images as they are.
    xnor = MLP - 784 * 2048
    assert macs(MNIST.build(SCHEMES["lab2"], 10)) == (MLP, 0, xnor)


@pytest.mark.parametrize(
    ("recipe", "width", "total"),
    [(CIFAR10, 128, 616_966_144), (SVHN, 64, 158_017_536)],
    ids=["cifar10", "svhn"],
)
def test_multiply_accumulates_of_the_papers_convolutions(recipe, width, total):
    table = vgg_macs(width)
    assert sum(table) == total
    rows = describe(recipe.build(SCHEMES["lab"], 10))["layers"]
    assert [r["binary_macs"] for r in rows if r["binary_params"]] == table
    assert sum(row["float_macs"] for row in rows) == 0


def test_multiply_accumulates_of_the_papers_lstm():
    # One byte: its row of the kernel is looked up. The length is open.
    content = describe(character_lstm(87, 512))
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


def shared_and_nested():
    block_inputs = keras.Input((6, 6, 3))
    conv = keras_lab.BinaryConv2D(5, 3, use_bias=False, name="conv")
    block = keras.Model(block_inputs, conv(block_inputs), name="block")
    shared = keras_lab.BinaryDense(4, use_bias=False, name="shared")
    inputs = keras.Input((6, 6, 3))
    flat = [layers.Flatten()(block(inputs)) for _ in range(2)]
    return keras.Model(inputs, shared(flat[0]) + shared(flat[1]))


def test_a_shared_kernel_counts_once_and_is_multiplied_twice():
    content = describe(shared_and_nested())
    rows = {row["name"]: row for row in content["layers"]}
    assert rows["block/conv"]["binary_params"] == 9 * 3 * 5
    assert rows["block/conv"]["binary_macs"] == 2 * 4 * 4 * 9 * 3 * 5
    assert rows["shared"]["binary_params"] == 80 * 4
    assert rows["shared"]["binary_macs"] == 2 * 80 * 4
    assert content["totals"]["binary_params"] == 9 * 3 * 5 + 80 * 4
    assert content["totals"]["float_params"] == 2  # Two α.


def small_convolution():
    model = keras.Sequential([keras.Input((16, 16, 3))])
    for filters in (16, 32):
        model.add(keras_lab.BinaryConv2D(filters, 3, use_bias=False))
        model.add(layers.BatchNormalization())
        model.add(layers.ReLU())
    model.add(layers.Flatten())
    model.add(keras_lab.BinaryDense(10))
    return model


@pytest.mark.parametrize(
    "make",
    [
        lambda: MNIST.build(SCHEMES["lab"], 10, width=512),
        small_convolution,
        lambda: character_lstm(87, 128),
        shared_and_nested,
    ],
    ids=["mlp", "convolution", "lstm", "shared"],
)
def test_the_total_is_the_size_of_the_exported_file(make, tmp_path, rng):
    model = make()
    for weight in model.weights:  # As after a training: no two channels alike.
        if weight.name in ("gamma", "beta", "moving_mean", "moving_variance"):
            weight.assign(rng.uniform(0.5, 1.5, weight.shape))
    content = describe(model, exported=True)
    path = tmp_path / "model.tflite"
    export_tflite(model, path, tolerance=1.0)
    totals = content["totals"]
    size = path.stat().st_size
    assert abs(totals["exported_bytes"] - size) <= 0.02 * size
    assert totals["compression"] == totals["bytes"] / totals["exported_bytes"]
    kernels = sum(row["exported_bytes"] for row in content["layers"])
    assert totals["binary_params"] / 8 <= kernels < totals["exported_bytes"]


def test_the_table_shows_what_the_dict_holds(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    model = small_convolution()
    lines = []
    keras_lab.summary(model, print_fn=lines.append)
    (text,) = lines
    content = describe(model, exported=True)
    for row in content["layers"]:
        (line,) = [x for x in text.split("\n") if f" {row['name']} (" in x]
        cells = [cell.strip() for cell in line.split("│")[1:-1]]
        assert cells[0] == f"{row['name']} ({row['type']})"
        assert cells[2] == f"{row['binary_params']:,}"
        assert cells[7] == f"{row['binary_macs']:,}"
        if row["alpha"]:
            assert cells[4] == f"{row['alpha'][0]:.4f}"
    assert f"Compression: {content['totals']['compression']:.1f}" in text
    assert f"{content['totals']['exported_bytes']:,}" in text


def test_a_model_without_binary_layers_and_an_unbuilt_one(capsys):
    plain = keras.Sequential([keras.Input((4,)), layers.Dense(3)])
    keras_lab.summary(plain)
    assert "no binary weights" in capsys.readouterr().out
    assert describe(plain)["totals"]["float_macs"] == 12
    keras_lab.summary(keras.Sequential([keras_lab.BinaryDense(3)]))
    assert "no weights yet" in capsys.readouterr().out
    with pytest.raises(TypeError, match="model=3"):
        keras_lab.summary(3)


def test_a_subclassed_model_is_counted_though_it_cannot_be_exported(capsys):
    class Network(keras.Model):
        def __init__(self):
            super().__init__()
            self.conv = keras_lab.BinaryConv2D(4, 3)
            self.flatten = layers.Flatten()
            self.dense = layers.Dense(2)

        def call(self, inputs):
            return self.dense(self.flatten(self.conv(inputs)))

    model = Network()
    model(np.zeros((2, 5, 5, 1), "float32"))
    content = describe(model, exported=True)
    assert content["totals"]["binary_macs"] == 3 * 3 * 9 * 4
    assert content["totals"]["float_macs"] == 36 * 2
    assert any("cannot be exported" in note for note in content["notes"])
    keras_lab.summary(model)
    assert "cannot be exported" in capsys.readouterr().out


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


class Holder(layers.Layer):
    """A layer of the user's own, with a binary one in it."""

    def __init__(self):
        super().__init__()
        self.dense = keras_lab.BinaryDense(3)

    def build(self, shape):
        self.dense.build(shape)
        super().build(shape)

    def call(self, inputs):
        return self.dense(inputs)


def text_of(model, **options):
    lines = []
    keras_lab.summary(model, print_fn=lines.append, **options)
    return lines[0]


def total_cells(text):
    (line,) = [line for line in text.split("\n") if "│ total" in line]
    return [cell.strip() for cell in line.split("│")[1:-1]]


def test_totals_carry_the_marks_of_their_layers():
    model = keras.Sequential(
        [keras.Input((None, 4)), keras_lab.BinaryDense(5), Holder()]
    )
    totals = describe(model)["totals"]
    assert totals["open"] and not totals["complete"]
    assert total_cells(text_of(model, exported=False))[-2:] == [
        "20* + ?",
        "0* + ?",
    ]


def test_counting_changes_nothing_in_the_model():
    model = shared_and_nested()
    config = model.get_config()
    describe(model)
    assert model.get_config() == config
    assert model.get_layer("block").output.shape == (None, 4, 4, 5)


def test_layers_that_are_not_built_are_named():
    class Network(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden = keras_lab.BinaryDense(4, name="hidden")
            self.out = keras_lab.BinaryDense(2, name="out")

        def build(self, shape):
            self.built = True

        def call(self, inputs):
            return self.out(self.hidden(inputs))

    model = Network()
    model.build((None, 20))
    assert describe(model)["notes"] == [
        f"Model '{model.name}' has no weights yet: give it a `keras.Input`, "
        "build it, or call it on data first."
    ]
    model.hidden.build((None, 20))
    content = describe(model)
    assert "without weights: out" in content["notes"][0]
    assert content["layers"][0]["binary_macs"] == 80
    assert not content["totals"]["complete"]


def test_a_binary_kernel_in_32_bits_is_marked(monkeypatch):
    model, why_float = small_convolution(), plan._why_float

    def only_convolutions(model, constant, *args):
        if "dense" in constant.path:
            return "so be it"
        return why_float(model, constant, *args)

    monkeypatch.setattr(plan, "_why_float", only_convolutions)
    content = describe(model, exported=True)
    row = content["layers"][-1]
    assert row["stored_as_float"]
    assert row["exported_bytes"] == 4 * row["binary_params"]
    assert f"{row['exported_bytes']:,}!" in text_of(model)
    assert any("marked !" in note for note in content["notes"])
    assert not content["layers"][0]["stored_as_float"]


def test_the_bytes_of_every_kernel_are_in_the_table(rng):
    """Also where the converter folds a batch norm into the next kernel."""
    model = keras.Sequential(
        [
            keras.Input((20,)),
            keras_lab.BinaryDense(16, name="first"),
            layers.BatchNormalization(),
            keras_lab.BinaryDense(10, name="second"),
        ]
    )
    gamma = model.layers[1].gamma
    gamma.assign(rng.uniform(0.5, 1.5, gamma.shape))
    row = describe(model, exported=True)["layers"][-1]
    expected = (640,) if row["stored_as_float"] else (20, 22, 24)
    assert row["exported_bytes"] in expected


def test_a_nan_is_called_a_nan():
    model = small_convolution()
    kernel = model.layers[0].kernel
    kernel.assign(np.where(np.arange(16) == 3, np.nan, kernel))
    notes = describe(model, exported=True)["notes"]
    assert any("NaN" in note and kernel.path in note for note in notes)


def test_the_table_fits_the_terminal(monkeypatch):
    model = small_convolution()
    monkeypatch.setenv("COLUMNS", "120")
    text = text_of(model, exported=False)
    assert max(len(line) for line in text.split("\n") if "│" in line) <= 120
    monkeypatch.setenv("COLUMNS", "40")
    assert "…" not in text_of(model, exported=False)  # No number is cut.


def test_a_file_larger_than_the_weights_is_no_compression_of_zero():
    model = keras.Sequential([keras.Input((4,)), keras_lab.BinaryDense(3)])
    text = text_of(model)
    assert "Compression: 0" not in text
    assert "times as large as the weights" in text
