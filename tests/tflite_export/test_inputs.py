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


@pytest.mark.parametrize(
    ("make", "path", "options", "error", "match"),
    [
        (float_model, "m.tflite", {}, NothingBinaryError, "'plain' has no bin"),
        (unbuilt_model, "m.tflite", {}, ValueError, "'unbuilt' has no weights"),
        (lambda: 3, "m.tflite", {}, TypeError, "Received: model=3"),
        (
            subclassed_model,
            "m.tflite",
            {},
            ConversionError,
            "only Sequential and functional .* type Subclassed",
        ),
        (
            lambda: model_with_nan("alpha"),
            "m.tflite",
            {},
            ValidationError,
            "first/alpha' has a NaN",
        ),
        (
            lambda: model_with_nan("kernel"),
            "m.tflite",
            {},
            ValidationError,
            "first/kernel' has a NaN",
        ),
        (
            stateful_model,
            "m.tflite",
            {},
            ConversionError,
            "Layer 'memory' is stateful",
        ),
        (
            grouped_model,
            "m.tflite",
            {},
            ConversionError,
            "Layer 'groups' has groups=2",
        ),
        (
            None,
            "m.tflite",
            {"tolerance": "x"},
            ValueError,
            "Received: tolerance='x'",
        ),
        (
            None,
            "m.tflite",
            {"tolerance": float("nan")},
            ValueError,
            "Received: tolerance=nan",
        ),
        (
            None,
            "m.tflite",
            {"validation_data": [["a"] * 16]},
            ValueError,
            r"array of numbers for each input. Received: \[\['a'",
        ),
        (
            None,
            "m.tflite",
            {"validation_data": [[1, 2], [3]]},
            ValueError,
            "array of numbers for each input",
        ),
        (
            None,
            "m.tflite",
            {"validation_data": {"x": np.zeros((3, 16))}},
            ValueError,
            r"keys \['pixels'\]. Received: \['x'\]",
        ),
        (
            None,
            "m.onnx",
            {},
            ValueError,
            "end in .tflite. Received: path=.*m.on",
        ),
        (None, "folder.tflite", {}, ValueError, "is a directory. Received"),
        (None, "absent/m.tflite", {}, ValueError, "does not exist. Received"),
        (None, 3, {}, TypeError, "Received: path=3"),
        (
            None,
            "m.tflite",
            {"format": "onebit"},
            ValueError,
            "'packed', 'packed_float', 'fast', 'float'. Received: .*'onebit'",
        ),
        (
            None,
            "m.tflite",
            {"batch_size": 0},
            ValueError,
            "Received: batch_size=0",
        ),
        (
            None,
            "m.tflite",
            {"validation_data": np.zeros((3, 5))},
            ValueError,
            r"shapes \[\(None, 16\)\]. Received: \[\(3, 5\)\]",
        ),
        (
            None,
            "m.tflite",
            {"validation_data": np.full((3, 16), np.nan)},
            ValueError,
            "must be finite. Received: a NaN .* 'pixels'",
        ),
    ],
)
def test_bad_input_is_named_before_any_work(
    tmp_path, classifier, monkeypatch, make, path, options, error, match
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.tflite").mkdir()
    monkeypatch.setattr(
        export_module, "convert", lambda *args: pytest.fail("work was done")
    )
    model = classifier[0] if make is None else make()
    with pytest.raises(error, match=match):
        export_tflite(model, path, **options)
    assert [p.name for p in tmp_path.iterdir()] == ["folder.tflite"]


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
