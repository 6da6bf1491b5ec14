"""The fine-tuning example, on a small network and small images."""

import json

import keras
import numpy as np
import pytest

from examples import finetune
from examples.finetune_report import STAGES, main, read, table


@pytest.fixture
def files(tmp_path, rng):
    """A trained classifier, and data that it knows."""
    y = rng.integers(0, 3, 400)
    x = rng.normal(size=(400, 8, 8, 2)) + y[:, None, None, None]
    data = tmp_path / "data.npz"
    np.savez(
        data,
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
    model.save(tmp_path / "model.keras")
    return f"--model {tmp_path}/model.keras --data {data} --batch 20"


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

    assert lines[2].startswith("| LAB | all | 3 | 1 | 1, by share | 1 |")
    main([str(tmp_path)])
    assert lines[3] in (tmp_path / "README.md").read_text()

    run(files, folder, "--epochs 3 --scheme lab --progressive 1")
    assert "is finished" in capsys.readouterr().out


def test_an_interrupted_run_goes_on_to_the_same_result(
    files, tmp_path, monkeypatch
):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    options = "--epochs 3 --scheme lab --progressive 1"
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
        ("--model absent.keras --data absent.npz", "absent.npz"),
        ("--model absent.keras", "--data"),
        ("--epochs 0", "--epochs"),
    ],
)
def test_mistakes_are_named(options, message, capsys):
    with pytest.raises(SystemExit) as exit:
        finetune.main(options.split())
    assert message in f"{exit.value} {capsys.readouterr().err}"
