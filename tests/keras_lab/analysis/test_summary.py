"""The summary's numbers: of the exported file, of NumPy, and by hand."""

import dataclasses
import sys

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.keras_lab.support import Holder, Subclassed, sequential
from tflite_export import export_tflite


def describe(model, exported=False):
    return keras_lab.summary(model, exported=exported, return_dict=True)


def character_lstm(units):
    """The paper's network for text: 87 characters, given by index."""
    lstm = keras_lab.BinaryLSTM(units, one_hot=87, return_sequences=True)
    return sequential((None, 1), lstm, layers.Dense(87), dtype="int32")


def shared_and_nested():
    inputs = keras.Input((6, 6, 3))
    conv = keras_lab.BinaryConv2D(5, 3, use_bias=False, name="conv")
    block = keras.Model(inputs, conv(inputs), name="block")
    shared = keras_lab.BinaryDense(4, use_bias=False, name="shared")
    inputs = keras.Input((6, 6, 3))
    flat = [layers.Flatten()(block(inputs)) for _ in range(2)]
    return keras.Model(inputs, shared(flat[0]) + shared(flat[1]))


def small_convolution():
    model = sequential((16, 16, 3))
    for filters in (16, 32):
        model.add(keras_lab.BinaryConv2D(filters, 3, use_bias=False))
        model.add(layers.BatchNormalization())
        model.add(layers.ReLU())
    model.add(layers.Flatten())
    model.add(keras_lab.BinaryDense(10))
    return model


def text_of(model, **options):
    lines = []
    keras_lab.summary(model, print_fn=lines.append, **options)
    return lines[0]


def cells(text, name):
    (line,) = [x for x in text.split("\n") if f"│ {name} " in x]
    return [cell.strip() for cell in line.split("│")[1:-1]]


