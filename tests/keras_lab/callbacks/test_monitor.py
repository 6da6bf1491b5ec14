"""`BinaryMonitor` records what is true, and does not change the training."""

import contextlib
import shutil
import warnings

import keras
import numpy as np
import pytest

import keras_lab
from keras_lab.analysis.history import CSV_COLUMNS, read_history
from keras_lab.callbacks import BinaryMonitor
from tests.keras_lab.callbacks.support import data, network
from tests.keras_lab.engine import NAME, slow_on_tensorflow
from tests.keras_lab.support import assert_same, saved_and_loaded


def fit(model, *callbacks, epochs=1, first=0, batch_size=32):
    return model.fit(
        *data(),
        batch_size=batch_size,
        initial_epoch=first,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=list(callbacks),
    ).history


def column(rows, name):
    return [row[name] for row in rows if "dense_1" in row["weight"]]


@pytest.mark.parametrize(
    ("kind", "every", "steps"),
    [
        ("steps_per_execution", 3, {4, 8, 12, 16, 20, 24}),
        *(
            pytest.param(kind, "epoch", {12, 24}, marks=pytest.mark.slow)
            for kind in ("MirroredStrategy", "jit_compile")
        ),
    ],
)
def test_a_monitored_training_is_the_same_to_the_bit(
    kind, every, steps, strategy, tmp_path
):
    def train(*callbacks):
        keras.utils.set_random_seed(5)
        options = {"jit_compile": kind == "jit_compile"}
        if kind == "steps_per_execution":
            options[kind] = 4
        replicas = kind == "MirroredStrategy"
        with strategy.scope() if replicas else contextlib.nullcontext():
            model = network(**options)
        fit(model, *callbacks, epochs=2, batch_size=8)
        return model

    monitor = BinaryMonitor(tmp_path / "monitor.csv", every)
    watched, alone = train(monitor), train()
    for a, b in ((watched, alone), (watched.optimizer, alone.optimizer)):
        values = [
            [keras.ops.convert_to_numpy(v) for v in x.variables] for x in (a, b)
        ]
        assert_same(*values)
    assert {row["step"] for row in monitor.history} == steps
    alpha = alone.get_layer("dense_2").alpha
    assert monitor.history[-1]["alpha"] == keras.ops.convert_to_numpy(alpha)


def start():
    keras.utils.set_random_seed(6)
    return network(dropout=0.0)  # A loaded model drops others.


@pytest.mark.parametrize(
    "every", [pytest.param("epoch", marks=slow_on_tensorflow), 2]
)
def test_after_a_resume_the_history_goes_on(tmp_path, every):
    path, options = tmp_path / "monitor.csv", {"every": every}
    fit(start(), BinaryMonitor(path, **options), epochs=4)
    whole = path.read_text()
    model = start()  # A training from the start starts a new file.
    fit(model, BinaryMonitor(path, **options), epochs=1)
    checkpoint = saved_and_loaded(model, tmp_path)
    # Rows beyond the checkpoint are written again.
    fit(model, BinaryMonitor(path, **options), epochs=2, first=1)
    fit(checkpoint, BinaryMonitor(path, **options), epochs=4, first=1)
    assert path.read_text() == whole
    flips = column(read_history(path), "flips")
    assert None not in flips and any(flips)


def test_a_second_fit_goes_on_and_flips_across_a_gap_are_empty():
    monitor, model = BinaryMonitor(), start()
    for _ in range(2):
        logs = fit(model, monitor, epochs=2)
    assert list(logs) == ["loss"]  # Nothing more was asked for.
    fit(model)  # Not monitored.
    fit(model, monitor, epochs=2)
    assert column(monitor.history, "step") == [3, 6, 9, 12, 18, 21]
    flips = column(monitor.history, "flips")
    assert [share is None for share in flips] == [False] * 4 + [True, False]


def test_every_n_steps_the_epochs_end_is_measured_too(tmp_path):
    """The logs, callbacks after the monitor, and the CSV have its numbers."""
    path, seen = tmp_path / "monitor.csv", []

    class Watch(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append(logs["dense_1/alpha"])
            assert seen[-1] == self.model.get_layer("dense_1").alpha.numpy()

    monitor = BinaryMonitor(path, every=4, log_quantities=["alpha", "flips"])
    # Three steps per epoch, fewer than four.
    logs = fit(network(), monitor, Watch(), epochs=4)
    names = [f"dense_{n}/{q}" for n in (1, 2) for q in ("alpha", "flips")]
    assert sorted(logs) == sorted(["loss", *names])
    assert column(monitor.history, "step") == [3, 4, 6, 8, 9, 12]
    assert logs["dense_1/alpha"] == seen
    assert path.read_text().split("\n")[0] == ",".join(CSV_COLUMNS)
    assert read_history(path) == monitor.history


def test_a_model_that_its_first_step_builds_is_monitored():
    model = keras.Sequential([keras_lab.BinaryDense(10, name="dense_1")])
    model.compile(keras_lab.LABAdam(0.05), "squared_hinge", run_eagerly=True)
    monitor = BinaryMonitor(log_quantities="all")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        logs = fit(model, monitor, epochs=2)
    assert logs["dense_1/alpha"][1] == model.layers[-1].alpha.numpy()
    first, second = column(monitor.history, "flips")
    assert second > 0
    # On JAX and torch, Keras builds the model before the first step.
    assert (first is None) == (NAME == "tensorflow")
    assert np.isnan(logs["dense_1/flips"][0]) == (first is None)


def test_a_folder_that_disappears_does_not_end_the_training(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    monitor = BinaryMonitor(folder / "monitor.csv")

    remove = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda *_: shutil.rmtree(folder, ignore_errors=True)
    )
    with pytest.warns(UserWarning, match=r"monitor\.csv.*No such"):
        fit(network(), monitor, remove, epochs=2)
    assert column(monitor.history, "step") == [3, 6]


def test_wrong_arguments_and_files_are_named(tmp_path):
    with pytest.raises(ValueError, match="every='step'"):
        BinaryMonitor(every="step")
    with pytest.raises(ValueError, match="near_zero=-1"):
        BinaryMonitor(near_zero=-1)
    with pytest.raises(ValueError, match=r"=\['beta'\]"):
        BinaryMonitor(log_quantities=["beta"])
    path = tmp_path / "mine.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"not the CSV.*mine\.csv"):
        BinaryMonitor(path)
    assert path.read_text() == "a,b\n1,2\n"
