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
    ("kernel", "inputs"),
    [
        pytest.param(
            *quantizers,
            marks=() if name == "LAB2" else pytest.mark.slow,
            id=name,
        )
        for name, quantizers in SEVEN.items()
    ],
)
def test_the_seven_networks_of_the_paper_learn(rng, kernel, inputs):
    model = keras.Sequential([keras.Input((16,))])
    for number in range(3):
        model.add(
            keras_lab.BinaryDense(
                64 if number < 2 else 4,
                use_bias=False,
                kernel_quantizer=kernel,
                input_quantizer=inputs if number else None,
            )
        )
        model.add(keras.layers.BatchNormalization())
        if number < 2 and inputs is None:
            model.add(keras.layers.ReLU())
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
