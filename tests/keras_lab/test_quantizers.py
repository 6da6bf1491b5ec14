"""The quantizers, and the seven networks they make."""

import keras
import numpy as np
import pytest

import keras_lab
from keras_lab.quantizers import (
    BWN,
    LAB,
    BinaryConnect,
    SignActivation,
    get_input_quantizer,
    get_kernel_quantizer,
)
from tests.keras_lab.engine import MANY_STEPS
from tests.keras_lab.support import sequential

SEVEN = {
    "full precision": (None, None),
    "BinaryConnect": ("binary_connect", None),
    "BWN": ("bwn", None),
    "LAB": ("lab", None),
    "BNN": ("binary_connect", "sign"),
    "XNOR": ("bwn", "sign"),
    "LAB2": ("lab", "sign"),
}


@pytest.mark.parametrize(
    "network",
    [
        pytest.param(name, marks=() if name == "LAB2" else pytest.mark.slow)
        for name in SEVEN
    ],
)
def test_the_seven_networks_of_the_paper_learn(rng, network):
    kernel, inputs = SEVEN[network]
    model, options = sequential((16,)), {"kernel_quantizer": kernel}
    for units in (64, 64, 4):
        model.add(keras_lab.BinaryDense(units, use_bias=False, **options))
        model.add(keras.layers.BatchNormalization())
        if units > 4 and inputs is None:
            model.add(keras.layers.ReLU())
        options["input_quantizer"] = inputs  # Not of the first layer.
    x = rng.normal(size=(256, 16))
    label = np.argmax(x @ rng.normal(size=(16, 4)), axis=1)
    y = np.where(label[:, None] == np.arange(4), 1.0, -1.0)
    model.compile(keras_lab.LABAdam(0.01), "squared_hinge", **MANY_STEPS)
    model.fit(x, y, epochs=30, batch_size=64, verbose=0)
    accuracy = np.mean(np.argmax(model.predict(x, verbose=0), axis=1) == label)
    assert accuracy > 0.8


@pytest.mark.parametrize(
    ("name", "kind"),
    [("lab", LAB), ("bwn", BWN), ("binary_connect", BinaryConnect)],
)
def test_a_string_a_config_and_an_object_mean_the_same(name, kind):
    quantizer = get_kernel_quantizer(name)
    assert type(quantizer) is kind and quantizer.scale == "tensor"
    config = keras.saving.serialize_keras_object(kind(scale="channel"))
    assert type(get_kernel_quantizer(config)) is kind
    assert get_kernel_quantizer(config).scale == "channel"
    assert get_kernel_quantizer(quantizer) is quantizer
    assert get_kernel_quantizer(None) is None


def test_a_quantizer_in_the_wrong_place_is_refused():
    assert isinstance(get_input_quantizer("sign"), SignActivation)
    with pytest.raises(ValueError, match="input_quantizer"):
        get_input_quantizer(LAB())
    with pytest.raises(ValueError, match="kernel_quantizer"):
        get_kernel_quantizer(SignActivation())
    with pytest.raises(ValueError, match="scale='row'"):
        LAB(scale="row")


@pytest.mark.parametrize(
    ("quantizer", "text"),
    [
        (LAB(scale="channel"), "LAB(scale='channel')"),
        (BWN(), "BWN(scale='tensor')"),
        (BinaryConnect(), "BinaryConnect(scale='tensor')"),
        (SignActivation(), "SignActivation()"),
    ],
)
def test_a_quantizer_prints_as_the_code_that_makes_it(quantizer, text):
    assert repr(quantizer) == text
    assert eval(text).get_config() == quantizer.get_config()
