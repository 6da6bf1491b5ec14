"""Runs of the paper's recipes, on networks that train in seconds."""

import base64
import dataclasses
import json
import math
import shutil

import filelock
import keras
import numpy as np
import pytest

from examples.paper import train
from examples.paper.data import Dataset, Part, text_file
from examples.paper.measurements import histogram, recurrent_gradient
from examples.paper.recipes import RECIPES, Plan, Recipe
from examples.paper.results import Finished, RunError, select
from examples.paper.schemes import SCHEMES


def tiny_data(_folder=None):
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(10, 784))
    parts = []
    for count in (60, 20, 20):
        y = rng.integers(0, 10, count).astype(np.uint8)
        x = centres[y] + rng.normal(size=(count, 784))
        parts.append(Part(x.astype(np.float32), y))
    return Dataset(*parts, classes=10, files={"none": "0" * 64})


class EagerRecipe(Recipe):
    """So few steps take less time than tracing one."""

    def build(self, *args, **options):
        model = super().build(*args, **options)
        model.run_eagerly = True
        return model


TINY = dataclasses.replace(
    EagerRecipe(**vars(RECIPES["mnist"])),
    data=tiny_data,
    sizes={"width": 16},
    batch=8,
    epochs=3,
    decay=dataclasses.replace(RECIPES["mnist"].decay, after=(1, 2)),
)


def tiny_run(folder, recipe=TINY, log=lambda line: None, **options):
    plan = Plan(recipe, **{"scheme": "lab2", "seed": 3, **options})
    return train.run(plan, None, folder, jit_compile=False, log=log)


def files_of(folder):
    path = folder / "mnist" / "lab2-3.json"
    return path, path.with_suffix(".checkpoint.npz")


