"""Arguments: what is wrong is named before any work is done."""

import functools

import keras
import numpy as np
import pytest

import keras_lab
import tflite_export
from tests.tflite_export.models import maker, net
from tests.tflite_export.support import Exported, randomize
from tflite_export import (
    ConversionError,
    NothingBinaryError,
    ValidationError,
    export_tflite,
    run,
)
from tflite_export import export as export_module
from tflite_export.inputs import validation_inputs

dense = maker(keras_lab.BinaryDense)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras_lab.BinaryDense(3)

    def call(self, x):
        return self.dense(x)


def subclassed_model():
    model = Subclassed()
    model(np.zeros((1, 4), "f"))
    return model


def model_with_nan(name):
    model = net((4,), dense(3, name="first"))()
    variable = getattr(model.layers[0], name)
    variable.assign(np.full(variable.shape, np.nan))
    return model


conv = maker(keras_lab.BinaryConv3D)(4, 2, groups=2, name="groups")
grouped_model = net((3, 3, 3, 4), conv)
float_model = net((4,), maker(keras.layers.Dense)(3))
binary_model = net((4,), dense(3))
fixed_model = net((4,), dense(3), batch_size=2)


def mean_over(axis, batch_size=None):
    x = keras.Input((4,), batch_size=batch_size)
    y = keras.ops.mean(keras_lab.BinaryDense(3, name="all")(x), axis)
    return keras.Model(x, y)


def model_of_input(dtype):
    x = keras.Input((4,), dtype=dtype, name="raw")
    vectors = keras.layers.StringLookup(vocabulary=["a"])(x)
    y = keras.ops.cast(vectors if dtype == "string" else x, "float32")
    return keras.Model(x, keras_lab.BinaryDense(3)(y))


def quantized(mode):
    model = net((4,), maker(keras.layers.Dense)(3, name="first"), dense(3))()
    model.layers[0].quantize(mode)
    return model


