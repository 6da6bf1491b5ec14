"""How far a file's outputs are from those of Keras, and what is too far."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.tflite_export.support import FORMATS
from tflite_export import (
    ConversionError,
    ValidationError,
    export_tflite,
    run,
)
from tflite_export.agreement import compare


@pytest.mark.parametrize("format", FORMATS)
def test_the_report_says_what_the_interpreter_computes(
    classifier, reports, format
):
    path, report = reports[format]
    model, x = classifier
    y = np.asarray(model(x))
    z = run(path.read_bytes(), {"pixels": x})["classes"]
    agreement = report.agreement
    assert agreement.samples == len(x) and agreement.data == "given"
    assert agreement.runtime == "ai_edge_litert"
    scale = np.abs(y).max()
    np.testing.assert_allclose(
        agreement.max_error, np.abs(z - y).max() / scale, rtol=1e-3, atol=1e-9
    )
    np.testing.assert_allclose(
        agreement.mean_error, np.abs(z - y).mean() / scale, rtol=1e-3, atol=1e-9
    )
    noise = np.linalg.norm((z - y).astype(np.float64))
    np.testing.assert_allclose(
        agreement.snr_db,
        20 * np.log10(np.linalg.norm(y) / noise),
        rtol=1e-2,
    )


@pytest.mark.parametrize(
    ("format", "advice"),
    [
        ("packed", "choose the format 'packed_float'"),
        ("packed_float", "a larger `tolerance`"),
    ],
)
def test_the_advice_fits_the_format(tmp_path, classifier, format, advice):
    with pytest.raises(ValidationError, match=advice):
        export_tflite(classifier[0], tmp_path / "m.tflite", format, tolerance=0)


def test_an_error_of_tensorflow_names_the_layer(tmp_path, monkeypatch):
    import tensorflow as tf

    def fail(self, inputs):
        raise tf.errors.UnimplementedError(None, None, "only NHWC")

    model = keras.Sequential(
        [
            keras.Input((3, 8, 8)),
            keras_lab.BinaryDepthwiseConv2D(
                3, data_format="channels_first", name="conv"
            ),
        ]
    )
    monkeypatch.setattr(layers.DepthwiseConv2D, "call", fail)
    with pytest.raises(ConversionError, match="channels_first': 'conv'"):
        export_tflite(model, tmp_path / "m.tflite")


def test_a_small_output_is_compared_by_its_own_size():
    expected = {"large": np.full((2, 3), 1e6), "small": np.full((2, 3), 1e-6)}
    actual = {**expected, "small": -expected["small"]}
    result = compare(expected, actual, "runtime", "given")
    assert result.max_error == pytest.approx(2)
    assert result.relative_error == pytest.approx(2)
    assert result.snr_db == pytest.approx(-20 * np.log10(2))


def test_an_output_of_zeros_is_compared_by_the_size_of_the_others():
    expected = {"y": np.ones((2, 3)), "zeros": np.zeros((2, 3))}
    actual = {**expected, "zeros": np.full((2, 3), 1e-3)}
    result = compare(expected, actual, "runtime", "given")
    assert result.max_error == pytest.approx(1e-3)
    assert np.isfinite(result.relative_error)
