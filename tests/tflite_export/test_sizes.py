"""How small the files are: the paper's networks."""

import keras
import pytest
from keras import layers

import keras_lab
from tests.tflite_export.support import (
    Exported,
    check_weights_are_read_back,
    randomize,
)


def mlp():
    model = keras.Sequential([keras.Input((784,))])
    for units in (2048, 2048, 2048, 10):
        model.add(keras_lab.BinaryDense(units, use_bias=False))
        model.add(layers.BatchNormalization())
        model.add(layers.ReLU())
    return model


def vgg():
    """(2×128C3)-MP2-(2×256C3)-MP2-(2×512C3)-MP2-(2×1024FC)-10SVM."""
    model = keras.Sequential([keras.Input((32, 32, 3))])
    for filters in (128, 256, 512):
        for last in (False, True):
            model.add(
                keras_lab.BinaryConv2D(
                    filters, 3, padding="same", use_bias=False
                )
            )
            if last:
                model.add(layers.MaxPooling2D())
            model.add(layers.BatchNormalization())
            model.add(layers.ReLU())
    model.add(layers.Flatten())
    for units in (1024, 1024, 10):
        model.add(keras_lab.BinaryDense(units, use_bias=False))
        model.add(layers.BatchNormalization())
        model.add(layers.ReLU())
    return model


def lstm():
    return keras.Sequential([keras.Input((32, 512)), keras_lab.BinaryLSTM(512)])


@pytest.mark.parametrize(
    ("make", "ratio"),
    [
        pytest.param(mlp, 28, id="mlp"),
        pytest.param(vgg, 28, id="vgg", marks=pytest.mark.slow),
        pytest.param(lstm, 24, id="lstm"),
    ],
)
def test_a_packed_network_is_a_small_fraction_of_the_float_one(make, ratio):
    # A batch norm that is folded in leaves another scale in each channel.
    model = randomize(make())
    exported = Exported(model)
    floats = len(exported.content("float"))
    for format in ("packed", "packed_float"):
        content = exported.content(format)
        assert floats / len(content) >= ratio
        check_weights_are_read_back(model, content)
