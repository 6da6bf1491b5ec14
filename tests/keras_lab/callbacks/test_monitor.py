"""`BinaryMonitor` tells the truth, and the training is the same without it."""

import csv
import shutil
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_lab
from keras_lab.analysis.history import CSV_COLUMNS, read_history
from keras_lab.analysis.measurements import QUANTITIES
from keras_lab.callbacks import BinaryMonitor
from tests.keras_lab.callbacks.support import data, fit, network, saved, start


def steps_of(monitor):
    return [
        row["step"] for row in monitor.history if "dense_1" in row["weight"]
    ]


def flips_of(rows):
    return [row["flips"] for row in rows if "dense_1" in row["weight"]]


def test_the_logs_have_only_what_is_asked_for(capsys):
    model = network()
    monitor = BinaryMonitor()
    logs = model.fit(*data(), verbose=2, callbacks=[monitor]).history
    assert list(logs) == ["loss"] and "alpha" not in capsys.readouterr().out
    assert len(monitor.history) == 2
    monitor = BinaryMonitor(log_quantities=["flips"])
    logs = model.fit(*data(), verbose=2, callbacks=[monitor]).history
    assert sorted(logs) == ["dense_1/flips", "dense_2/flips", "loss"]
    assert "dense_1/flips" in capsys.readouterr().out


TRAININGS = {
    "jit_compile": {"jit_compile": True},
    "steps_per_execution": {"steps_per_execution": 4},
    "MirroredStrategy": {},
}


@pytest.mark.parametrize(
    ("kind", "every"),
    [
        ("steps_per_execution", 3),
        ("MirroredStrategy", "epoch"),
        pytest.param("jit_compile", "epoch", marks=pytest.mark.slow),
        pytest.param("steps_per_execution", "epoch", marks=pytest.mark.slow),
        pytest.param("MirroredStrategy", 3, marks=pytest.mark.slow),
    ],
)
def test_a_monitored_training_is_the_same_to_the_bit(
    kind, every, strategy, tmp_path
):
    def train(callbacks):
        keras.utils.set_random_seed(5)
        if kind == "MirroredStrategy":
            with strategy.scope():
                model = network(**TRAININGS[kind])
        else:
            model = network(**TRAININGS[kind])
        model.fit(
            *data(), batch_size=8, epochs=2, verbose=0, callbacks=callbacks
        )
        return model

    monitor = BinaryMonitor(
        tmp_path / "monitor.csv", tmp_path / "events", every
    )
    watched, alone = train([monitor]), train([])
    for a, b in zip(watched.get_weights(), alone.get_weights()):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(watched.optimizer.variables, alone.optimizer.variables):
        a, b = keras.ops.convert_to_numpy(a), keras.ops.convert_to_numpy(b)
        np.testing.assert_array_equal(a, b)
    assert len(watched.variables) == len(alone.variables)
    steps = {row["step"] for row in monitor.history}
    expected = {"epoch": {12, 24}, 3: {3, 6, 9, 12, 15, 18, 21, 24}}[every]
    if kind == "steps_per_execution" and every == 3:
        expected = {4, 8, 12, 16, 20, 24}
    assert steps == expected
    last = monitor.history[-1]
    alpha = alone.get_layer("dense_2").alpha
    assert last["alpha"] == keras.ops.convert_to_numpy(alpha)


def test_after_a_resume_the_history_goes_on(tmp_path):
    whole, parts = tmp_path / "whole.csv", tmp_path / "parts.csv"
    fit(start(), BinaryMonitor(whole), 4)
    model = start()
    fit(model, BinaryMonitor(parts), 2)
    model = saved(model, tmp_path / "model.keras")
    fit(model, BinaryMonitor(parts), 4, first=2)
    assert parts.read_text() == whole.read_text()
    assert any(row["flips"] > 0 for row in read_history(parts)[4:])


def test_rows_beyond_the_resumed_checkpoint_come_again(tmp_path):
    path = tmp_path / "monitor.csv"
    model = start()
    fit(model, BinaryMonitor(path), 2)
    checkpoint = saved(model, tmp_path / "model.keras")
    fit(model, BinaryMonitor(path), 3, first=2)
    first_time = path.read_text()
    fit(checkpoint, BinaryMonitor(path), 3, first=2)
    assert path.read_text() == first_time


def test_flips_across_a_gap_are_empty(tmp_path):
    path = tmp_path / "monitor.csv"
    model = start()
    fit(model, BinaryMonitor(path), 1)
    fit(model, BinaryMonitor(), 2, first=1)  # The file has no such epoch.
    fit(model, BinaryMonitor(path), 4, first=2)
    flips = [r["flips"] for r in read_history(path) if "dense_1" in r["weight"]]
    assert flips[1] is None and None not in (flips[0], flips[2])


def test_a_training_from_the_start_starts_a_new_file(tmp_path):
    path = tmp_path / "monitor.csv"
    fit(start(), BinaryMonitor(path), 2)
    first_time = path.read_text()
    fit(start(), BinaryMonitor(path), 2)
    assert path.read_text() == first_time


