"""The fine-tuning example, on a small network and small images."""

import json
import shutil

import keras
import numpy as np
import pytest

import keras_lab
from examples import finetune, finetune_report, finetune_trials


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a trained classifier and its data."""
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
def run(trained, tmp_path):
    """Runs the example on a copy of the files and returns its result."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)

    def run(folder, options, main=finetune.main):
        files = f"--model {tmp_path}/model.keras --data {tmp_path}/data.npz"
        common = f"{files} --batch 20 --scheme lab --output {folder}"
        main(f"{common} {options}".split())
        return json.loads((folder / "lab-1.json").read_text())

    return run


def test_it_goes_from_a_float_file_to_a_binary_tflite_file(
    run, tmp_path, capsys
):
    folder = tmp_path / "out"
    result = run(folder, "--epochs 3 --progressive 1")
    accuracy = result["accuracy"]
    assert tuple(accuracy) == finetune_report.STAGES
    assert accuracy["fine-tuned"] > 0.9 * accuracy["float"]
    assert abs(accuracy["exported"] - accuracy["fine-tuned"]) < 0.02
    assert [len(values) for values in result["history"].values()] == 4 * [3]
    # The validation of an epoch sees the statistics that the file gets.
    assert result["history"]["val_accuracy"][-1] == pytest.approx(
        accuracy["fine-tuned"], abs=1e-4
    )
    assert result["file_bytes"] == (folder / "lab-1.tflz").stat().st_size
    again = keras.models.load_model(folder / "lab-1.keras")
    assert type(again.layers[3]).__name__ == "BinaryConv2D"
    finetune_report.main([str(folder)])
    row, _, origin = capsys.readouterr().out.splitlines()[-3:]
    assert row.startswith("| LAB, model model.keras, batch 20, progressive 1 |")
    assert f"keras_lab {keras_lab.__version__}, keras {keras.__version__}," in (
        origin
    )
    assert f"{100 * accuracy['fine-tuned']:.2f}" in row

    run(folder, "--epochs 3 --progressive 1")
    assert "is finished" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"epochs=3.*another --output"):
        run(folder, "--epochs 4 --progressive 1")


def test_the_options_of_the_trials_train_and_can_be_saved(run, tmp_path):
    result = run(
        tmp_path / "out",
        "--epochs 2 --center standard --inputs sign --two-step 1",
        finetune_trials.main,
    )
    assert result["accuracy"]["fine-tuned"] > 0.6
    model = keras.models.load_model(tmp_path / "out/lab-1.keras")
    kernel = model.layers[3].kernel.numpy()
    np.testing.assert_allclose(kernel.mean(axis=(0, 1, 2)), 0, atol=1e-6)
    np.testing.assert_allclose(kernel.std(axis=(0, 1, 2)), 1, rtol=1e-5)
    sign = model.layers[3].input_quantizer
    np.testing.assert_array_equal(sign(np.array([0.0, 0.4, 0.6])), [-1, -1, 1])


@pytest.mark.slow
def test_an_interrupted_run_continues_to_the_same_result(
    run, tmp_path, monkeypatch
):
    options = "--epochs 2 --progressive 1"
    whole = run(tmp_path / "whole", options)
    record = finetune.Recorder.on_epoch_end

    def interrupted(self, epoch, logs=None):
        if epoch == 1:  # The weights of the second epoch have changed already.
            raise KeyboardInterrupt
        record(self, epoch, logs)

    monkeypatch.setattr(finetune.Recorder, "on_epoch_end", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts", options)
    monkeypatch.undo()
    parts = run(tmp_path / "parts", options)
    for name in ("accuracy", "history"):
        assert whole[name] == parts[name]


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
        ("--model absent.keras", "--data"),
        ("--progressive 3 --epochs 3", "--progressive must be less"),
    ],
)
def test_mistakes_are_named(options, message, capsys):
    with pytest.raises(SystemExit) as exit:
        finetune.main(options.split())
    assert message in f"{exit.value} {capsys.readouterr().err}"


def test_the_page_holds_the_table_of_the_files():
    folder = finetune.Path(finetune.__file__).parents[1] / "results/finetune"
    page = (folder / "README.md").read_text()
    results = finetune_report.read(folder)
    assert finetune_report.table(results) in page


def test_a_report_without_results_is_an_error(tmp_path, capsys):
    with pytest.raises(SystemExit):
        finetune_report.main([str(tmp_path)])
    message = f"there are no results. Received: '{tmp_path}'"
    assert message in capsys.readouterr().err
