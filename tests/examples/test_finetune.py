"""The fine-tuning example, on a small network and small images."""

import json
import shutil
import sys
import warnings
from pathlib import Path

import keras
import numpy as np
import pytest

from examples import finetune
from examples.finetune_report import STAGES, ResultError, main, read, table


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a trained classifier, and of data that it knows."""
    folder = tmp_path_factory.mktemp("trained")
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 400)
    x = rng.normal(size=(400, 8, 8, 2)) + y[:, None, None, None]
    np.savez(
        folder / "data.npz",
        x_train=x[:300].astype("float32"),
        y_train=y[:300],
        x_test=x[300:].astype("float32"),
        y_test=y[300:],
    )
    model = keras.Sequential([keras.Input((8, 8, 2))])
    for strides in (1, 2):
        model.add(keras.layers.Conv2D(8, 3, strides, padding="same"))
        model.add(keras.layers.BatchNormalization(momentum=0.9))
        model.add(keras.layers.ReLU())
    model.add(keras.layers.GlobalAveragePooling2D())
    model.add(keras.layers.Dense(3, "softmax"))
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x[:300], y[:300], epochs=10, verbose=0)
    model.save(folder / "model.keras")
    return folder


@pytest.fixture
def files(trained, tmp_path):
    """The options that name a copy of the two."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return (
        f"--model {tmp_path}/model.keras --data {tmp_path}/data.npz --batch 20"
    )


def run(files, folder, options=""):
    finetune.main(f"{files} --output {folder} {options}".split())


def test_it_goes_from_a_float_file_to_a_binary_tflite_file(
    files, tmp_path, capsys
):
    folder = tmp_path / "out"
    run(files, folder, "--epochs 3 --scheme lab bwn --progressive 1")
    result = json.loads((folder / "lab-1.json").read_text())
    accuracy = result["accuracy"]
    assert set(accuracy) == set(STAGES)
    assert accuracy["fine-tuned"] > 0.9 * accuracy["float"]
    assert abs(accuracy["exported"] - accuracy["fine-tuned"]) < 0.02
    assert result["epochs_done"] == len(result["history"]["loss"]) == 3
    assert result["file_bytes"] == (folder / "lab-1.tflite").stat().st_size
    again = keras.models.load_model(folder / "lab-1.keras")
    assert type(again.layers[3]).__name__ == "BinaryConv2D"
    assert (folder / "figure.png").stat().st_size > 10_000
    assert "epoch 3 of 3" in capsys.readouterr().out
    lines = table(read(folder)).splitlines()
    assert f"{100 * accuracy['fine-tuned']:.2f}" in lines[2]

    assert lines[2].startswith("| LAB | all | 3 | 1 | 1, by layer | 1 |")
    main([str(tmp_path)])
    assert lines[3] in (tmp_path / "README.md").read_text()

    run(files, folder, "--epochs 3 --scheme lab --progressive 1")
    assert "is finished" in capsys.readouterr().out


def test_an_interrupted_run_goes_on_to_the_same_result(
    files, tmp_path, monkeypatch
):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    options = "--epochs 2 --scheme lab --progressive 1"
    run(files, whole, options)
    end_epoch = finetune.Run.end_epoch

    def interrupted(self, epoch, *arguments):
        end_epoch(self, epoch, *arguments)
        if epoch == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(finetune.Run, "end_epoch", interrupted)
    with pytest.raises(SystemExit, match="goes on from here"):
        run(files, parts, options)
    monkeypatch.undo()
    run(files, parts, options)
    a, b = (
        json.loads((folder / "lab-1.json").read_text())
        for folder in (whole, parts)
    )
    for name in ("accuracy", "history", "alpha"):
        assert a[name] == b[name]


def test_a_failed_export_loses_no_epoch(files, tmp_path, monkeypatch):
    """Also of a single epoch, in a folder that is not there yet."""
    folder = tmp_path / "a" / "b"

    def fail(*args, **kwargs):
        raise RuntimeError("no space left")

    monkeypatch.setattr(finetune.tflite_export, "export_tflite", fail)
    with pytest.raises(RuntimeError, match="no space"):
        run(files, folder, "--epochs 1 --scheme lab")
    result = json.loads((folder / "lab-1.json").read_text())
    assert result["epochs_done"] == 1
    monkeypatch.undo()
    run(files, folder, "--epochs 1 --scheme lab")
    again = json.loads((folder / "lab-1.json").read_text())
    assert again["history"] == result["history"]
    exported = again["accuracy"].pop("exported")
    assert again["accuracy"] == result["accuracy"]
    assert abs(exported - again["accuracy"]["fine-tuned"]) < 0.02


