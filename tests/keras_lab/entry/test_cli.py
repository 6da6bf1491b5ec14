"""The command `keras-lab`, run as a user runs it."""

import json
import re
import subprocess
import sys
import time

import keras
import matplotlib.image
import numpy as np
import pytest
from keras_lab_command import main

import keras_lab
import tflite_export
from keras_lab import demo
from tests.keras_lab.support import sequential

# What the installed script `keras-lab` does.
COMMAND = [sys.executable, "-m", "keras_lab_command"]


def run(*arguments, **options):
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, **options
    )


def check_figure_and_progress(folder, stdout, stderr, networks=6):
    (path,) = folder.iterdir()
    assert path.name == "keras_lab_demo.png" and path.name in stdout
    for half in np.array_split(matplotlib.image.imread(path), 2, axis=1):
        assert half.std() > 0.05
    begin = rf"\[ *\d+ s\] (\d)/{networks} (digits|text), .*"
    found = [re.fullmatch(begin, line)[1] for line in stderr.splitlines()]
    assert found == [str(n + 1) for n in range(networks)]


@pytest.mark.slow
def test_the_demo_shows_that_lab_is_accurate_and_its_file_small(tmp_path):
    """And that BinaryConnect fails on text. Nothing else is printed."""
    result = run("demo", "--epochs", "1", cwd=tmp_path, check=True)
    check_figure_and_progress(tmp_path, result.stdout, result.stderr)
    row = r"^  (\S.*?) +([\d.]+)$"
    table = result.stdout.partition("Text:")[2]
    nats = {name: float(x) for name, x in re.findall(row, table, re.M)}
    bytes_alone = nats["byte frequencies, no network"]
    assert nats["BinaryConnect"] > bytes_alone
    assert nats["full precision"] < nats["LAB"] < nats["BWN"] < bytes_alone
    row = r"^  (\w.*?) +([\d.]+)% +(\d+) kB(?: +1/([\d.]+))?$"
    files = re.findall(row, result.stdout, re.M)
    assert [name for name, *_ in files] == list(demo.FILES)
    assert all(float(accuracy) > 85 for _, accuracy, *_ in files)
    for _, _, size, ratio in files[1:]:
        expected = int(files[0][2]) / int(size)
        assert float(ratio or 1) == pytest.approx(expected, rel=0.01)
    assert float(files[3][3]) >= 25


def test_a_small_demo_prints_its_progress_and_leaves_a_figure(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "text").write_bytes(demo.TEXT.read_bytes()[:30_000])
    (tmp_path / "output").mkdir()
    monkeypatch.chdir(tmp_path / "output")
    monkeypatch.setattr(demo, "TEXT", tmp_path / "text")
    monkeypatch.setattr(demo, "DIGIT_UNITS", 128)
    monkeypatch.setattr(demo, "CELLS", 8)
    files = {name: demo.FILES[name] for name in ("float", "fast, as .tflz")}
    monkeypatch.setattr(demo, "FILES", files)
    monkeypatch.setattr(demo, "TEXT_SCHEMES", (demo.LAB,))
    assert main(["demo", "--epochs", "1"]) == 0
    check_figure_and_progress(tmp_path / "output", *capsys.readouterr(), 3)


