"""The summary's numbers, beside the files that the exporter writes."""

import dataclasses
import sys

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
from tflite_export import export_tflite


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
        small_convolution,
        lambda: character_lstm(128),
        shared_and_nested,
    ],
    ids=["convolution", "lstm", "shared"],
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
    model = small_convolution()
    summary_module = sys.modules["keras_lab.analysis.summary"]
    path = [*keras_lab.binary_weights(model)][-1]
    export = summary_module.trial_export

    def without_the_last(*args, **kwargs):
        report = export(*args, **kwargs)
        return dataclasses.replace(report, not_packed=(path,))

    monkeypatch.setattr(summary_module, "trial_export", without_the_last)
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
