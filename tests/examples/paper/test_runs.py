"""Runs of the paper's recipes, on networks that train in seconds."""

import dataclasses
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from examples.paper import checkpoints, report
from examples.paper import run as command
from examples.paper.data import Dataset, Part, text_file
from examples.paper.gradients import histogram, recurrent_gradient
from examples.paper.plans import Plan
from examples.paper.recipes import RECIPES
from examples.paper.schemes import SCHEMES
from examples.paper.selection import select
from examples.paper.tables import FIGURES, TABLES, jobs
from examples.paper.training import epoch_order, run


def tiny_data(_folder=None):
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(10, 784))
    parts = []
    for count in (60, 20, 20):
        y = rng.integers(0, 10, count).astype(np.uint8)
        x = centres[y] + rng.normal(size=(count, 784))
        parts.append(Part(x.astype(np.float32), y))
    return Dataset(*parts, classes=10, files={"none": "0" * 64})


TINY = dataclasses.replace(
    RECIPES["mnist"],
    data=tiny_data,
    sizes={"width": 16},
    batch=10,
    epochs=4,
    decay=dataclasses.replace(RECIPES["mnist"].decay, after=(1, 3)),
)


def tiny_run(folder, **options):
    plan = Plan("mnist", TINY, **{"scheme": "lab2", "seed": 3, **options})
    return run(plan, None, folder, jit_compile=False, log=lambda line: None)


def without_times(result):
    history = {k: v for k, v in result["history"].items() if "second" not in k}
    return {**result, "history": history, "sessions": None}


def checkpoint_arrays(folder):
    with np.load(folder / "mnist" / "lab2-3.checkpoint.npz") as file:
        return {k: file[k] for k in file.files if k != "result"}


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """A folder with a run of four epochs, and its result."""
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


def test_an_interrupted_run_resumes_to_the_same_result(whole_run, begun):
    """Bit for bit, when it was first meant to be shorter and then killed."""
    lines = []

    def interrupt(line):
        lines.append(line)
        if len(lines) == 3:
            raise KeyboardInterrupt

    plan = Plan("mnist", TINY, "lab2", seed=3)
    with pytest.raises(KeyboardInterrupt):
        run(plan, None, begun, jit_compile=False, log=interrupt)
    path = begun / "mnist" / "lab2-3.json"
    half = json.loads(path.read_text())
    assert (half["epochs_done"], half["epochs_planned"]) == (3, 4)
    assert "goes on at epoch 2 of 4" in lines[0]
    assert "60 train, 20 validation, 20 test" in lines[0]
    assert "epoch 3/4" in lines[2] and "left" in lines[2]
    path.unlink()  # As if killed between the checkpoint and the result.
    resumed = tiny_run(begun)
    folder, whole = whole_run
    assert without_times(resumed) == without_times(whole)
    assert [s["first_epoch"] for s in resumed["sessions"]] == [1, 2, 4]
    expected = checkpoint_arrays(folder)
    for key, array in checkpoint_arrays(begun).items():
        np.testing.assert_array_equal(array, expected[key])


def test_a_run_from_before_alpha_was_recorded_goes_on(begun, whole_run):
    checkpoint = begun / "mnist" / "lab2-3.checkpoint.npz"
    with np.load(checkpoint) as file:
        arrays = dict(file)
    result = json.loads(arrays["result"].item())
    for name in [n for n in result["history"] if n.endswith("alpha")]:
        del result["history"][name]
    np.savez(checkpoint, **{**arrays, "result": json.dumps(result)})
    (begun / "mnist" / "lab2-3.json").write_text(json.dumps(result))
    history, whole = tiny_run(begun)["history"], whole_run[1]["history"]
    names = [name for name in whole if name.endswith("alpha")]
    assert len(names) == 4
    for name in names:
        assert history[name] == [None, *whole[name][1:]]


def test_a_result_says_all_there_is_to_know(whole_run):
    folder, result = whole_run
    written = json.loads((folder / "mnist" / "lab2-3.json").read_text())
    assert written == json.loads(json.dumps(result))
    assert (written["scheme"], written["seed"]) == ("lab2", 3)
    assert written["sizes"] == {"width": 16}
    assert (written["epochs_planned"], written["epochs_done"]) == (4, 4)
    assert written["data"]["train"] == 60
    for part in ("train", "validation", "test"):
        assert len(written["history"][f"{part}_error"]) == 4
        assert len(written["history"][f"{part}_loss"]) == 4
    assert written["history"]["learning_rate"] == pytest.approx(
        [0.005, 0.0005, 0.0005, 0.00005]
    )
    assert len(written["history"]["seconds"]) == 4
    assert len(written["alpha"]) == 4
    assert all(0 < alpha < 1 for alpha in written["alpha"].values())
    for path, alpha in written["alpha"].items():
        # A line that `keras_lab.analysis.plots.trajectories` draws.
        by_epoch = written["history"][path.partition("/")[2]]
        assert len(by_epoch) == 4 and by_epoch[-1] == pytest.approx(alpha)
    session = written["sessions"][0]
    assert session["keras"] == keras.version()
    assert {"commit", "machine", "cores", "tensorflow"} <= set(session)