def test_help_answers_at_once(capsys):
    seconds = []
    for _ in range(3):  # The machine may be busy with other tests.
        start = time.monotonic()
        text = run("--help", check=True).stdout
        seconds.append(time.monotonic() - start)
    assert all(
        f"\n    {name} " in text for name in ("demo", "inspect", "export")
    )
    assert min(seconds) < 0.5
    assert main([]) == 2
    assert capsys.readouterr().err == text


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--epochs", "0", "an integer, at least 1"),
        ("--epochs", "2.5", "Received: '2.5'"),
        ("--seed", "4294967296", "at most 4294967295. Received: '4294967296'"),
        ("--output", "absent/a.png", "does not exist. Received: 'absent"),
        ("--output", "folder.png", "is a directory. Received:"),
        ("--output", "a.txt", "one of .png, .pdf, .svg. Received: 'a.txt'"),
    ],
)
def test_wrong_arguments_are_named_before_any_work(
    option, value, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(SystemExit) as exit:
        main(["demo", f"{option}={value}"])
    assert exit.value.code == 2
    error = capsys.readouterr().err
    assert f"argument {option}" in error and message in error


@pytest.mark.parametrize(
    ("module", "extra", "arguments"),
    [
        ("sklearn", "demo", ["demo"]),
        ("ai_edge_litert", "export", ["export", "model.keras", "a.tflite"]),
        ("matplotlib", "plots", ["inspect", "model.keras", "--plot", "a.png"]),
    ],
)
def test_the_extra_that_brings_what_is_missing_is_named(
    module, extra, arguments, folder, monkeypatch, capsys
):
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, module, None)
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert module in error and f'pip install "keras_lab[{extra}]"' in error


class Custom(keras.layers.Layer):
    """A layer that is not registered with Keras."""

    def call(self, inputs):
        return inputs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model, saved and exported, and with broken files."""
    folder = tmp_path_factory.mktemp("models")
    model = sequential((30,), keras_lab.BinaryDense(20, name="hidden"))
    model.save(folder / "model.keras")
    tflite_export.export_tflite(model, folder / "model.tflite")
    content = (folder / "model.keras").read_bytes()
    (folder / "half.keras").write_bytes(content[: len(content) // 2])
    (folder / "empty.keras").touch()
    (folder / "folder.keras").mkdir()
    sequential((3,), Custom()).save(folder / "custom.keras")
    return folder


def test_inspect_prints_the_summary_and_writes_the_figure(
    folder, monkeypatch, capsys
):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["inspect", "model.keras", "--plot", "weights.png"]) == 0
    stdout, stderr = capsys.readouterr()
    assert "hidden (BinaryDense)" in stdout and "600" in stdout
    first, second = stderr.splitlines()
    assert "--no-export" in first and second == "Figure: weights.png"
    assert matplotlib.image.imread(folder / "weights.png").std() > 0.05


def test_inspect_prints_json_for_programs(folder, capsys):
    file = str(folder / "model.keras")
    assert main(["inspect", file, "--json", "--no-export"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["totals"]["binary_macs"] == 600
    assert content["totals"]["exported_bytes"] is None


@pytest.mark.parametrize("name", ["model.tflite", "upper.TFLITE"])
def test_inspect_prints_the_exporters_table_of_a_tflite_file(
    folder, name, capsys
):
    file = folder / name
    file.write_bytes((folder / "model.tflite").read_bytes())
    assert main(["inspect", str(file)]) == 0
    assert str(tflite_export.inspect(file)) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missing.keras"], 2, "does not exist. Received: 'missing.keras'"),
        (["README.md"], 2, "must end in .keras, .h5, .tflite or .tflz"),
        (["empty.keras"], 1, "it is damaged, or not a model"),
        (["half.keras"], 1, "it is damaged, or not a model"),
        (["folder.keras"], 2, "is a directory"),
        (["custom.keras"], 1, "the class 'Custom' is not"),
        (["model.tflite", "--plot", "figure.png"], 2, "has no latent weights"),
        (["model.keras", "--plot", "figure.gif"], 2, "figure.gif"),
    ],
)
def test_inspect_names_mistakes(
    folder, arguments, code, message, capsys, monkeypatch
):
    monkeypatch.chdir(folder)
    try:
        received = main(["inspect", *arguments])
    except SystemExit as error:
        received = error.code
    assert received == code
    assert message in capsys.readouterr().err


def test_export_writes_the_file_that_python_m_tflite_export_writes(folder):
    """In a process of its own."""
    files = [str(folder / "model.keras"), str(folder / "again.tflite")]
    result = run("export", *files, "--format", "packed")
    assert result.returncode == 0, result.stderr
    assert "agreement" in result.stdout
    first = (folder / "model.tflite").read_bytes()
    assert (folder / "again.tflite").read_bytes() == first
