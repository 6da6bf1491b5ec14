"""The command line, run as a user runs it, and what an import loads."""

import json
import pathlib
import re
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_lab
import tflite_export
from tests.tflite_export.models import dense, net
from tests.tflite_export.support import exported
from tflite_export import read_packed
from tflite_export.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("main")
    keras.utils.clear_session()  # The input is then called "input_layer".
    model = net((16,), dense(8, name="first"))()
    model.save(folder / "m.keras")
    x = np.random.default_rng(0).normal(size=(20, 16)).astype("f")
    np.save(folder / "x.npy", x)
    np.savez(folder / "x.npz", input_layer=x)
    np.savez(folder / "y.npz", y=x)
    (folder / "text.npy").write_text("no numbers")
    content = bytearray((folder / "m.keras").read_bytes())
    (folder / "cut.keras").write_bytes(content[: len(content) // 2])
    for position in range(0, len(content), 97):
        content[position] ^= 255
    (folder / "damaged.keras").write_bytes(content)
    content = exported("dense").content("packed")
    (folder / "good.tflite").write_bytes(content)
    (folder / "cut.tflite").write_bytes(content[:500])
    return folder


@pytest.fixture(autouse=True)
def in_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.mark.parametrize(
    ("inputs", "format"), [("x.npy", "packed"), ("x.npz", "fast")]
)
def test_it_writes_the_file_and_prints_the_report(inputs, format, capsys):
    arguments = ["--format", format, "--validate", inputs]
    assert main(["m.keras", "m.tflite", *arguments]) == 0
    table, agreement = capsys.readouterr().out.split("agreement")
    assert f"format {format}" in table and "first/kernel" in table
    assert "20 given inputs" in agreement
    (weight,) = read_packed("m.tflite")
    latent = keras.models.load_model("m.keras").layers[0].kernel.numpy()
    np.testing.assert_array_equal(weight.signs > 0, latent >= 0)
    assert main(["inspect", "m.tflite"]) == 0
    assert capsys.readouterr().out.strip() == table.strip()
    assert main(["inspect", "m.tflite", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == format


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("absent.keras m2.tflite", "no such file. Received: 'absent.keras'"),
        ("x.npy m2.tflite", "ends in .keras or .h5. Received: 'x.npy'"),
        ("m.keras m2.onnx", "must end in one of .tflite, .tflz"),
        ("cut.keras m2.tflite", "Received: 'cut.keras'"),
        ("damaged.keras m2.tflite", "Received: 'damaged.keras'"),
        ("inspect absent.tflite", "no such file. Received: 'absent.tflite'"),
        ("inspect cut.tflite", "Damaged TFLite model"),
        ("inspect m.keras", "Not a TFLite model"),
        ("m.keras m2.tflite --validate text.npy", "must be an .npy or an"),
        ("m.keras m2.tflite --validate y.npz", "Received: ['y']"),
        ("m.keras m2.tflite --batch-size 0", "Received: batch_size=0"),
        ("m.keras m2.tflite --tolerance nan", "Received: tolerance=nan"),
    ],
)
def test_bad_arguments_and_damaged_files_are_named(
    arguments, message, capsys, folder
):
    assert main(arguments.split()) == 1
    error = capsys.readouterr().err
    assert "error: " in error and message in error
    assert "Traceback" not in error
    assert not (folder / "m2.tflite").exists()


HELP = "tflite_export.Format; from tflite_export import cli, __main__"
READ = "read, show = tflite_export.read_packed, tflite_export.inspect; "
READ += "read('good.tflite'); print(show('good.tflite'))"
SHRINK = "tflite_export.expand(tflite_export.shrink(b'text'))"


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [(HELP, {"numpy"}), (READ, set()), (SHRINK, {"flatbuffers"})],
)
def test_help_and_reading_need_neither_keras_nor_tensorflow(statement, heavy):
    heavy = heavy | {"keras", "keras_lab", "tensorflow"}
    code = f"import sys, tflite_export; dir(tflite_export); {statement}; "
    code += f"assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_is_there():
    assert dir(tflite_export) == sorted(tflite_export.__all__)
    for name in tflite_export.__all__:
        assert getattr(tflite_export, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        _ = tflite_export.absent


def test_only_public_names_of_keras_lab_are_used():
    for source in pathlib.Path(tflite_export.__file__).parent.rglob("*.py"):
        names = re.findall(r"\bkeras_lab\.(\w+)", source.read_text())
        assert set(names) <= set(keras_lab.__all__), source
