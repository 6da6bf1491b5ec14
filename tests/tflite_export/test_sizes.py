"""How small the files are: the paper's networks."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from keras_lab.binary_weight import weights_of
from tests.tflite_export.support import Exported, randomize
from tflite_export import read_packed


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


@pytest.mark.parametrize(
    ("make", "ratio"), [(mlp, 28), (vgg, 28)], ids=["mlp", "vgg"]
)
def test_a_packed_network_is_a_small_fraction_of_the_float_one(make, ratio):
    # A batch norm that is folded in leaves another scale in each channel.
    model = randomize(make())
    exported = Exported(model)
    floats = len(exported.content("float"))
    for format in ("packed", "packed_float"):
        content = exported.content(format)
        assert floats / len(content) >= ratio
    trained = {
        weight.latent.path: weight.latent.numpy()
        for weight in weights_of(model.weights)
    }
    packed = read_packed(exported.content("packed"))
    assert len(packed) == len(trained)
    for weight in packed:
        np.testing.assert_array_equal(
            weight.signs > 0, trained[weight.path] >= 0
        )
