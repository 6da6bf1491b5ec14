"""The command line, run as a user runs it."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_lab
from tests.tflite_export.support import exported, randomize
from tflite_export import read_packed
from tflite_export.__main__ import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("main")
    model = randomize(
        keras.Sequential(
            [keras.Input((16,), name="x"), keras_lab.BinaryDense(8)]
        )
    )
    model.save(folder / "m.keras")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 16)).astype("f")
    np.save(folder / "x.npy", x)
    np.savez(folder / "x.npz", x=x)
    np.savez(folder / "y.npz", y=x)
    (folder / "text.npy").write_text("no numbers")
    content = (folder / "m.keras").read_bytes()
    (folder / "cut.keras").write_bytes(content[: len(content) // 2])
    damaged = bytearray(content)
    for position in range(0, len(damaged), 97):
        damaged[position] ^= 255
    (folder / "damaged.keras").write_bytes(damaged)
    (folder / "cut.tflite").write_bytes(
        exported("dense").content("packed")[:500]
    )
    return folder


@pytest.fixture(autouse=True)
def in_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.mark.parametrize("inputs", ["x.npy", "x.npz"])
def test_it_writes_the_file_and_prints_the_report(inputs, capsys):
    assert main(["m.keras", "m.tflite", "--validate", inputs]) == 0
    printed = capsys.readouterr().out
    assert "format packed" in printed and "binary_dense" in printed
    assert "20 given inputs" in printed
    (weight,) = read_packed("m.tflite")
    latent = keras.models.load_model("m.keras").layers[0].kernel.numpy()
    np.testing.assert_array_equal(weight.signs > 0, latent >= 0)


def test_inspect_prints_the_same_table(capsys):
    assert main(["m.keras", "f.tflite", "--format", "fast"]) == 0
    table = capsys.readouterr().out.split("\n\nagreement")[0]
    assert main(["inspect", "f.tflite"]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[:4] == table.splitlines()[:4]
    assert main(["inspect", "f.tflite", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "fast"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.keras", "m2.tflite"], "no such file. Received: 'absent.ker"),
        (["x.npy", "m2.tflite"], "ends in .keras or .h5. Received: 'x.npy'"),
        (["m.keras", "m2.onnx"], "must end in one of .tflite, .tflz. Rec"),
        (["cut.keras", "m2.tflite"], "Keras cannot load 'cut.keras'"),
        (["damaged.keras", "m2.tflite"], "Keras cannot load 'damaged.keras'"),
        (["inspect", "absent.tflite"], "no such file. Received: 'absent.tfl"),
        (["inspect", "cut.tflite"], "Damaged TFLite model"),
        (["inspect", "m.keras"], "Not a TFLite model"),
        (
            ["m.keras", "m2.tflite", "--validate", "text.npy"],
            "neither an .npy nor an .npz file",
        ),
        (
            ["m.keras", "m2.tflite", "--validate", "y.npz"],
            "must have the keys ['x']. Received: ['y']",
        ),
        (
            ["m.keras", "m2.tflite", "--batch-size", "0"],
            "Received: batch_size=0",
        ),
    ],
)
def test_bad_arguments_and_damaged_files_are_named(
    arguments, message, capsys, folder
):
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert "error: " in error and message in error
    assert "Traceback" not in error
    assert not (folder / "m2.tflite").exists()


def test_an_unknown_format_is_refused_by_the_parser(capsys):
    with pytest.raises(SystemExit) as exit:
        main(["m.keras", "m2.tflite", "--format", "onebit"])
    assert exit.value.code == 2
    assert "'onebit'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "statement",
    [
        "import tflite_export; dir(tflite_export); tflite_export.Format",
        "from tflite_export import command",
        "import tflite_export.__main__",
    ],
)
def test_help_and_names_need_neither_keras_nor_tensorflow(statement):
    code = f"""if True:
        import sys
        {statement}
        heavy = {{"keras", "keras_lab", "tensorflow", "numpy"}}
        assert not heavy & set(sys.modules), heavy & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_reading_a_file_needs_neither_keras_nor_tensorflow(tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(exported("dense").content("packed"))
    code = f"""if True:
        import sys, tflite_export
        tflite_export.read_packed({str(path)!r})
        print(tflite_export.inspect({str(path)!r}))
        assert not {{"keras", "keras_lab", "tensorflow"}} & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_is_there():
    import tflite_export

    assert dir(tflite_export) == sorted(tflite_export.__all__)
    for name in tflite_export.__all__:
        assert getattr(tflite_export, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        _ = tflite_export.absent
