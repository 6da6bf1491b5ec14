"""Files run in the stock interpreters."""

import sys

import keras
import numpy as np
import pytest

import keras_lab
from tests.tflite_export.support import Exported, exported, randomize
from tflite_export import run
from tflite_export.interpreter import interpreter_class


def test_tf_lite_is_used_where_litert_is_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    assert interpreter_class()[1] == "tf.lite"


@pytest.fixture(scope="module")
def difference():
    """A model that computes f(a) − f(b)."""
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    layer = keras_lab.BinaryDense(3)
    return Exported(randomize(keras.Model([a, b], layer(a) - layer(b))))


@pytest.mark.parametrize("samples", [1, 5, 300])
def test_each_input_gets_its_own_array(difference, rng, samples):
    a, b = rng.normal(size=(2, samples, 4)).astype("f")
    content = difference.content("packed_float")
    expected = np.asarray(difference.model([a, b]))
    for data in ([a, b], (a, b), {"b": b, "a": a}):
        (y,) = run(content, data).values()
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_one_array_is_not_fed_to_several_inputs(difference, rng):
    x = rng.normal(size=(5, 4)).astype("f")
    content = difference.content("packed_float")
    for data in (x, [x], [x, x, x]):
        with pytest.raises(ValueError, match=r"has 2 inputs.*\['a', 'b'\]"):
            run(content, data)
    with pytest.raises(ValueError, match=r"keys \['a', 'b'\]. Received: \['a'"):
        run(content, {"a": x})


def test_one_input_may_be_an_array_or_a_list_with_it(rng):
    model = exported("dense")
    x = rng.normal(size=(5, 20)).astype("f")
    content = model.content("packed_float")
    (expected,) = run(content, x).values()
    (actual,) = run(content, [x]).values()
    np.testing.assert_array_equal(actual, expected)