@pytest.mark.parametrize("changed", ["model", "data"])
def test_a_run_is_not_continued_with_other_files(files, tmp_path, changed):
    run(files, tmp_path / "out", "--epochs 1 --scheme lab")
    if changed == "model":
        path = tmp_path / "model.keras"
        model = keras.models.load_model(path)
        model.layers[0].bias.assign_add(np.ones(8))
        model.save(path)
    else:
        with np.load(tmp_path / "data.npz") as arrays:
            arrays = dict(arrays)
        arrays["x_test"] += 1
        np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(SystemExit, match=f"{changed}.*another --output"):
        run(files, tmp_path / "out", "--epochs 1 --scheme lab")


def test_an_interruption_before_anything_is_saved_says_so(
    files, tmp_path, monkeypatch
):
    def interrupted(self, *arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(finetune.Run, "end_epoch", interrupted)
    with pytest.raises(SystemExit, match=r"No epoch of lab 1.*begins it anew"):
        run(files, tmp_path / "out", "--epochs 2 --scheme lab")


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_within_an_epoch(
    files, tmp_path, monkeypatch, capsys, terminal
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.setattr(
        finetune, "PROGRESS_EVERY", dict.fromkeys((True, False), 0)
    )
    run(files, tmp_path / "out", "--epochs 2 --scheme bwn")
    before, after = ("\r\033[K", "") if terminal else ("", "\n")
    line = f"{before}bwn 1: epoch 2 of 2, batch 7 of 15, "
    output = capsys.readouterr().out
    assert line in output
    rest = output.split(line)[1]
    assert rest.partition(" left")[2].startswith(after or "\r")
    assert ("\r" in output) == terminal


def test_a_network_with_a_list_of_one_input_gives_no_warning(files, tmp_path):
    """As one from an .h5 file."""
    path = tmp_path / "model.keras"
    model = keras.models.load_model(path)
    keras.Model([model.inputs[0]], [model.outputs[0]]).save(path)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="The structure of `inputs`")
        run(files, tmp_path / "out", "--epochs 1 --scheme lab")


def test_images_are_moved_by_at_most_four_pixels_and_mirrored(rng):
    images = rng.integers(0, 255, (40, 8, 8, 3))
    moved = finetune.move_and_mirror(images, rng)
    padded = np.pad(images, ((0, 0), (4, 4), (4, 4), (0, 0)), mode="reflect")
    kinds = set()
    for before, after in zip(padded, moved):
        places = {
            (row, column, mirrored)
            for row in range(9)
            for column in range(9)
            for mirrored in (1, -1)
            if np.array_equal(
                before[row : row + 8, column : column + 8][:, ::mirrored],
                after,
            )
        }
        assert places
        kinds |= places
    assert len(kinds) > 25


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--model absent.keras --data absent.npz", "absent.keras"),
        ("--model {model} --data absent.npz", "absent.npz"),
        ("--model absent.keras", "--data"),
        ("--epochs 0", "--epochs: must be a whole number, at least 1"),
        ("--distill -1", "--distill: must be a number, at least 0"),
        ("--distill inf", "Received: inf"),
        ("--temperature 0", "--temperature: must be a number, more than 0"),
        ("--progressive -1", "Received: -1"),
        ("--progressive 3 --epochs 3", "--progressive must be less"),
        ("--seed -1", "--seed: must be a whole number, at least 0"),
        ("--seed 4294967296", "less than 4294967296"),
        ("--learning-rate -1", "Received: -1"),
        ("--learning-rate nan", "Received: nan"),
        ("--learning-rate fast", "Received: fast"),
        ("{files} --batch 301", "--batch must be at most 300"),
        ("{files} --images 10", "--batch must be at most 10"),
        ("{files} --output {model}", "File exists"),
    ],
)
def test_mistakes_are_named(files, tmp_path, options, message, capsys):
    options = options.format(files=files, model=tmp_path / "model.keras")
    assert message in failure(options, capsys)


