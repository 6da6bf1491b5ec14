"""`export_tflite`: what it writes, and when it writes nothing."""

import json
import sys

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.tflite_export.models import dense, lstm, net, norm
from tests.tflite_export.support import (
    FORMATS,
    RUNTIMES,
    change_files,
    change_sign_bits,
)
from tflite_export import (
    ConversionError,
    ValidationError,
    export_tflite,
    inspect,
    run,
)
from tflite_export.interpreter import interpreter_module


@pytest.mark.parametrize("format", FORMATS)
def test_the_agreement_is_what_the_interpreters_compute(
    classifier, reports, format
):
    path, report = reports[format]
    model, x = classifier
    y = np.asarray(model(x), np.float64)
    for options in RUNTIMES:
        outputs = run(path, {"pixels": x}, **options)
        equal = outputs["classes"].argmax(1) == y.argmax(1)
        assert np.mean(equal) >= 0.995
    z = run(path, x)["classes"]
    agreement = report.agreement
    assert agreement.samples == len(x) and agreement.data == "given"
    assert agreement.runtime == "ai_edge_litert"
    noise, scale = np.abs(z - y), np.abs(y).max()
    expected = {
        "max_error": noise.max() / scale,
        "mean_error": noise.mean() / scale,
        "relative_error": np.linalg.norm(noise) / np.linalg.norm(y),
        "equal_predictions": np.mean(z.argmax(1) == y.argmax(1)),
        "snr_db": 20 * np.log10(np.linalg.norm(y) / np.linalg.norm(noise)),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(
            getattr(agreement, name), value, rtol=1e-2, atol=1e-9, err_msg=name
        )


@pytest.mark.parametrize("format", FORMATS)
def test_the_report_is_printed_read_as_json_and_found_in_the_file(
    classifier, reports, format
):
    path, report = reports[format]
    trained = keras_lab.binary_weights(classifier[0])
    assert report.file_bytes == path.stat().st_size
    assert report.float_bytes == reports["float"][0].stat().st_size
    assert [row.weights for row in report.layers] == [1024, 4096, 256]
    assert report.to_json() == json.dumps(
        json.loads(report.to_json()), indent=1
    )
    assert "expected RAM" in str(report) and "equal predictions" in str(report)
    for row, (layer, weight) in zip(report.layers, trained.items()):
        assert row.operator in str(report)
        if format != "float":
            assert row.layer == layer and layer in str(report)
            assert row.alpha == (float(weight.alpha.numpy()),)
            assert f"{row.alpha[0]:.4g}" in str(report)
    found = json.loads(inspect(path).to_json())
    expected = json.loads(report.to_json()) | {"agreement": None}
    if format == "float":
        expected["format"] = None
    assert found == expected


@pytest.mark.parametrize("batch_size", [None, 5])
def test_an_open_batch_is_said_to_be_slow_where_it_is(
    path, classifier, batch_size
):
    report = export_tflite(classifier[0], path, batch_size=batch_size)
    assert report.batch_size == inspect(path).batch_size == batch_size
    assert ("large batches are faster" in str(report)) == (batch_size is None)


def test_tf_lite_is_used_if_litert_is_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    assert interpreter_module()[1] == "tf.lite"
    with pytest.raises(ImportError):
        interpreter_module("litert")


def flip_one_bit(flat):
    change_sign_bits(flat, lambda words: np.append(words[0] ^ 1, words[1:]))


def swap_an_input(flat):
    flat.subgraphs[0].operators[-1].inputs[1] = 0


def no_change(flat):
    pass


@pytest.mark.parametrize(
    ("change", "options", "match"),
    [
        (
            no_change,
            {"tolerance": 0},
            "tolerance 0. int8 .* not the cause.* larger `tole",
        ),
        (flip_one_bit, {"format": "packed_float"}, "disagrees with Keras"),
        (swap_an_input, {}, "cannot run the"),
    ],
)
def test_a_wrong_file_is_not_written(
    path, classifier, monkeypatch, change, options, match
):
    path.write_bytes(b"old")
    change_files(monkeypatch, change)
    with pytest.raises(ValidationError, match=match):
        export_tflite(classifier[0], path, **options)
    assert list(path.parent.iterdir()) == [path]
    assert path.read_bytes() == b"old"


def model_of_nan(monkeypatch):
    model = net((4,), norm, dense(3))()
    model.layers[0].gamma.assign([np.nan] * 4)
    return model


@keras.saving.register_keras_serializable("tests")
class Volume(layers.Layer):
    def call(self, x):
        return x * keras.ops.reshape(keras.ops.det(x), (-1, 1, 1))


def model_of_a_missing_operator(monkeypatch):
    # Keras' scope of the layer "volume" is "volume_1" in the graph.
    inner = [keras.Input((4, 4)), Volume(name="volume")]
    return keras.Sequential(
        [
            keras.Input((4, 4)),
            keras_lab.BinaryDense(4),
            layers.ReLU(name="volume_1"),
            Volume(name="volume_2"),
            keras.Sequential(inner, name="inner_7"),
        ]
    )


def model_that_no_cpu_runs(monkeypatch):
    import tensorflow as tf

    def fail(self, inputs):
        raise tf.errors.UnimplementedError(None, None, "only NHWC")

    monkeypatch.setattr(layers.DepthwiseConv2D, "call", fail)
    conv = keras_lab.BinaryDepthwiseConv2D(
        3, data_format="channels_first", name="conv"
    )
    return keras.Sequential([keras.Input((3, 8, 8)), conv])


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (model_of_nan, ValidationError, "itself has a NaN"),
        (
            model_of_a_missing_operator,
            ConversionError,
            "MatrixDeterminant, in layer 'inner_7/volume', layer 'volume_2'",
        ),
        (model_that_no_cpu_runs, ConversionError, "channels_first': 'conv'"),
    ],
)
def test_a_model_that_cannot_be_converted_or_run_is_an_error(
    path, monkeypatch, make, error, match
):
    with pytest.raises(error, match=match):
        export_tflite(make(monkeypatch), path)


def test_a_model_without_binary_weights_is_exported_in_float(path):
    full = {"kernel_quantizer": None}
    model = net((6, 4), lstm(5, **full), dense(3, name="scores", **full))()
    report = export_tflite(model, path, "float")
    assert report.agreement.relative_error < 1e-5 and report.format == "float"
    rows = inspect(path).layers
    assert {row.kind for row in rows} == {"float"}
    assert rows == report.layers and "scores/MatMul" in rows[0].layer