@pytest.mark.parametrize(
    "make", [small_convolution, lambda: character_lstm(128), shared_and_nested]
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
    """Also a binary kernel that the file stores in 32 bits."""
    monkeypatch.setenv("COLUMNS", "200")
    model = small_convolution()
    module = sys.modules["keras_lab.analysis.summary"]
    export, path = module.trial_export, [*keras_lab.binary_weights(model)][-1]
    monkeypatch.setattr(
        module,
        "trial_export",
        lambda *args, **kwargs: dataclasses.replace(
            export(*args, **kwargs), not_packed=(path,)
        ),
    )
    text, content = text_of(model), describe(model, exported=True)
    for row in content["layers"]:
        line = cells(text, row["name"])
        assert line[0] == f"{row['name']} ({row['type']})"
        assert line[2] == f"{row['binary_params']:,}"
        assert line[7] == f"{row['binary_macs']:,}"
        if row["alpha"]:
            assert line[4] == f"{row['alpha'][0]:.4f}"
    assert f"{content['totals']['exported_bytes']:,}" in text
    first, last = content["layers"][0], content["layers"][-1]
    assert last["stored_as_float"] and not first["stored_as_float"]
    assert last["exported_bytes"] == 4 * last["binary_params"]
    assert f"{last['exported_bytes']:,}!" in text


def test_a_subclassed_model_is_counted_though_it_cannot_be_exported():
    conv = keras_lab.BinaryConv2D(4, 3, name="conv")
    model = Subclassed(conv, layers.Flatten(), layers.Dense(2, name="out"))
    assert "no weights yet" in text_of(model)
    conv.build((None, 5, 5, 1))
    model.built = True
    content = describe(model)
    assert any("without weights: " in note for note in content["notes"])
    assert content["totals"]["binary_macs"] == 3 * 3 * 9 * 4
    assert not content["totals"]["complete"]
    model(np.zeros((2, 5, 5, 1), "float32"))
    content = describe(model, exported=True)
    assert content["totals"]["binary_macs"] == 3 * 3 * 9 * 4
    assert content["totals"]["float_macs"] == 36 * 2
    assert "cannot be exported" in text_of(model)


def test_totals_carry_the_marks_of_their_layers_and_notes_say_why():
    model = sequential((None, 4), keras_lab.BinaryDense(5), Holder())
    totals = describe(model)["totals"]
    assert totals["open"] and not totals["complete"]
    assert cells(text_of(model, exported=False), "total")[-2] == "20* + ?"
    assert "no binary weights" in text_of(sequential((4,), layers.Dense(3)))
    model = sequential((4,), keras_lab.BinaryDense(3))
    assert "times as large as the weights" in text_of(model)
    kernel = model.layers[0].kernel
    kernel.assign(np.full((4, 3), np.nan))
    notes = describe(model, exported=True)["notes"]
    assert any("NaN" in note and kernel.path in note for note in notes)


def macs(model):
    totals = describe(model)["totals"]
    return totals["binary_macs"], totals["float_macs"], totals["xnor_macs"]


def test_the_papers_lstm():
    # One byte: its row of the kernel is looked up. The length is open.
    content = describe(character_lstm(512))
    assert content["totals"]["binary_macs"] == 4 * 512 * 512
    assert content["totals"]["float_macs"] == 512 * 87
    assert content["totals"]["open"]
    # 100 bytes, as one-hot vectors that are multiplied.
    lstm = keras_lab.BinaryLSTM(512, return_sequences=True)
    steps = sequential((100, 87), lstm, layers.Dense(87))
    per_step = 4 * 512 * (87 + 512)
    assert macs(steps) == (100 * per_step, 100 * 512 * 87, 0)
    assert not describe(steps)["totals"]["open"]


def test_sign_inputs_make_xnors_of_products():
    """In a recurrent layer, only of those with the state."""
    model = sequential((10, 3), keras_lab.BinaryLSTM(8, input_quantizer="sign"))
    assert macs(model) == (10 * 4 * 8 * (3 + 8), 0, 10 * 4 * 8 * 8)
    model.add(keras_lab.BinaryDense(5, input_quantizer="sign"))
    assert macs(model) == (10 * 4 * 8 * (3 + 8) + 40, 0, 10 * 4 * 8 * 8 + 40)
    model = sequential((784,), keras_lab.BinaryDense(9, kernel_quantizer=None))
    assert macs(model) == (0, 784 * 9, 0)


CELLS = [keras_lab.BinaryLSTMCell(3), keras_lab.BinaryGRUCell(2)]
# The shape of an input, the layer, and its MACs.
LAYERS = [
    ((7, 5), keras_lab.BinaryDense(3), 7 * 5 * 3),
    ((9, 4), keras_lab.BinaryConv1D(5, 3), 7 * 3 * 4 * 5),
    ((9, 8, 4), keras_lab.BinaryConv2D(6, 3, 2, "same"), 5 * 4 * 9 * 4 * 6),
    ((8, 8, 4), keras_lab.BinaryConv2D(6, 3, groups=2), 6 * 6 * 9 * 2 * 6),
    ((4, 5, 6, 2), keras_lab.BinaryConv3D(3, 2), 3 * 4 * 5 * 8 * 2 * 3),
    ((8, 7, 3), keras_lab.BinaryDepthwiseConv2D(3), 6 * 5 * 9 * 3),
    ((8, 7, 3), keras_lab.BinarySeparableConv2D(4, 3), 6 * 5 * 3 * (9 + 4)),
    # Each input pixel meets the whole kernel.
    ((5, 6, 3), keras_lab.BinaryConv2DTranspose(4, 3, 2), 5 * 6 * 9 * 3 * 4),
    ((6, 4), keras_lab.BinaryGRU(5), 6 * 3 * 5 * (4 + 5)),
    ((6, 4), keras_lab.BinarySimpleRNN(5), 6 * 5 * 9),
    ((6, 4), layers.RNN(CELLS), 6 * (4 * 3 * (4 + 3) + 3 * 2 * (3 + 2))),
    (
        (6, 4),
        layers.Bidirectional(keras_lab.BinaryLSTM(5)),
        2 * 6 * 4 * 5 * (4 + 5),
    ),
    (
        (6, 8, 8, 1),
        layers.TimeDistributed(keras_lab.BinaryConv2D(2, 3)),
        6 * 6 * 6 * 9 * 2,
    ),
]


@pytest.mark.parametrize(("shape", "layer", "expected"), LAYERS)
def test_every_layer_is_counted_right(shape, layer, expected):
    model = sequential(shape, layer)
    (row,) = describe(model)["layers"]
    assert row["binary_macs"] == expected
    latents = [w for w in model.weights if "kernel" in w.name]
    weights = sum(np.prod(w.shape) for w in latents)
    assert row["binary_params"] == weights
    assert row["float_params"] == model.count_params() - weights
    assert row["bytes"] == 4 * model.count_params()
    assert row["output_shape"] == model.output_shape


def test_a_shared_kernel_counts_once_and_is_multiplied_twice():
    model = shared_and_nested()
    config = model.get_config()
    content = describe(model)
    rows = {row["name"]: row for row in content["layers"]}
    assert rows["block/conv"]["binary_params"] == 9 * 3 * 5
    assert rows["block/conv"]["binary_macs"] == 2 * 4 * 4 * 9 * 3 * 5
    assert rows["shared"]["binary_params"] == 80 * 4
    assert rows["shared"]["binary_macs"] == 2 * 80 * 4
    assert content["totals"]["binary_params"] == 9 * 3 * 5 + 80 * 4
    assert content["totals"]["float_params"] == 2  # Two α.
    # Counting changes nothing in the model.
    assert model.get_config() == config


def test_a_nested_model_is_counted_at_the_sizes_it_is_called_with():
    inputs = keras.Input((None, None, 3))
    conv = keras_lab.BinaryConv2D(4, 3, padding="same", name="conv")
    block = keras.Model(inputs, conv(inputs))
    large, small = keras.Input((32, 32, 3)), keras.Input((8, 8, 3))
    both = keras.Model([large, small], [block(large), block(small)])
    content = describe(both)
    row = content["layers"][-1]
    assert row["binary_macs"] == (32 * 32 + 8 * 8) * 9 * 3 * 4
    assert not content["totals"]["open"]
    each = sequential((5, 8, 8, 3), layers.TimeDistributed(block))
    assert macs(each) == (5 * 8 * 8 * 108, 0, 0)