def failure(options, capsys):
    """The one line that a run ends with."""
    with pytest.raises(SystemExit) as exit:
        finetune.main(options.split())
    output = capsys.readouterr()
    line = output.err if exit.value.code == 2 else str(exit.value)
    assert line.startswith("error: ")
    assert line.strip().count("\n") == 0
    assert not output.out  # Nothing has been done.
    return line


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_test": None}, "Received: x_train, y_train, y_test"),
        ({"y_train": np.eye(3)[[0] * 300]}, "one-hot.*(300,).*(300, 3)"),
        ({"y_test": np.zeros(99, int)}, "(100,).*Received: (99,)"),
        ({"y_test": np.full(100, 0.5)}, "Received: float64, 0.5"),
        ({"y_test": np.full(100, -1)}, "Received: int64, -1"),
        ({"y_test": np.full(100, 3)}, "less than 3.*Received: 3"),
        ({"x_test": np.zeros((100, 8, 9, 2))}, "(8, 8, 2).*(8, 9, 2)"),
        ({"x_train": np.zeros((300, 128))}, "(8, 8, 2).*(128,)"),
        ({"x_train": np.full((300, 8), "a")}, "x_train must be numbers"),
    ],
)
def test_data_that_do_not_fit_are_named(
    files, tmp_path, capsys, changes, message
):
    with np.load(tmp_path / "data.npz") as arrays:
        arrays = {**arrays, **changes}
    arrays = {k: v for k, v in arrays.items() if v is not None}
    np.savez(tmp_path / "data.npz", **arrays)
    line = failure(f"{files} --output {tmp_path}/out", capsys)
    for part in message.split(".*"):
        assert part in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (["dense", "dense", "dense"], "must end in a softmax"),
        (["dense", "softmax"], "can be converted"),
        (["dense", "dense", "softmax"], "--no-augment"),
    ],
)
def test_models_that_cannot_be_used_are_named(
    files, tmp_path, capsys, rng, layers, message
):
    model = keras.Sequential([keras.Input((4,))])
    for kind in layers:
        activation = "softmax" if kind == "softmax" else None
        model.add(keras.layers.Dense(3, activation))
    model.save(tmp_path / "model.keras")
    arrays = {
        f"{name}_{part}": rng.normal(size=(30, 4)) if name == "x" else [0] * 30
        for name in "xy"
        for part in ("train", "test")
    }
    np.savez(tmp_path / "data.npz", **arrays)
    assert message in failure(files, capsys)


def result(folder, name="lab-1", **changes):
    """A file as finetune.py writes it."""
    content = {
        "scheme": "lab",
        "seed": 1,
        "model": "cifar10_resnet8_mlperf_tiny.h5",
        "epochs": 2,
        "batch": 128,
        "learning_rate": 0.002,
        "distill": 1.0,
        "temperature": 2.0,
        "progressive": 0,
        "progressive_by": "share",
        "images": None,
        "augment": True,
        "epochs_done": 2,
        "accuracy": dict.fromkeys(STAGES, 0.5),
        "history": {"test_accuracy": [0.4, 0.5]},
        **changes,
    }
    path = Path(folder) / f"{name}.json"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("model", "other.keras"),
        ("data", "0123456789ab"),
        ("batch", 64),
        ("learning_rate", 0.01),
        ("temperature", 3.0),
        ("augment", False),
    ],
)
def test_runs_of_other_settings_have_a_row_of_their_own(
    tmp_path, setting, value
):
    result(tmp_path)
    result(tmp_path, "lab-2", seed=2)
    head = table(read(tmp_path)).splitlines()[0]
    assert setting.replace("_", " ") not in head
    result(tmp_path, "lab-3", seed=3, **{setting: value})
    head, _, *rows = table(read(tmp_path)).splitlines()
    assert len(rows) == 2
    assert setting.replace("_", " ") in head


def test_files_with_and_without_digests_of_the_default_are_one_row(tmp_path):
    result(tmp_path)
    digests = {"model_sha256": "5f938a8eea60", "data": "cifar10"}
    result(tmp_path, "lab-2", seed=2, **digests)
    assert len(read(tmp_path)) == 1


def test_what_is_without_effect_makes_no_other_row(tmp_path):
    result(tmp_path, distill=0.0)
    changes = {"temperature": 3.0, "progressive_by": "layer"}
    result(tmp_path, "lab-2", distill=0.0, **changes)
    assert len(read(tmp_path)) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting"),
        ("[1]", "not a JSON object"),
        ('{"model": "a", "distill": 0, "progressive": 0}', "no 'scheme'"),
    ],
)
def test_a_file_that_is_not_a_result_is_named(tmp_path, text, message):
    result(tmp_path)
    (tmp_path / "some-thing.json").write_text(text)
    with pytest.raises(ResultError, match=rf"some-thing\.json.*{message}"):
        read(tmp_path)
    with pytest.raises(SystemExit, match=r"error: .*some-thing\.json"):
        main([str(tmp_path)])
