"""Arguments: what is wrong is named before any work is done."""

import keras
import numpy as np
import pytest

import keras_lab
import tflite_export
from tests.tflite_export.models import dense, maker, net
from tests.tflite_export.support import Exported, randomize
from tflite_export import (
    ConversionError,
    NothingBinaryError,
    ValidationError,
    export_tflite,
    run,
)
from tflite_export import export as export_module
from tflite_export.prepare import as_functional
from tflite_export.samples import random_inputs, validation_inputs


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
    assign = getattr(variable, "assign_unchecked", variable.assign)
    assign(np.full(variable.shape, np.nan))
    return model


def model_with_stale_alpha():
    model = net((4,), dense(3))()
    model.layers[0].kernel.assign(np.full((4, 3), 10.0))
    return model


conv = maker(keras_lab.BinaryConv3D)(4, 2, groups=2, name="groups")
float_dense = maker(keras.layers.Dense)
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


def quantized():
    model = net((4,), float_dense(3, name="first"), dense(3))()
    model.layers[0].quantize("int8")
    return model


def check_refused(folder, monkeypatch, model, error, match, **options):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(
        export_module, "convert", lambda *args: pytest.fail("work was done")
    )
    with pytest.raises(error, match=match):
        export_tflite(model, **{"path": "m.tflite", **options})
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: 3, TypeError, "Received: model=3"),
        (lambda: keras.Sequential([dense(3)()]), ValueError, "no weights"),
        (subclassed_model, ConversionError, "functional .* Subclassed"),
        (net((4,), float_dense(3)), NothingBinaryError, "Received: format="),
        (lambda: model_with_nan("alpha"), ValidationError, "first/alpha'"),
        (lambda: model_with_nan("kernel"), ValidationError, "t/kernel'"),
        (model_with_stale_alpha, ValueError, r"keras_lab.refresh\(model\)"),
        (net((3, 3, 3, 4), conv), ConversionError, "Received: groups=2"),
        (quantized, ConversionError, "before `model.quantize`.* mode 'int8'"),
        (
            net((4,), dense(3, name="my layer")),
            ConversionError,
            "begins with a letter .* name='my layer'",
        ),
        (
            lambda: model_of_input("string"),
            ConversionError,
            "'raw' .*numbers.* dtype='string'",
        ),
        (
            lambda: mean_over(None),
            ConversionError,
            r"no batch axis.*shape \(\)",
        ),
        (
            lambda: mean_over(0, batch_size=2),
            ConversionError,
            r"no batch axis.*shape \(3,\)",
        ),
    ],
)
def test_a_model_that_cannot_be_exported_is_refused_before_any_work(
    tmp_path, monkeypatch, make, error, match
):
    check_refused(tmp_path, monkeypatch, make(), error, match)


@pytest.mark.parametrize(
    ("make", "name", "value", "match"),
    [
        (binary_model, "path", "m.onnx", "Received: path='m.onn"),
        (binary_model, "path", "no/m.tflite", "does not exist"),
        (binary_model, "format", "x", "'packed', .*format='x'"),
        (binary_model, "other_weights", "x", "'int8'.*other_weights='x'"),
        (binary_model, "batch_size", 0, "batch_size=0"),
        (fixed_model, "batch_size", 3, "batch_size=3"),
        (binary_model, "tolerance", "x", "tolerance='x'"),
        (binary_model, "tolerance", np.nan, "tolerance=nan"),
        *(
            (make, "validation_data", data, match)
            for make, data, match in [
                (
                    lambda: model_of_input("uint8"),
                    np.full((2, 4), 300),
                    "of type uint8. Received: values from 300 to 300",
                ),
                (binary_model, [["a"] * 4], r"numbers for each.*: \[\['a'"),
                (binary_model, [[1, 2], [3]], "numbers for each input"),
                (binary_model, {"x": 3}, r"keys \[.*\]. Received: \['x'\]"),
                (binary_model, np.zeros((3, 5)), r"\(None, 4\).*\(3, 5\)"),
                (binary_model, np.full((3, 4), np.nan), "must be finite"),
            ]
        ),
    ],
)
def test_a_wrong_argument_is_named_before_any_work(
    tmp_path, monkeypatch, make, name, value, match
):
    options = {name: value}
    check_refused(tmp_path, monkeypatch, make(), ValueError, match, **options)


@pytest.mark.parametrize(
    ("function", "argument", "error", "match"),
    [
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


def shifted():
    x = keras.Input((6,), dtype="int32")
    return keras.Model(x, keras.layers.Embedding(9, 4)(x + 1))


class Positions(keras.layers.Layer):
    """Looks up where an input is, and not what it is."""

    def build(self, shape):
        self.rows = keras.layers.Embedding(*shape[1:])
        self.rows.build()

    def call(self, x):
        return x + self.rows(np.arange(x.shape[1]))


def embeddings(*rows):
    x = keras.Input((1, 6))
    found = [keras.layers.Embedding(n, 4)(x[:, 0]) for n in rows]
    return keras.Model(x, keras.layers.Concatenate()(found))


one_hot = maker(keras_lab.BinaryLSTM)(8, one_hot=11)
lookup = maker(keras_lab.BinaryEmbedding)


@pytest.mark.parametrize(
    ("make", "samples", "rows"),
    [
        (net((6,), lookup(1000, 4)), 11, 66),
        (net((6,), lookup(1000, 4), dtype="int32"), 11, 66),
        (net((6,), lookup(500, 4), dtype="int8"), 11, None),
        (net((1,), lookup(1000, 4)), 64, 64),
        (net((1,), lookup(10, 4)), 10, 10),
        (net((100,), lookup(10, 4)), 8, 10),
        (lambda: embeddings(30, 20), 8, 20),
        (net((6, 1), one_hot, dtype="int32"), 8, 11),
        (net((5,), net((5,), lookup(40, 4))), 8, 40),
        (shifted, 8, 2),
        (net((9, 4), Positions), 8, 8 * 9 * 4),
        (net((9, 4), dense(3)), 8, 8 * 9 * 4),
    ],
)
def test_random_indices_are_of_all_rows_of_the_smallest_table(
    make, samples, rows
):
    model = keras_lab.freeze(make(), strict=False)
    (x,) = random_inputs(as_functional(model)).values()
    assert len(x) == samples
    assert rows in (None, np.unique(x).size)
    assert np.any(x < 0) == (rows == 8 * 9 * 4)
    model(x)  # Each index exists.


X = np.zeros((5, 4), "f")


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (np.stack([X, X]), r"has 2 inputs.*\['z', 'a'\]. Received: ndarray"),
        ([X], "Received: list of 1"),
        ({"a": X}, r"keys \['a', 'z'\]. Received: \['a'"),
    ],
)
def test_one_array_is_not_given_to_several_inputs(
    path, two_inputs, data, match
):
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
