"""A small network, its data, and ways to train it under a monitor."""

import keras
import numpy as np

import keras_lab
from keras_lab.callbacks import BinaryMonitor


def network(optimizer=None, dropout=0.2, **compile_options):
    """A small network with dropout and batch norm."""
    model = keras.Sequential(
        [
            keras.Input((20,)),
            keras_lab.BinaryDense(16, name="dense_1"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(dropout, seed=3),
            keras_lab.BinaryDense(10, name="dense_2"),
        ]
    )
    optimizer = optimizer or keras_lab.LABAdam(0.01)
    options = {
        "jit_compile": False,
        **compile_options,
    }  # XLA is slow to compile.
    model.compile(optimizer, "squared_hinge", **options)
    return model


def data(samples=96):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(samples, 20)).astype("float32")
    labels = rng.integers(0, 10, (samples, 1))
    return x, np.where(labels == np.arange(10), 1.0, -1.0).astype("float32")


def measured(model, change=lambda: None, **options):
    """The logs of one epoch, in which `change` is all that happens."""
    monitor = BinaryMonitor(log_quantities="all", **options)
    monitor.set_model(model)
    monitor.on_train_begin()
    monitor.on_epoch_begin(0)
    change()
    logs = {}
    monitor.on_epoch_end(0, logs)
    return logs


def fit(model, monitor, epochs, first=0):
    x, y = data()
    model.fit(
        x,
        y,
        batch_size=16,
        initial_epoch=first,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=[monitor],
    )


def saved(model, path):
    model.save(path)
    return keras.models.load_model(path)


def start():
    keras.utils.set_random_seed(6)
    return network(dropout=0.0)  # A loaded model drops others.