def checkpoint_arrays(folder):
    with np.load(files_of(folder)[1]) as file:
        return dict(file)


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """A folder with a run of three epochs, and its result."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, tiny_run(folder)


@pytest.fixture(scope="module")
def first_epoch(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first")
    tiny_run(folder, epochs=1)
    return folder


@pytest.fixture
def begun(first_epoch, tmp_path):
    """A folder with a run that has one epoch."""
    return shutil.copytree(first_epoch, tmp_path / "begun")


def test_an_interrupted_run_continues_to_the_same_result(whole_run, begun):
    """Bit for bit, after it was planned shorter and then killed."""
    lines = []

    def interrupt(line):
        lines.append(line)
        if len(lines) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tiny_run(begun, log=interrupt)
    path, _ = files_of(begun)
    half = json.loads(path.read_text())
    assert (half["epochs_done"], half["epochs_planned"]) == (2, 3)
    assert "epochs 2 to 3" in lines[0] and "epoch 2/3" in lines[1]
    path.unlink()  # As if killed between the checkpoint and the result.
    resumed = tiny_run(begun)
    folder, whole = whole_run
    for name, values in whole["history"].items():
        if "seconds" not in name:
            assert resumed["history"][name] == values, name
    for name in ("selected", "hits", "data", "parameters"):
        assert resumed[name] == whole[name]
    assert [s["first_epoch"] for s in resumed["sessions"]] == [1, 2, 3]
    expected = checkpoint_arrays(folder)
    for key, array in checkpoint_arrays(begun).items():
        if key != "result":
            np.testing.assert_array_equal(array, expected[key])


def test_a_result_is_complete(whole_run):
    folder, result = whole_run
    written = json.loads(files_of(folder)[0].read_text())
    assert written == json.loads(json.dumps(result))
    assert written["data"]["train"] == 60
    history = written["history"]
    for name in ("train_error", "validation_loss", "test_error", "seconds"):
        assert len(history[name]) == 3
    rates = [0.005, 0.0005, 0.00005]
    assert history["learning_rate"] == pytest.approx(rates)
    alphas = [values[-1] for name, values in history.items() if "alpha" in name]
    assert len(alphas) == 4 and all(0 < alpha < 1 for alpha in alphas)
    assert history["zeroed_gradients"] == [0, 0, 0]
    # The bits of the best epoch, padded to whole bytes.
    bits = np.frombuffer(base64.b64decode(written["hits"]), np.uint8)
    right = np.unpackbits(bits, count=20).mean()
    error = written["selected"]["test_error"]
    assert 100 * (1 - right) == pytest.approx(error)
    session = written["sessions"][0]
    assert {"commit", "machine", "keras", "tensorflow"} <= set(session)
    # Each epoch trains on 7 batches of 8: the last 4 of 60 are left out.
    scalars = [a for a in checkpoint_arrays(folder).values() if a.ndim == 0]
    assert any(a.dtype.kind == "i" and a == 3 * 7 for a in scalars)


def test_a_text_gives_cross_entropy_eight_alphas_and_gradients(tmp_path):
    text = b"the cat sat on the mat and the dog sat on the log. " * 40
    (tmp_path / "text").write_bytes(text)
    recipe = dataclasses.replace(
        RECIPES["war_and_peace"],
        data=lambda folder, steps: text_file(tmp_path / "text", steps, 10),
        sizes={"cells": 8, "steps": 100},
        batch=10,
        epochs=3,
    )
    plan = Plan(recipe, "lab", sizes={"steps": 5})
    lines = []
    result = train.run(
        plan, None, tmp_path, jit_compile=False, log=lines.append
    )
    path = tmp_path / "war_and_peace-steps5" / "lab-1.json"
    assert json.loads(path.read_text()) == result
    losses = result["history"]["test_loss"]
    # Better than without any knowledge, and better with each epoch.
    assert math.log(len(set(text))) > losses[0] > losses[1] > losses[2] > 0
    assert f"test {losses[2]:.3f} nats, best epoch: 3" in lines[-1]
    for gate in "ifco":
        # LAB weighs |w| by the curvature; the mean is BWN's α.
        alpha = result["history"][f"lstm/recurrent_alpha_{gate}"][-1]
        ratio = result["history"][f"lstm/recurrent_ratio_{gate}"][-1]
        assert 0.5 < ratio < 2 and ratio != 1 and 0 < alpha < 1
    rows = result["rows"]
    assert sum(rows["count"]) == 5 * result["data"]["train"]
    assert {len(values) for values in rows.values()} == {len(set(text))}
    gradient = result["recurrent_gradient"]
    outside = gradient["below"] + gradient["above"] + gradient["not_finite"]
    assert sum(gradient["counts"]) + outside == 4 * 8 * 8


def test_a_network_that_diverges_has_no_error(tmp_path):
    def one_is_nan(folder):
        data = tiny_data()
        data.train.x[5] = np.nan
        return data

    broken = dataclasses.replace(TINY, data=one_is_nan, batch=60, epochs=1)
    lines = []
    result = tiny_run(tmp_path, broken, lines.append, scheme="full_precision")
    assert result["history"]["validation_error"] == [None]
    # All weights have a gradient that is NaN.
    assert result["history"]["zeroed_gradients"][0] > 784 * 16
    assert result["selected"] is None
    assert "diverged" in lines[-1]


# Results and checkpoints that do not fit.


def test_a_finished_result_is_not_overwritten(whole_run):
    folder, _ = whole_run
    for epochs in (3, 2):
        with pytest.raises(Finished, match=r"lab2-3\.json is finished"):
            tiny_run(folder, epochs=epochs)


def change_result(path, checkpoint):
    content = json.loads(path.read_text())
    content["history"]["test_error"][0] += 1
    path.write_text(json.dumps(content))


def damage_array(path, checkpoint):
    content = bytearray(checkpoint.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 50] = bytes(50)
    checkpoint.write_bytes(content)


def other_data(folder):
    return dataclasses.replace(tiny_data(), files={})


@pytest.mark.parametrize(
    ("change", "complaint", "recipe"),
    [
        (lambda path, _: path.write_text("{"), "json cannot be read", {}),
        (change_result, "different runs", {}),
        (damage_array, r"checkpoint\.npz cannot be read", {}),
        (lambda _, checkpoint: checkpoint.unlink(), "1 of 3 epochs", {}),
        (lambda *_: None, "batch=8, not 20", {"batch": 20}),
        (lambda *_: None, "other data.*--data-dir", {"data": other_data}),
    ],
)
def test_files_that_cannot_be_continued_are_named(
    begun, change, complaint, recipe
):
    change(*files_of(begun))
    before = files_of(begun)[0].read_bytes()
    with pytest.raises(RunError, match=rf"lab2-3\..*{complaint}"):
        tiny_run(begun, dataclasses.replace(TINY, **recipe))
    assert files_of(begun)[0].read_bytes() == before


def test_two_processes_do_not_work_on_the_same_result(tmp_path):
    path, _ = files_of(tmp_path)
    path.parent.mkdir()
    with filelock.FileLock(path.with_name(f".{path.name}.lock")):
        with pytest.raises(filelock.Timeout):
            tiny_run(tmp_path)


# Parts of a run.


def test_schemes_share_weights_and_order_and_seeds_do_not():
    def kernel(scheme, seed):
        keras.utils.set_random_seed(seed)
        model = TINY.build(SCHEMES[scheme], 10)
        return model.layers[0].kernel.numpy()

    np.testing.assert_array_equal(kernel("lab", 1), kernel("bnn", 1))
    assert (kernel("lab", 1) != kernel("lab", 2)).all()
    order = train.epoch_order(1000, seed=1, epoch=2)
    np.testing.assert_array_equal(np.sort(order), np.arange(1000))
    for seed, epoch in ((1, 3), (2, 2)):
        assert (order != train.epoch_order(1000, seed, epoch)).mean() > 0.9


def test_selection_takes_the_last_of_equal_epochs():
    history = {
        "validation_error": [3.0, 2.0, None, 2.0, 2.5],
        "test_error": [3.1, 2.1, None, 2.2, 1.0],
    }
    best = {"epoch": 4, "validation_error": 2.0, "test_error": 2.2}
    assert select(history, "error") == best
    overflown = {"validation_loss": [1.0, 0.5], "test_loss": [1.5, None]}
    assert select(overflown, "loss")["epoch"] == 1
    diverged = {"validation_loss": [None], "test_loss": [None]}
    assert select(diverged, "loss") is None


def test_gradients_are_counted_by_magnitude():
    sizes = [1e-50, 0.0, 3e-5, -3e-5, 0.2, 1e50, np.inf, np.nan]
    counted = histogram(np.array(sizes))
    low, high = counted["log10_range"]
    edges = np.linspace(low, high, len(counted["counts"]) + 1)
    for size, count in ((3e-5, 2), (0.2, 1)):
        index = np.searchsorted(edges, math.log10(size)) - 1
        assert counted["counts"][index] == count
    assert sum(counted["counts"]) == 3
    assert (counted["below"], counted["above"]) == (2, 1)
    assert counted["not_finite"] == 2


def test_the_gradient_is_that_of_the_recurrent_weights(rng):
    model = keras.Sequential(
        [keras.Input((3, 2)), keras.layers.SimpleRNN(1, "linear")]
    )
    model.compile(loss="mse")
    kernel, recurrent, bias = np.array([[0.3], [0.2]]), 0.5, 0.1
    model.set_weights([kernel, np.array([[recurrent]]), np.array([bias])])
    x, y = rng.normal(size=(1, 3, 2)), np.array([[2.0]])
    inputs = (x @ kernel)[0, :, 0] + bias
    h1 = inputs[0]
    h2 = inputs[1] + recurrent * h1
    h3 = inputs[2] + recurrent * h2
    expected = 2 * (h3 - 2.0) * (h2 + recurrent * h1)
    got = recurrent_gradient(model, Part(x.astype("float32"), y))
    np.testing.assert_allclose(got, [expected], rtol=1e-4)
    assert histogram(got)["rms"] == pytest.approx(abs(expected), rel=1e-4)
    dense = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    dense.compile(loss="mse")
    assert recurrent_gradient(dense, Part(x[:, 0], y)) is None


# The command line.


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("mnist --epochs 0", "from 1 to 4294967295. Received: 0"),
        ("mnist --cells 5", "only the sizes width. Received: cells"),
        ("mnist --scheme lab_input", "LSTM only. Received: mnist"),
    ],
)
def test_bad_options_are_named_before_any_work(arguments, complaint, capsys):
    with pytest.raises(SystemExit) as stopped:
        train.main(arguments.split())
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err


def test_an_error_of_a_data_set_is_reported_once(tmp_path, capsys):
    options = ["--data-dir", "absent", "--results-dir", str(tmp_path)]
    assert train.main(["mnist", "--scheme", "lab", "bwn", *options]) == 1
    assert capsys.readouterr().err.count("does not exist") == 1