@pytest.mark.parametrize(
    ("make", "options", "error", "match"),
    [
        *(
            (net((4,), dense(3, name=name)), {}, ConversionError, match)
            for name, match in [
                ("_x", "Give it another `name`. Received: name='_x'"),
                ("my layer", "begins with a letter .* name='my layer'"),
                ("a\\b", "TensorFlow refuses"),
            ]
        ),
        (
            lambda: mean_over(None),
            {},
            ConversionError,
            r"no batch axis.*shape \(\)",
        ),
        (
            lambda: mean_over(0, batch_size=2),
            {},
            ConversionError,
            r"no batch axis.*shape \(3,\)",
        ),
        *(
            (functools.partial(make, kind), {}, ConversionError, match)
            for make, kind, match in [
                (model_of_input, "string", "'raw' .*numbers.* dtype='string'"),
                (model_of_input, "bfloat16", "Received: dtype='bfloat16'"),
                (quantized, "int8", "before `model.quantize`.* mode 'int8'"),
                (quantized, "float8", "before `model.quantize`"),
            ]
        ),
        (lambda: 3, {}, TypeError, "Received: model=3"),
        (lambda: keras.Sequential([dense(3)()]), {}, ValueError, "no weights"),
        (
            float_model,
            {},
            NothingBinaryError,
            "format 'float'. Received: format=",
        ),
        (subclassed_model, {}, ConversionError, "functional .* Subclassed"),
        (lambda: model_with_nan("alpha"), {}, ValidationError, "first/alpha'"),
        (lambda: model_with_nan("kernel"), {}, ValidationError, "t/kernel'"),
        (grouped_model, {}, ConversionError, "Received: groups=2"),
        (binary_model, {"path": 3}, TypeError, "Received: path=3"),
        (binary_model, {"path": "m.onnx"}, ValueError, "Received: path='m.onn"),
        (binary_model, {"path": "folder.tflite"}, ValueError, "a directory"),
        (binary_model, {"path": "no/m.tflite"}, ValueError, "does not exist"),
        (binary_model, {"format": "x"}, ValueError, "'packed', .*format='x'"),
        (binary_model, {"batch_size": 0}, ValueError, "batch_size=0"),
        (fixed_model, {"batch_size": 3}, ValueError, "batch_size=3"),
        (
            lambda: model_of_input("uint8"),
            {"validation_data": np.full((2, 4), 300)},
            ValueError,
            "of type uint8. Received: values from 300 to 300",
        ),
        (binary_model, {"tolerance": "x"}, ValueError, "tolerance='x'"),
        (binary_model, {"tolerance": np.nan}, ValueError, "tolerance=nan"),
        *(
            (binary_model, {"validation_data": data}, ValueError, match)
            for data, match in [
                ([["a"] * 4], r"numbers for each input. Received: \[\['a'"),
                ([[1, 2], [3]], "numbers for each input"),
                ({"x": np.zeros((3, 4))}, r"keys \[.*\]. Received: \['x'\]"),
                (np.zeros((3, 5)), r"\(None, 4\)\]. Received: \[\(3, 5\)\]"),
                (np.full((3, 4), np.nan), "must be finite. Received"),
            ]
        ),
    ],
)
def test_what_is_wrong_is_named_before_any_work(
    tmp_path, monkeypatch, make, options, error, match
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.tflite").mkdir()
    monkeypatch.setattr(
        export_module, "convert", lambda *args: pytest.fail("work was done")
    )
    model = make()
    with pytest.raises(error, match=match):
        export_tflite(model, **{"path": "m.tflite", **options})
    assert [p.name for p in tmp_path.iterdir()] == ["folder.tflite"]


@pytest.mark.parametrize(
    ("function", "argument", "error", "match"),
    [
        (tflite_export.Format, "onebit", ValueError, "Received: .*'onebit'"),
        (tflite_export.pack, 3, TypeError, "Received: 3 of type int"),
        (tflite_export.inspect, 3, TypeError, "Received: 3 of type int"),
        (tflite_export.read_packed, "absent", FileNotFoundError, "'absent"),
        (tflite_export.inspect, ".", IsADirectoryError, r"Received: '\.'"),
    ],
)
def test_other_functions_name_what_they_received(
    function, argument, error, match
):
    with pytest.raises(error, match=match):
        function(argument)


@pytest.fixture(scope="module")
def two_inputs():
    z, a = keras.Input((4,), name="z"), keras.Input((6,), name="a")
    y = keras_lab.BinaryDense(3)(z) - keras_lab.BinaryDense(3)(a)
    return Exported(randomize(keras.Model([z, a], y)))


@pytest.mark.parametrize("samples", [1, 5, 300])
@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_each_input_gets_its_own_array(two_inputs, rng, samples, kind):
    z, a = (rng.normal(size=(samples, n)).astype("f") for n in (4, 6))
    data = {"a": a, "z": z} if kind is dict else kind([z, a])
    (y,) = run(two_inputs.content("packed_float"), data).values()
    expected = two_inputs.model([z, a])
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    arrays, origin = validation_inputs(two_inputs.model, data)
    assert origin == "given"
    np.testing.assert_array_equal(arrays["z"], z)
    np.testing.assert_array_equal(arrays["a"], a)


X = np.zeros((5, 4), "f")


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (X, r"has 2 inputs.*\['z', 'a'\]. Received: ndarray"),
        (np.stack([X, X]), "Received: ndarray"),
        ([X], "Received: list of 1"),
        ([X, X, X], "Received: list of 3"),
        ({"a": X}, r"keys \['a', 'z'\]. Received: \['a'"),
    ],
)
def test_one_array_is_not_given_to_several_inputs(
    tmp_path, two_inputs, data, match
):
    path = tmp_path / "m.tflite"
    with pytest.raises(ValueError, match=match):
        run(two_inputs.content("packed_float"), data)
    with pytest.raises(ValueError, match=match):
        export_tflite(two_inputs.model, path, validation_data=data)


@pytest.mark.parametrize(
    "wrap", [np.array, list, lambda rows: [np.array(rows)]]
)
def test_rows_of_one_input_may_be_lists(reports, wrap):
    rows = [[0.5] * 16, [1.0] * 16, [2.0] * 16]
    path, _ = reports["packed"]
    (actual,) = run(path, np.array(rows, "f")).values()
    (expected,) = run(path, wrap(np.array(rows, "f"))).values()
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("dtype", ["int8", "bool"])
def test_a_dense_layer_may_read_integers(tmp_path, dtype):
    """What keeps the converter from folding a batch norm is for floats."""
    x = keras.Input((4,), dtype=dtype)
    model = keras.Model(x, keras_lab.BinaryDense(3)(x))
    data = np.array([[-5, 0, 3, 100], [1, 1, 0, 0]], dtype)
    report = export_tflite(
        model, tmp_path / "m.tflite", "packed_float", validation_data=data
    )
    assert report.agreement.relative_error < 1e-6