def test_a_text_gives_cross_entropy_eight_alphas_and_gradients(tmp_path):
    text = b"the cat sat on the mat and the dog sat on the log. " * 40
    (tmp_path / "text").write_bytes(text)
    recipe = dataclasses.replace(
        RECIPES["war_and_peace"],
        data=lambda folder, steps: text_file(tmp_path / "text", steps, 10),
        sizes={"cells": 8},
        batch=10,
        epochs=3,
    )
    plan = Plan("war_and_peace", recipe, "lab", sizes={"steps": 5})
    lines = []
    result = run(plan, None, tmp_path, jit_compile=False, log=lines.append)
    folder = tmp_path / "war_and_peace-steps5"
    assert json.loads((folder / "lab-1.json").read_text()) == result
    assert result["sizes"] == {"cells": 8, "steps": 5}
    losses = result["history"]["test_loss"]
    # Better than knowing nothing, and better from epoch to epoch.
    assert math.log(len(set(text))) > losses[0] > losses[1] > losses[2] > 0
    assert result["selected"]["test_loss"] == losses[2]
    assert "test_error" not in result["history"] and "nats" in lines[1]
    assert f"test {losses[2]:.3f} nats at epoch 3" in lines[-1]
    assert [len(alpha) for alpha in result["alpha"].values()] == [4, 4]
    gradient = result["recurrent_gradient"]
    outside = gradient["below"] + gradient["above"] + gradient["not_finite"]
    assert sum(gradient["counts"]) + outside == 4 * 8 * 8


def test_a_finished_result_is_not_overwritten(whole_run):
    folder, _ = whole_run
    before = (folder / "mnist" / "lab2-3.json").read_bytes()
    for epochs in (4, 2):
        with pytest.raises(checkpoints.Finished, match=r"lab2-3\.json"):
            tiny_run(folder, epochs=epochs)
    assert (folder / "mnist" / "lab2-3.json").read_bytes() == before


def test_a_result_without_its_checkpoint_is_not_overwritten(begun):
    (begun / "mnist" / "lab2-3.checkpoint.npz").unlink()
    with pytest.raises(checkpoints.Finished):
        tiny_run(begun, epochs=1)
    with pytest.raises(checkpoints.RunError, match="1 of 4 epochs"):
        tiny_run(begun)


def test_a_result_ahead_of_its_checkpoint_is_not_overwritten(begun, whole_run):
    """As after a `git pull` over a run of one's own."""
    path = begun / "mnist" / "lab2-3.json"
    shutil.copy(whole_run[0] / "mnist" / "lab2-3.json", path)
    before = path.read_bytes()
    with pytest.raises(checkpoints.Finished, match="epochs done: 4"):
        tiny_run(begun)
    with pytest.raises(checkpoints.RunError, match="not of the same run"):
        tiny_run(begun, epochs=5)
    assert path.read_bytes() == before


def test_a_history_is_not_joined_to_weights_of_another(begun):
    """As after a `git pull` over a run of as many epochs."""
    path = begun / "mnist" / "lab2-3.json"
    content = json.loads(path.read_text())
    content["history"]["test_error"][0] += 1
    path.write_text(json.dumps(content))
    with pytest.raises(checkpoints.RunError, match="not of the same run"):
        tiny_run(begun)


def test_a_finished_run_needs_no_checkpoint(begun):
    (begun / "mnist" / "lab2-3.checkpoint.npz").write_bytes(b"damaged")
    with pytest.raises(checkpoints.Finished):
        tiny_run(begun, epochs=1)


def test_a_note_made_later_stays(begun):
    path = begun / "mnist" / "lab2-3.json"
    content = {**json.loads(path.read_text()), "note": "made later"}
    path.write_text(json.dumps(content))
    assert tiny_run(begun, epochs=2)["note"] == "made later"


