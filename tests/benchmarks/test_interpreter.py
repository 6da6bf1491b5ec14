"""Files are measured as they are: compressed, or wrong."""

import gzip

import keras
import numpy as np
import pytest

import keras_lab
from benchmarks import interpreter
from benchmarks.peers.shared import to_tflite
from benchmarks.workers import Cannot


@pytest.fixture
def model():
    layers = [keras.Input((8,)), keras_lab.BinaryDense(4)]
    return keras.Sequential(layers)


def test_a_compressed_file_is_measured_as_it_is(model, tmp_path):
    path = tmp_path / "m.tflite.gz"
    path.write_bytes(gzip.compress(to_tflite(model)))
    result = interpreter.alone(str(path))
    assert result["load_seconds"] > 0
    assert result["peak_bytes"] >= result["bytes"]
    (times,) = interpreter.turns([str(path)], 1, 0.01)
    assert min(times) > 0


def test_a_file_that_computes_nothing_is_refused(model, tmp_path):
    model.layers[0].bias.assign(np.full(4, np.nan))
    path = tmp_path / "m.tflite"
    path.write_bytes(to_tflite(model))
    with pytest.raises(Cannot, match="outputs are NaN"):
        interpreter.alone(str(path))
