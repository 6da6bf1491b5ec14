"""`keras-lab inspect`, run as a user runs it."""

import json
import sys

import keras
import matplotlib.image
import pytest

import keras_lab
import tflite_export
from keras_lab.cli import main


class Custom(keras.layers.Layer):
    """A layer that is not registered with Keras."""

    def call(self, inputs):
        return inputs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model, saved and exported."""
    folder = tmp_path_factory.mktemp("inspect")
    model = keras.Sequential(
        [keras.Input((30,)), keras_lab.BinaryDense(20, name="hidden")]
    )
    model.save(folder / "model.keras")
    tflite_export.export_tflite(model, folder / "model.tflite")
    (folder / "broken.keras").write_text("not a model")
    (folder / "empty.keras").touch()
    content = (folder / "model.keras").read_bytes()
    (folder / "half.keras").write_bytes(content[: len(content) // 2])
    (folder / "folder.keras").mkdir()
    custom = keras.Sequential([keras.Input((3,)), Custom()])
    custom.save(folder / "custom.keras")
    return folder


def test_a_keras_file_gives_the_summary_and_the_picture(
    folder, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "200")
    figure = folder / "weights.png"
    code = main(["inspect", str(folder / "model.keras"), "--plot", str(figure)])
    assert code == 0
    text = capsys.readouterr().out
    assert "hidden (BinaryDense)" in text and "600" in text
    assert matplotlib.image.imread(figure).std() > 0.05


def test_json_is_for_programs(folder, capsys):
    file = str(folder / "model.keras")
    assert main(["inspect", file, "--json", "--no-export"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["totals"]["binary_macs"] == 600
    assert content["totals"]["exported_bytes"] is None


def test_a_tflite_file_gives_the_exporters_table(folder, capsys):
    file = folder / "model.tflite"
    assert main(["inspect", str(file)]) == 0
    assert str(tflite_export.inspect(file)) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missing.keras"], 2, "missing.keras"),
        (["README.md"], 2, "must end in .keras, .h5 or .tflite"),
        (["broken.keras"], 1, "the file is damaged, or not a model"),
        (["empty.keras"], 1, "the file is damaged, or not a model"),
        (["half.keras"], 1, "the file is damaged, or not a model"),
        (["folder.keras"], 2, "is a directory"),
        (["custom.keras"], 1, "the class 'Custom' is not one of Keras"),
        (["model.tflite", "--plot", "figure.png"], 2, "has no latent weights"),
        (["model.keras", "--plot", "figure.gif"], 2, "figure.gif"),
    ],
)
def test_mistakes_are_named(
    folder, arguments, code, message, capsys, monkeypatch
):
    monkeypatch.chdir(folder)
    try:
        received = main(["inspect", *arguments])
    except SystemExit as error:
        received = error.code
    assert received == code
    assert message in capsys.readouterr().err


def test_without_matplotlib_it_names_the_command_and_the_extra(
    folder, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.chdir(folder)
    assert main(["inspect", "model.keras", "--plot", "figure.png"]) == 1
    error = capsys.readouterr().err
    assert "keras-lab inspect: error" in error
    assert 'pip install "keras_lab[plots]"' in error
