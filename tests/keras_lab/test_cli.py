"""The command `keras-lab`, run as a user runs it."""

import contextlib
import io
import re
import sys

import matplotlib.image
import pytest

from keras_lab import demo
from keras_lab.cli import main

EPOCHS = 3


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory):
    """The folder that a demo wrote to, and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    output = str(folder / "figure.png")
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = main(["demo", "--epochs", str(EPOCHS), "--output", output])
    assert code == 0
    return folder, stdout.getvalue(), stderr.getvalue()


def table_row(text, scheme):
    """Test accuracy in percent, bits a weight, kilobytes."""
    number = r"\s+([\d.]+)"
    row = re.search(rf"^{scheme}{number}%{number}{number} kB$", text, re.M)
    assert row, f"no row for {scheme} in:\n{text}"
    return tuple(float(cell) for cell in row.groups())


def test_demo_leaves_one_readable_figure_that_is_not_blank(demo_run):
    folder, _, _ = demo_run
    assert [path.name for path in folder.iterdir()] == ["figure.png"]
    pixels = matplotlib.image.imread(folder / "figure.png")
    height, width, _ = pixels.shape
    assert width > height > 300
    for panel in range(3):
        first, last = panel * width // 3, (panel + 1) * width // 3
        assert pixels[:, first:last].std() > 0.05


@pytest.mark.parametrize(
    "scheme", ["full precision", "BinaryConnect", "BWN", "LAB"]
)
def test_demo_learns_digits_with_every_scheme(demo_run, scheme):
    accuracy, _, _ = table_row(demo_run[1], scheme)
    assert 85 < accuracy <= 100


def test_demo_counts_one_bit_a_binary_weight_and_32_for_the_rest(demo_run):
    kernels = 64 * 256 + 256 * 256 + 256 * 10
    batch_normalization = 4 * (256 + 256 + 10)
    alphas = 3
    full = 4 * (kernels + batch_normalization) / 1000
    binary = (kernels / 8 + 4 * (batch_normalization + alphas)) / 1000
    _, bits, size = table_row(demo_run[1], "full precision")
    assert (bits, size) == (32, pytest.approx(full, abs=0.05))
    for scheme in ("BinaryConnect", "BWN", "LAB"):
        _, bits, size = table_row(demo_run[1], scheme)
        assert (bits, size) == (1, pytest.approx(binary, abs=0.05))


def test_demo_exports_the_last_network_in_four_formats(demo_run):
    text = demo_run[1]
    lab, _, _ = table_row(text, "LAB")
    rows = {
        format: re.search(
            rf"^{format} +([\d.]+)% +([\d.]+) kB +1/([\d.]+)$", text, re.M
        )
        for format in ("float", "fast", "packed_float", "packed")
    }
    accuracy, size, ratio = (
        {name: float(row[column]) for name, row in rows.items()}
        for column in (1, 2, 3)
    )
    assert all(abs(value - lab) < 1 for value in accuracy.values())
    assert ratio["float"] == 1
    assert size["packed"] < size["fast"] < size["float"]
    for name in rows:
        assert ratio[name] == pytest.approx(size["float"] / size[name], abs=0.1)


def test_demo_reports_each_network_with_the_time_left(demo_run):
    lines = demo_run[2].splitlines()
    lines = [line for line in lines if f"epoch {EPOCHS}/{EPOCHS}" in line]
    assert [line.split("  ")[0] for line in lines] == [
        scheme.name for scheme in demo.SCHEMES
    ]
    left = [int(re.search(r"(\d+) s left", line)[1]) for line in lines]
    assert left[0] > 0 and left[-1] == 0


def test_a_failed_write_keeps_the_old_figure_and_no_half_of_a_new_one(tmp_path):
    class BrokenFigure:
        def savefig(self, path, **options):
            path.write_bytes(b"half")
            raise OSError("No space left on device")

    output = tmp_path / "figure.png"
    output.write_bytes(b"old")
    with pytest.raises(OSError, match="No space"):
        demo.write_atomically(BrokenFigure(), output)
    assert list(tmp_path.iterdir()) == [output]
    assert output.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--epochs", "0", "at least 1. Received: '0'"),
        ("--epochs", "2.5", "must be an integer, at least 1. Received: '2.5'"),
        ("--seed", "-1", "at least 0 and at most 4294967295. Received: '-1'"),
        ("--seed", "4294967296", "Received: '4294967296'"),
        ("--output", "absent/a.png", "does not exist. Received: 'absent"),
        ("--output", "folder.png", "is a directory. Received:"),
        ("--output", "a.txt", "one of .png, .pdf, .svg. Received: 'a.txt'"),
        ("--output", "a", "one of .png, .pdf, .svg. Received: 'a'"),
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
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]


@pytest.mark.parametrize("module", ["sklearn", "matplotlib"])
def test_demo_names_the_extra_that_brings_what_is_missing(
    module, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    assert main(["demo"]) == 1
    error = capsys.readouterr().err
    assert module in error and 'pip install "keras_lab[demo]"' in error
    assert not list(tmp_path.iterdir())


def test_no_command_prints_the_help_and_fails(capsys):
    assert main([]) == 2
    assert "demo" in capsys.readouterr().err
