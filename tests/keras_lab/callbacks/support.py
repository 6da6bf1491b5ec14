"""A small network and its data."""

import keras
import numpy as np

import keras_lab
from tests.keras_lab.engine import FEW_STEPS
from tests.keras_lab.support import sequential


def network(optimizer=None, dropout=0.2, **options):
    """A small network with dropout and batch norm."""
    model = sequential(
        (20,),
        keras_lab.BinaryDense(16, name="dense_1"),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(dropout, seed=3),
        keras_lab.BinaryDense(10, name="dense_2"),
    )
    optimizer = optimizer or keras_lab.LABAdam(0.01)
    options = options or FEW_STEPS
    model.compile(optimizer, "squared_hinge", **options)
    return model


def data():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(96, 20)).astype("float32")
    labels = rng.integers(0, 10, (96, 1))
    return x, np.where(labels == np.arange(10), 1.0, -1.0).astype("float32")