def test_what_a_result_lacks_is_in_its_checkpoint(begun):
    path = begun / "mnist" / "lab2-3.json"
    content = json.loads(path.read_text())
    del content["sessions"], content["data"]
    path.write_text(json.dumps(content))
    result = tiny_run(begun, epochs=2)
    assert len(result["sessions"]) == 2 and result["data"]["train"] == 60


def test_a_file_that_cannot_be_read_is_not_to_be_deleted(begun, monkeypatch):
    def no_permission(*_, **__):
        raise PermissionError(13, "Permission denied")

    for owner, name in ((Path, "read_text"), (np, "load")):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, no_permission)
            with pytest.raises(checkpoints.RunError) as raised:
                tiny_run(begun)
        assert "cannot be read" in str(raised.value)
        assert "elete" not in str(raised.value)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "5", "null", "{}", '{"epochs_done": true}']
)
def test_a_result_that_is_none_is_named(begun, text):
    (begun / "mnist" / "lab2-3.json").write_text(text)
    with pytest.raises(checkpoints.RunError, match=r"lab2-3\.json is not a"):
        tiny_run(begun)


def test_a_folder_in_the_place_of_a_result_is_named(tmp_path):
    (tmp_path / "mnist" / "lab2-3.json").mkdir(parents=True)
    with pytest.raises(checkpoints.RunError, match=r"lab2-3\.json cannot be"):
        tiny_run(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("result", "no JSON", r"checkpoint\.npz cannot be read"),
        ("0", np.zeros(3), r"shape \(3,\), not \(784, 16\)"),
    ],
)
def test_a_checkpoint_of_something_else_is_named(begun, name, value, complaint):
    path = begun / "mnist" / "lab2-3.checkpoint.npz"
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files}
    np.savez(path, **{**arrays, name: value})
    with pytest.raises(checkpoints.RunError, match=complaint):
        tiny_run(begun)


def test_a_full_disk_loses_no_epoch(begun, monkeypatch):
    def no_space(*_, **__):
        raise OSError(28, "No space left on device")

    # First nothing of an epoch is kept, then its checkpoint alone, and at last
    # not even that can be mended.
    before = checkpoint_arrays(begun)
    path = begun / "mnist" / "lab2-3.json"
    for owner, name in (
        (np, "savez"),
        (checkpoints, "write_json"),
        (checkpoints, "write_json"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, no_space)
            with pytest.raises(checkpoints.RunError, match="No space left"):
                tiny_run(begun, epochs=2)
        assert json.loads(path.read_text())["epochs_done"] == 1
        if name == "savez":
            for key, array in checkpoint_arrays(begun).items():
                np.testing.assert_array_equal(array, before[key])
    with pytest.raises(checkpoints.Finished):
        tiny_run(begun, epochs=2)
    assert json.loads(path.read_text())["epochs_done"] == 2


def test_a_batch_that_is_not_full_is_left_out_of_training(tmp_path):
    recipe = dataclasses.replace(TINY, batch=8)  # Of 60 images.
    plan = Plan("mnist", recipe, "lab2", seed=3, epochs=2)
    run(plan, None, tmp_path, jit_compile=False, log=lambda line: None)
    counts = [a for a in checkpoint_arrays(tmp_path).values() if a.ndim == 0]
    assert 2 * (60 // 8) in counts  # The optimizer's steps.


def test_a_checkpoint_with_a_damaged_array_is_named(begun):
    path = begun / "mnist" / "lab2-3.checkpoint.npz"
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 50] = bytes(50)
    path.write_bytes(content)
    with pytest.raises(checkpoints.RunError, match=r"checkpoint\.npz cannot"):
        tiny_run(begun)


def test_where_nothing_can_be_written_it_says_so_before_any_work(tmp_path):
    (tmp_path / "mnist").write_text("a file where the folder would be")
    no_data = dataclasses.replace(TINY, data=None)
    with pytest.raises(checkpoints.RunError, match="cannot be written"):
        run(Plan("mnist", no_data, "lab"), None, tmp_path)


HOLD = """
import pathlib, sys
from examples.locks import lock
lock(pathlib.Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.read()
"""


def test_two_processes_do_not_run_the_same(begun):
    path = begun / "mnist" / "lab2-4.json"
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=report.ROOT,
    )
    try:
        assert other.stdout.readline() == b"ready\n"
        with pytest.raises(checkpoints.RunError, match=f"{other.pid} is at"):
            tiny_run(begun, seed=4, epochs=1)
    finally:
        other.communicate()
    assert tiny_run(begun, seed=4, epochs=1)["epochs_done"] == 1
    assert not list(begun.rglob("*.lock"))


