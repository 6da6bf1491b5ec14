"""The arguments of `export_tflite`, checked before any work is done."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.tflite_export.support import randomize
from tflite_export import (
    ConversionError,
    NothingBinaryError,
    ValidationError,
    export_tflite,
    validate,
)
from tflite_export import export as export_module


def float_model():
    return keras.Sequential([keras.Input((4,)), layers.Dense(3)], name="plain")


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
    model = keras.Sequential(
        [keras.Input((4,)), keras_lab.BinaryDense(3, name="first")]
    )
    variable = getattr(model.layers[0], name)
    variable.assign(np.full(variable.shape, np.nan))
    return model


def stateful_model():
    layer = keras_lab.BinaryLSTM(3, stateful=True, name="memory")
    return keras.Sequential([keras.Input(batch_shape=(2, 4, 5)), layer])


def grouped_model():
    layer = keras_lab.BinaryConv3D(4, 2, groups=2, name="groups")
    return keras.Sequential([keras.Input((3, 3, 3, 4)), layer])


def unbuilt_model():
    return keras.Sequential([keras_lab.BinaryDense(3)], name="unbuilt")


@pytest.fixture
def check_refuses(tmp_path, monkeypatch):
    """Checks that an export raises before any work, and writes nothing."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.tflite").mkdir()
    monkeypatch.setattr(
        export_module, "convert", lambda *args: pytest.fail("work was done")
    )

    def check(error, match, model, path="m.tflite", **options):
        with pytest.raises(error, match=match):
            export_tflite(model, path, **options)
        assert [p.name for p in tmp_path.iterdir()] == ["folder.tflite"]

    return check


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (float_model, NothingBinaryError, "'plain' has no binary weights"),
        (unbuilt_model, ValueError, "'unbuilt' has no weights"),
        (lambda: 3, TypeError, "Received: model=3"),
        (subclassed_model, ConversionError, "functional .* type Subclassed"),
        (lambda: model_with_nan("alpha"), ValidationError, "first/alpha' has"),
        (lambda: model_with_nan("kernel"), ValidationError, "/kernel' has"),
        (stateful_model, ConversionError, "Layer 'memory' is stateful"),
        (grouped_model, ConversionError, "Layer 'groups' has groups=2"),
    ],
)
def test_a_model_that_cannot_be_exported_is_refused(
    check_refuses, make, error, match
):
    check_refuses(error, match, make())


@pytest.mark.parametrize(
    ("option", "value", "match"),
    [
        ("path", "m.onnx", "must end in one of .tflite, .tflz. Received"),
        ("path", "folder.tflite", "is a directory. Received"),
        ("path", "absent/m.tflite", "does not exist. Received"),
        ("format", "onebit", "'fast', 'float'. Received: format='onebit'"),
        ("batch_size", 0, "Received: batch_size=0"),
        ("tolerance", "x", "Received: tolerance='x'"),
        ("tolerance", float("nan"), "Received: tolerance=nan"),
    ],
)
def test_a_bad_option_is_named(check_refuses, classifier, option, value, match):
    check_refuses(ValueError, match, classifier[0], **{option: value})


def test_a_path_must_be_a_path(check_refuses, classifier):
    check_refuses(TypeError, "Received: path=3", classifier[0], path=3)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ([["a"] * 16], r"numbers for each input. Received: \[\['a'"),
        ([[1, 2], [3]], "array of numbers for each input"),
        ({"x": np.zeros((3, 16))}, r"keys \['pixels'\]. Received: \['x'\]"),
        (np.zeros((3, 5)), r"shapes \[\(None, 16\)\]. Received: \[\(3, 5\)\]"),
        (np.full((3, 16), np.nan), "must be finite. Received: .* 'pixels'"),
    ],
)
def test_bad_validation_data_are_named(check_refuses, classifier, data, match):
    check_refuses(ValueError, match, classifier[0], validation_data=data)


def two_inputs(structure):
    z, a = keras.Input((4,), name="zz"), keras.Input((4,), name="aa")
    y = keras_lab.BinaryDense(3)(z) + 9 * keras_lab.BinaryDense(3)(a)
    return randomize(keras.Model(structure(z, a), y))


@pytest.mark.parametrize(
    ("structure", "data"),
    [
        (lambda z, a: [z, a], {"zz": 2, "aa": 1}),
        (lambda z, a: [z, a], [2, 1]),
        (lambda z, a: {"zz": z, "aa": a}, {"zz": 2, "aa": 1}),
    ],
)
def test_validation_data_go_to_the_inputs_that_they_name(
    tmp_path, monkeypatch, structure, data
):
    given = {}
    run_it = validate.run
    monkeypatch.setattr(
        validate,
        "run",
        lambda content, inputs: given.update(inputs) or run_it(content, inputs),
    )
    data = keras.tree.map_structure(lambda n: np.full((5, 4), n), data)
    path = tmp_path / "m.tflite"
    export_tflite(two_inputs(structure), path, validation_data=data)
    assert {name: value[0, 0] for name, value in given.items()} == {
        "zz": 2,
        "aa": 1,
    }


@pytest.mark.parametrize(
    ("data", "received"),
    [
        (np.zeros((5, 4)), "ndarray"),
        (np.zeros((2, 5, 4)), "ndarray"),
        ([np.zeros((5, 4))], "list of 1"),
    ],
)
def test_one_array_is_not_given_to_several_inputs(tmp_path, data, received):
    model = two_inputs(lambda z, a: [z, a])
    match = rf"has 2 inputs.*\['zz', 'aa'\]. Received: {received}"
    with pytest.raises(ValueError, match=match):
        export_tflite(model, tmp_path / "m.tflite", validation_data=data)


@pytest.mark.parametrize(
    "wrap", [np.array, list, lambda rows: [np.array(rows)]]
)
def test_rows_of_one_input_may_be_lists(tmp_path, classifier, wrap):
    rows = wrap([[0.5] * 16, [1.0] * 16, [2.0] * 16])
    path = tmp_path / "m.tflite"
    report = export_tflite(classifier[0], path, validation_data=rows)
    assert report.agreement.samples == 3
