"""A trained classifier, and its files in every format."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.tflite_export.support import FORMATS
from tflite_export import export_tflite

CLASSES = 4


@pytest.fixture
def path(tmp_path):
    """A file to export to."""
    return tmp_path / "m.tflite"


@pytest.fixture(scope="package")
def classifier():
    """A classifier of Gaussian clusters, and its test inputs."""
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(1)
    centers = rng.normal(size=(CLASSES, 16))
    labels = rng.integers(0, CLASSES, 1024)
    x = (centers[labels] + 0.7 * rng.normal(size=(1024, 16))).astype("f")
    y = 2 * np.eye(CLASSES, dtype="f")[labels] - 1
    model = keras.Sequential([keras.Input((16,), name="pixels")])
    for units in (64, 64):
        model.add(keras_lab.BinaryDense(units, use_bias=False))
        model.add(layers.BatchNormalization(momentum=0.8))
        model.add(layers.ReLU())
    model.add(keras_lab.BinaryDense(CLASSES, use_bias=False, name="scores"))
    model.add(layers.BatchNormalization(momentum=0.8, name="classes"))
    model.compile(keras_lab.LABAdam(0.01), "squared_hinge", jit_compile=False)
    model.fit(x[:512], y[:512], batch_size=64, epochs=6, verbose=0)
    return model, x[512:]


@pytest.fixture(scope="package")
def reports(classifier, tmp_path_factory):
    """The path and the report of the classifier's file in each format."""
    folder = tmp_path_factory.mktemp("export")
    model, x = classifier
    found = {}
    for format in FORMATS:
        path = folder / f"{format}.tflite"
        report = export_tflite(model, path, format, validation_data=x)
        found[format] = path, report
    return found