def test_a_network_that_diverges_has_no_error(tmp_path):
    """The largest of ten NaN would be a class like any other."""

    def one_is_nan(folder):
        data = tiny_data()
        data.train.x[5] = np.nan
        return data

    broken = dataclasses.replace(TINY, data=one_is_nan, epochs=1)
    lines = []
    result = run(
        Plan("mnist", broken, "full_precision"),
        None,
        tmp_path,
        jit_compile=False,
        log=lines.append,
    )
    assert result["history"]["validation_loss"] == [None]
    assert result["history"]["validation_error"] == [None]
    assert result["selected"] is None
    assert "diverged" in lines[-1]


def test_a_result_of_another_recipe_is_not_continued(begun):
    other = dataclasses.replace(TINY, batch=20)
    with pytest.raises(checkpoints.RunError, match="batch=10, not 20"):
        run(Plan("mnist", other, "lab2", 3), None, begun)


def test_a_run_is_not_continued_with_other_data(begun):
    def more_data(folder):
        return dataclasses.replace(tiny_data(), files={"other": "1" * 64})

    other = dataclasses.replace(TINY, data=more_data)
    complaint = "other was None and is 111.*--data-dir"
    with pytest.raises(checkpoints.RunError, match=complaint):
        run(Plan("mnist", other, "lab2", 3), None, begun)


def test_a_broken_checkpoint_is_named(begun):
    path = begun / "mnist" / "lab2-3.checkpoint.npz"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(checkpoints.RunError, match=r"checkpoint\.npz cannot"):
        tiny_run(begun)


def test_the_order_of_an_epoch_is_a_function_of_seed_and_epoch():
    order = epoch_order(1000, seed=1, epoch=2)
    np.testing.assert_array_equal(np.sort(order), np.arange(1000))
    np.testing.assert_array_equal(order, epoch_order(1000, 1, 2))
    for other in (epoch_order(1000, 1, 3), epoch_order(1000, 2, 2)):
        assert (order != other).mean() > 0.9


def test_schemes_start_from_the_same_weights_and_seeds_do_not(tmp_path):
    def kernel(scheme, seed):
        keras.utils.set_random_seed(seed)
        model = TINY.build(SCHEMES[scheme], 10)
        return model.layers[0].kernel.numpy()

    np.testing.assert_array_equal(kernel("lab", 1), kernel("bnn", 1))
    assert (kernel("lab", 1) != kernel("lab", 2)).all()


def test_selection_takes_the_later_of_equal_epochs():
    history = {
        "validation_error": [3.0, 2.0, None, 2.0, 2.5],
        "test_error": [3.1, 2.1, None, 2.2, 1.0],
    }
    assert select(history, "error") == {
        "epoch": 4,
        "validation_error": 2.0,
        "test_error": 2.2,
    }
    assert select({"validation_loss": [None]}, "loss") is None
    overflown = {"validation_loss": [1.0, 0.5], "test_loss": [1.5, None]}
    assert select(overflown, "loss")["epoch"] == 1


def test_recurrent_gradients_are_counted_by_magnitude(rng):
    sizes = [1e-50, 0.0, 3e-5, -3e-5, 0.2, 1e50, np.inf, np.nan]
    counted = histogram(np.array(sizes))
    low, high = counted["log10_range"]
    width = (high - low) / len(counted["counts"])
    bins = {
        low + width * n: count
        for n, count in enumerate(counted["counts"])
        if count
    }
    assert list(bins.values()) == [2, 1]
    for start, size in zip(bins, (3e-5, 0.2)):
        assert start <= math.log10(size) < start + width
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
    assert got["rms"] == pytest.approx(abs(expected), rel=1e-4)
    assert sum(got["counts"]) == 1


def test_a_network_without_recurrent_weights_has_no_such_gradient():
    model = TINY.build(SCHEMES["lab"], 10)
    assert recurrent_gradient(model, tiny_data().validation) is None


# The command line.


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["mnits"], "mnits"),
        (["mnist", "--scheme", "lba"], "lba"),
        (["mnist", "--epochs", "0"], "from 1 to 4294967295. Received: '0'"),
        (["mnist", "--seed", "-1"], "Received: '-1'"),
        (["mnist", "--width", "many"], "Received: 'many'"),
        (["mnist", "--cells", "5"], "no --cells, but --width"),
        (["war_and_peace", "--width", "5"], "but --cells, --steps"),
        (["mnist", "--budget", "small"], "for tables"),
        (["table1", "--epochs", "3"], "--epochs 3"),
        (["table2", "--scheme", "bnn"], "table2 has full_precision"),
        (["figure1", "--scheme", "bwn"], "figure1 has lab"),
    ],
)
def test_bad_options_are_named_before_any_work(arguments, complaint, capsys):
    with pytest.raises(SystemExit) as stopped:
        command.main(arguments)
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err


