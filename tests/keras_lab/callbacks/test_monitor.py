"""The monitor where things are not as usual: late, resumed, reused, broken."""

import csv
import shutil
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_lab
from keras_lab.analysis.history import read_history
from keras_lab.callbacks import BinaryMonitor
from tests.keras_lab.callbacks.test_callbacks import (
    data,
    fit,
    network,
    saved,
    start,
)


def steps_of(monitor):
    return [
        row["step"] for row in monitor.history if "dense_1" in row["weight"]
    ]


def flips_of(rows):
    return [row["flips"] for row in rows if "dense_1" in row["weight"]]


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras_lab.BinaryDense(10, name="dense_1")

    def call(self, inputs):
        return self.dense(inputs)


@pytest.mark.parametrize(
    "make",
    [
        Subclassed,
        lambda: keras.Sequential([keras_lab.BinaryDense(10, name="dense_1")]),
    ],
    ids=["subclassed", "sequential"],
)
def test_a_model_that_its_first_step_builds_is_monitored(make):
    model = make()
    model.compile(keras_lab.LABAdam(0.01), "squared_hinge", jit_compile=False)
    monitor = BinaryMonitor()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        logs = model.fit(
            *data(), epochs=2, verbose=0, callbacks=[monitor]
        ).history
    assert logs["dense_1/alpha"][1] == model.layers[-1].alpha.numpy()
    first, second = flips_of(monitor.history)
    assert first is None and second > 0
    assert np.isnan(logs["dense_1/flips"][0])


def test_every_n_steps_the_epochs_end_is_measured_too(tmp_path):
    seen = []

    class Watch(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            alpha = float(self.model.get_layer("dense_1").alpha.numpy())
            seen.append((logs["dense_1/alpha"], alpha))

    monitor = BinaryMonitor(every=4)
    log = tmp_path / "log.csv"
    network().fit(
        *data(),
        batch_size=32,  # Three steps an epoch, fewer than four.
        epochs=4,
        verbose=0,
        callbacks=[monitor, Watch(), keras.callbacks.CSVLogger(str(log))],
    )
    assert len(seen) == 4 and all(a == b for a, b in seen)
    assert steps_of(monitor) == [3, 4, 6, 8, 9, 12]
    with open(log) as file:
        rows = list(csv.DictReader(file))
    assert [float(row["dense_1/alpha"]) for row in rows] == [a for a, _ in seen]


def test_what_has_no_value_any_more_is_not_repeated():
    class NoRate(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.model.optimizer.learning_rate = 0.01 if epoch != 1 else 0.0

    monitor = BinaryMonitor()
    logs = network().fit(
        *data(), epochs=3, verbose=0, callbacks=[NoRate(), monitor]
    )
    d = logs.history["dense_1/d_median"]
    assert list(np.isnan(d)) == [False, True, False]
    rows = [row for row in monitor.history if "dense_1" in row["weight"]]
    assert [row["d_median"] is None for row in rows] == [False, True, False]


def test_one_monitor_for_two_models_keeps_them_apart():
    def model(units, name):
        layers = [keras.Input((20,)), keras_lab.BinaryDense(10, name=name)]
        if units:
            layers.insert(1, keras_lab.BinaryDense(units, name="hidden"))
        model = keras.Sequential(layers)
        model.compile(keras_lab.LABAdam(0.01), "squared_hinge")
        return model

    monitor = BinaryMonitor()
    first, second = model(8, "out"), model(5, "other")
    second.fit(*data(), epochs=2, verbose=0)  # It is further than the first.
    first.fit(*data(), verbose=0, callbacks=[monitor])
    logs = second.fit(*data(), verbose=0, callbacks=[monitor]).history
    assert "other/alpha" in logs and "out/alpha" not in logs
    assert np.isnan(logs["hidden/flips"][0])  # No row at its first step.


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_resumed_run_measures_at_the_same_steps(tmp_path, epochs):
    whole, parts = tmp_path / "whole.csv", tmp_path / "parts.csv"
    fit(start(), BinaryMonitor(whole, every=4), 4)
    model = start()
    fit(model, BinaryMonitor(parts, every=4), epochs)
    model = saved(model, tmp_path / "model.keras")
    fit(model, BinaryMonitor(parts, every=4), 4, first=epochs)
    assert parts.read_text() == whole.read_text()
    assert None not in flips_of(read_history(parts))


def test_with_gradient_accumulation_a_step_is_an_update():
    optimizer = keras_lab.LABAdam(0.01, gradient_accumulation_steps=4)
    model, monitor = network(optimizer), BinaryMonitor(every=1)
    model.fit(*data(), batch_size=8, verbose=0, callbacks=[monitor])
    assert steps_of(monitor) == [1, 2, 3]


def test_two_fits_have_one_axis_in_tensorboard_and_in_the_csv(tmp_path):
    model, monitor = network(), BinaryMonitor(log_dir=tmp_path)
    for _ in range(2):
        model.fit(*data(), epochs=2, verbose=0, callbacks=[monitor])
    steps = [
        event.step
        for file in sorted(tmp_path.iterdir())
        for event in tf.compat.v1.train.summary_iterator(str(file))
        for value in event.summary.value
        if value.tag == "dense_1/alpha"
    ]
    assert steps == steps_of(monitor) == [3, 6, 9, 12]


def test_a_folder_that_disappears_does_not_end_the_training(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    monitor = BinaryMonitor(folder / "monitor.csv")

    class Remove(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 1:
                shutil.rmtree(folder)

    with pytest.warns(UserWarning, match=r"monitor\.csv.*No such") as caught:
        network().fit(
            *data(), epochs=4, verbose=0, callbacks=[monitor, Remove()]
        )
    assert len([w for w in caught if "monitor.csv" in str(w.message)]) == 1
    assert steps_of(monitor) == [3, 6, 9, 12]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"quantities": None}, ValueError, "quantities=None"),
        ({"quantities": 3}, ValueError, "quantities=3"),
        ({"quantities": [["alpha"]]}, ValueError, r"\[\['alpha'\]\]"),
        ({"log_dir": 5}, TypeError, "log_dir=5"),
        ({"log_dir": __file__}, ValueError, r"a file.*test_monitor\.py"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        BinaryMonitor(**arguments)
