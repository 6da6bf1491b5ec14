"""The report on a file: printed, as JSON, and found again in the file."""

import json

import pytest

import tflite_export
from tests.tflite_export.support import FORMATS
from tflite_export import inspect


@pytest.mark.parametrize("format", FORMATS)
def test_the_report_can_be_printed_read_as_json_and_found_in_the_file(
    reports, format
):
    path, report = reports[format]
    content = json.loads(report.to_json())
    assert content["file_bytes"] == path.stat().st_size
    assert content["float_bytes"] == reports["float"][0].stat().st_size
    assert [row["weights"] for row in content["layers"]] == [1024, 4096, 256]
    assert all(row["kind"] == "binary" for row in content["layers"])
    text = str(report)
    for row in report.layers:
        assert row.layer in text and row.operator in text
    assert "expected RAM" in text and "equal predictions" in text
    found = inspect(path)
    assert [row.weights for row in found.layers] == [1024, 4096, 256]
    assert found.file_bytes == report.file_bytes
    assert found.operators == report.operators
    assert found.float_bytes == report.float_bytes


def test_alpha_is_in_the_table(classifier, reports):
    model, _ = classifier
    _, report = reports["packed"]
    alphas = [
        float(layer.alpha.numpy())
        for layer in model.layers
        if hasattr(layer, "alpha")
    ]
    assert [row.alpha for row in report.layers] == [(a,) for a in alphas]
    assert f"{alphas[0]:.4g}" in str(report)


def test_pack_and_readers_name_what_they_received():
    with pytest.raises(TypeError, match="Received: 3 of type int"):
        tflite_export.pack(3)
    with pytest.raises(TypeError, match="Received: 3 of type int"):
        tflite_export.inspect(3)
    with pytest.raises(FileNotFoundError, match="Received: 'absent"):
        tflite_export.read_packed("absent.tflite")
    with pytest.raises(IsADirectoryError, match=r"Received: '\.'"):
        tflite_export.inspect(".")