def test_options_are_those_of_every_run():
    arguments = "svhn --follow code --seed 2 3 --scheme lab bwn --note n"
    found = command.plans(command.parse(arguments.split()))
    assert [(plan.scheme, plan.seed) for plan in found] == [
        *(("bwn", 2), ("lab", 2)),
        *(("bwn", 3), ("lab", 3)),
    ]
    assert {(plan.follow, plan.note) for plan in found} == {("code", "n")}


def test_a_missing_data_folder_is_an_error(tmp_path, capsys):
    absent = str(tmp_path / "absent")
    options = ["--data-dir", absent, "--results-dir", str(tmp_path)]
    assert command.main(["mnist", "--scheme", "lab", *options]) == 1
    assert absent in capsys.readouterr().err


def test_data_that_is_missing_is_missed_once(tmp_path, capsys):
    absent = str(tmp_path / "absent")
    options = ["--data-dir", absent, "--results-dir", str(tmp_path)]
    assert command.main(["table4", *options]) == 1
    assert capsys.readouterr().err.count("does not exist") == 1


def test_the_command_runs_and_then_refuses(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(command.RECIPES, "mnist", TINY)
    options = ["mnist", "--scheme", "lab", "bwn", "--epochs", "1", "--no-jit"]
    options += ["--results-dir", str(tmp_path), "--note", "made up"]
    assert command.main(options) == 0
    for scheme in ("lab", "bwn"):
        path = tmp_path / "mnist" / f"{scheme}-1.json"
        assert json.loads(path.read_text())["note"] == "made up"
    assert "epoch 1/1" in capsys.readouterr().err
    assert command.main(options) == 0  # Of several, finished ones are skipped.
    assert command.main([*options, "--scheme", "lab"]) == 1
    complaint = capsys.readouterr().err
    assert "not overwritten" in complaint and "another --seed" in complaint


def test_what_cannot_go_on_is_said_before_the_first_run(
    tmp_path, capsys, monkeypatch
):
    """As in a clone, which has results and no checkpoints."""
    monkeypatch.setitem(command.RECIPES, "mnist", TINY)
    options = ["mnist", "--epochs", "1", "--no-jit"]
    options += ["--results-dir", str(tmp_path)]
    assert command.main([*options, "--scheme", "bwn"]) == 0
    (tmp_path / "mnist" / "bwn-1.checkpoint.npz").unlink()
    capsys.readouterr()
    options[2] = "2"
    assert command.main([*options, "--scheme", "lab", "bwn"]) == 1
    complaint = capsys.readouterr().err
    assert "bwn-1.json has 1 of 2 epochs" in complaint
    assert "name another --seed or --results-dir" in complaint
    assert not (tmp_path / "mnist" / "lab-1.json").exists()


@pytest.mark.parametrize(
    ("table", "budget", "count", "example"),
    [
        ("table1", "full", 21, ("cifar10", "bnn", {}, None)),
        ("table1", "small", 21, ("cifar10", "lab", {"width": 32}, 16)),
        ("table2", "full", 16, ("svhn", "bwn", {"width": 128}, None)),
        ("table2", "small", 8, ("svhn", "lab", {"width": 16}, 16)),
        ("table3", "full", 14, ("linux_kernel", "lab2", {"steps": 100}, None)),
        ("table4", "full", 16, ("war_and_peace", "lab", {"steps": 50}, None)),
        ("no_norm", "full", 7, ("mnist_no_norm", "lab", {}, None)),
        ("no_norm", "small", 7, ("mnist_no_norm", "lab", {"width": 512}, None)),
        ("schedule", "full", 8, ("war_and_peace_short", "lab", {}, None)),
        (
            *("schedule", "small", 8),
            ("war_and_peace", "lab", {"steps": 100, "cells": 128}, 10),
        ),
        ("figure1", "full", 3, ("cifar10", "lab", {}, None)),
        ("figure2", "full", 8, ("war_and_peace", "bwn", {"steps": 10}, None)),
    ],
)
def test_a_table_is_a_list_of_runs(table, budget, count, example):
    todo = [
        (job.recipe, job.scheme, job.sizes, job.epochs)
        for job in jobs({**TABLES, **FIGURES}[table], budget)
    ]
    assert len(todo) == count
    assert example in todo
    for name, _, sizes, _ in todo:
        assert set(sizes) <= set(RECIPES[name].all_sizes)