def test_the_same_monitor_goes_on_in_a_second_fit(tmp_path):
    monitor, model = BinaryMonitor(), start()
    fit(model, monitor, 2)
    fit(model, monitor, 2)
    assert [row["step"] for row in monitor.history[::2]] == [6, 12, 18, 24]
    assert all(row["flips"] is not None for row in monitor.history)


def test_what_keras_and_the_csv_see(tmp_path):
    path, log = tmp_path / "monitor.csv", tmp_path / "log.csv"
    monitor = BinaryMonitor(path, log_quantities=["alpha", "flips"])
    history = network().fit(
        *data(),
        epochs=2,
        verbose=0,
        callbacks=[monitor, keras.callbacks.CSVLogger(str(log))],
    )
    names = [f"dense_{n}/{q}" for n in (1, 2) for q in ("alpha", "flips")]
    assert sorted(history.history) == sorted(["loss", *names])
    with open(log) as file:
        logged = list(csv.DictReader(file))
    with open(path) as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert [row["weight"] for row in rows] == 2 * [
        "dense_1/kernel",
        "dense_2/kernel",
    ]
    for epoch in (0, 1):
        assert rows[2 * epoch]["epoch"] == str(epoch)
        assert float(rows[2 * epoch]["alpha"]) == float(
            logged[epoch]["dense_1/alpha"]
        )
    assert read_history(path) == monitor.history


def test_tensorboard_gets_scalars_and_histograms(tmp_path):
    monitor = BinaryMonitor(log_dir=tmp_path)
    model = network()
    model.fit(*data(), epochs=2, verbose=0, callbacks=[monitor])
    (file,) = tmp_path.iterdir()
    found = {}
    for event in tf.compat.v1.train.summary_iterator(str(file)):
        for value in event.summary.value:
            plugin = value.metadata.plugin_data.plugin_name
            tensor = tf.make_ndarray(value.tensor)
            found[plugin, value.tag, event.step] = tensor
    for quantity in QUANTITIES:
        value = found["scalars", f"dense_1/{quantity}", 6]
        np.testing.assert_allclose(
            value, monitor.history[-2][quantity], rtol=1e-6
        )
    w = model.get_layer("dense_1").kernel.numpy()
    buckets = found["histograms", "dense_1/kernel", 6]
    counts, edges = np.histogram(w, len(buckets))
    np.testing.assert_array_equal(buckets[:, 2], counts)
    np.testing.assert_allclose(buckets[:, 0], edges[:-1])


def test_a_model_without_binary_layers_is_trained_all_the_same(tmp_path):
    model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(10)])
    model.compile("sgd", "mse")
    path = tmp_path / "monitor.csv"
    with pytest.warns(UserWarning, match="no binary weights"):
        model.fit(*data(), verbose=0, callbacks=[BinaryMonitor(path)])
    assert not path.exists()


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
    monitor = BinaryMonitor(log_quantities="all")
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

    monitor = BinaryMonitor(every=4, log_quantities=["alpha"])
    log = tmp_path / "log.csv"
    network().fit(
        *data(),
        batch_size=32,  # Three steps per epoch, fewer than four.
        epochs=4,
        verbose=0,
        callbacks=[monitor, Watch(), keras.callbacks.CSVLogger(str(log))],
    )
    assert len(seen) == 4 and all(a == b for a, b in seen)
    assert steps_of(monitor) == [3, 4, 6, 8, 9, 12]
    with open(log) as file:
        rows = list(csv.DictReader(file))
    assert [float(row["dense_1/alpha"]) for row in rows] == [a for a, _ in seen]


@pytest.mark.parametrize("epochs", [1, pytest.param(2, marks=pytest.mark.slow)])
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
        ({"every": 0}, ValueError, "every=0"),
        ({"every": "step"}, ValueError, "every='step'"),
        ({"log_quantities": "alpha"}, ValueError, "log_quantities='alpha'"),
        ({"log_quantities": ["beta"]}, ValueError, r"=\['beta'\]"),
        ({"log_quantities": None}, ValueError, "log_quantities=None"),
        ({"log_quantities": [["alpha"]]}, ValueError, r"\[\['alpha'\]\]"),
        ({"near_zero": -1}, ValueError, "near_zero=-1"),
        ({"filename": "monitor.txt"}, ValueError, "monitor.txt"),
        ({"filename": "nowhere/monitor.csv"}, ValueError, "does not exist"),
        ({"log_dir": 5}, TypeError, "log_dir=5"),
        ({"log_dir": __file__}, ValueError, r"a file.*test_monitor\.py"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        BinaryMonitor(**arguments)


def test_a_file_of_another_origin_is_not_overwritten(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"mine\.csv.*not the CSV"):
        BinaryMonitor(path)
    assert path.read_text() == "a,b\n1,2\n"
