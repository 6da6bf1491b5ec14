"""Layers that lose precision in int8 are found and kept in float32."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.tflite_export.models import conv, depthwise, net, norm
from tests.tflite_export.support import randomize
from tflite_export import export_tflite, inspect, run
from tflite_export.formats import Note


def a_bad_layer_among_good_ones(*dense_units):
    """A depthwise kernel whose inputs differ much in size by channel.

    The batch norm after it makes the outputs equal in size again.
    """
    x = keras.Input((8, 8, 6))
    y = keras_lab.BinaryDepthwiseConv2D(3, name="good")(x)
    y = layers.ReLU()(layers.BatchNormalization()(y))
    y = layers.Rescaling([3000.0, 1, 1, 1, 1, 1])(y)
    y = keras_lab.BinaryDepthwiseConv2D(3, use_bias=False, name="bad")(y)
    y = layers.Rescaling([1 / 3000, 1, 1, 1, 1, 1])(y)
    y = layers.ReLU()(layers.BatchNormalization()(y))
    y = layers.Flatten()(y)
    for units in dense_units:
        y = keras_lab.BinaryDense(units, name=f"dense_{units}")(y)
    return randomize(keras.Model(x, y), 1)


@pytest.mark.parametrize(
    "format", ["packed", pytest.param("fast", marks=pytest.mark.slow)]
)
def test_only_the_layer_that_loses_precision_is_in_float(path, capsys, format):
    model = a_bad_layer_among_good_ones(7, 6, 5)
    report = export_tflite(model, path, format)
    found = report.in_float
    assert found.paths == ("bad/kernel",)
    assert found.int8_error > 0.1 >= report.agreement.relative_error
    assert found.more_bytes >= 0 and found.time_ratio > 0
    assert f"1 layer in float32: {found.more_bytes:,} bytes" in str(report)
    for rows in (report.layers, inspect(path).layers):
        notes = {row.layer: (row.arithmetic, row.note) for row in rows}
        assert notes.pop("bad/kernel") == ("float32", Note.KEPT_IN_FLOAT)
        assert set(notes.values()) == {("int8", "")}
    assert "looking for the layers" in capsys.readouterr().err
    assert len(keras_lab.binary_weights(model)) == 5
    x = np.random.default_rng(1).normal(size=(4, 8, 8, 6)).astype("f")
    (y,), expected = run(path, x).values(), model(x)
    assert np.linalg.norm(y - expected) < 0.1 * np.linalg.norm(expected)


@pytest.mark.slow
def test_a_small_packed_network_names_all_layers_in_float(path):
    """With one layer in float32 it takes fewer bytes if all of them are."""
    model = a_bad_layer_among_good_ones(5)
    report = export_tflite(model, path, "packed")
    assert {row.arithmetic for row in report.layers} == {"float32"}
    assert set(report.in_float.paths) == set(keras_lab.binary_weights(model))


def test_a_model_that_is_precise_enough_is_not_searched(path, capsys):
    model = randomize(net((8, 8, 4), depthwise(3), norm, conv(4, 3))(), 1)
    report = export_tflite(model, path, "fast")
    assert report.in_float is None and not capsys.readouterr().err


@pytest.mark.slow
def test_a_recurrent_layer_is_kept_in_float(path):
    """α·√units is far above 1: the state amplifies its errors."""
    keras.utils.set_random_seed(0)
    model = net((40, 6), lambda: keras_lab.BinaryLSTM(16, name="memory"))()
    for weight in keras_lab.binary_weights(model).values():
        weight.latent.assign(4 * np.sign(weight.latent))
        weight.refresh()
    report = export_tflite(model, path, "fast")
    assert set(report.in_float.paths) <= set(keras_lab.binary_weights(model))
    assert report.agreement.relative_error < 0.1 < report.in_float.int8_error
