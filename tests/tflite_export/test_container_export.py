"""Containers wherever a `.tflite` file is written or read."""

import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_lab
from keras_lab.cli import main as keras_lab_main
from tests.tflite_export.support import exported, randomize
from tflite_export import (
    ContainerError,
    InvalidModelError,
    ValidationError,
    expand,
    export_tflite,
    inspect,
    make_interpreter,
    pack,
    read_packed,
    run,
    shrink,
)
from tflite_export import export as export_module
from tflite_export.__main__ import main


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(1)
    layers = [keras.Input((64,)), keras_lab.BinaryDense(96)]
    layers += [keras.layers.ReLU(), keras_lab.BinaryDense(5)]
    return randomize(keras.Sequential(layers))


@pytest.fixture(scope="module")
def files(model, tmp_path_factory):
    """A plain file, the container of the same model, and their reports."""
    folder = tmp_path_factory.mktemp("container")
    model.save(folder / "m.keras")
    paths = folder / "m.tflite", folder / "m.tflz"
    return *paths, *(export_tflite(model, path, "fast") for path in paths)


def test_the_container_expands_to_the_plain_file(files):
    plain, container, plain_report, report = files
    assert expand(container.read_bytes()) == plain.read_bytes()
    assert container.stat().st_size < plain.stat().st_size / 2
    assert report.file_bytes == container.stat().st_size
    assert report.expanded_bytes == plain.stat().st_size
    assert report.expanded_bytes == plain_report.file_bytes
    assert report.layers == plain_report.layers
    assert report.agreement == plain_report.agreement
    assert "\nexpanded  " in str(report)
    assert "\nexpanded  " not in str(plain_report)
    assert inspect(container).file_bytes == report.file_bytes
    assert inspect(container).expanded_bytes == report.expanded_bytes


@pytest.mark.parametrize("of", [lambda p: p, str, lambda p: p.read_bytes()])
def test_every_reader_takes_a_container(files, of):
    plain, container, *_ = files
    x = np.random.default_rng(0).normal(size=(9, 64)).astype("f")
    for name, y in run(plain, x).items():
        np.testing.assert_array_equal(run(of(container), x)[name], y)
    make_interpreter(of(container)).allocate_tensors()
    for weight, other in zip(read_packed(plain), read_packed(of(container))):
        assert weight.path == other.path
        np.testing.assert_array_equal(weight.signs, other.signs)
    assert inspect(of(container)).layers == inspect(plain).layers


def test_pack_takes_a_container():
    content = exported("dense").converted
    assert pack(shrink(content)) == pack(content)


def test_the_content_tells_what_a_file_is(files, tmp_path):
    plain, container, *_ = files
    for source in (plain, container):
        for suffix in (".tflite", ".tflz", ""):
            path = tmp_path / f"other{suffix}"
            path.write_bytes(source.read_bytes())
            assert inspect(path).expanded_bytes == plain.stat().st_size


@pytest.mark.parametrize("read", [inspect, read_packed, pack, make_interpreter])
def test_a_damaged_container_is_an_invalid_model(files, read):
    content = files[1].read_bytes()
    damaged = bytearray(content)
    damaged[len(damaged) // 2] ^= 1
    for bad in (content[:-1], content[:20], content + b"0", bytes(damaged)):
        with pytest.raises(InvalidModelError, match="Damaged container"):
            read(bad)
        with pytest.raises(ContainerError):
            expand(bad)


def test_a_container_of_something_else_is_an_invalid_model():
    for read in (inspect, read_packed, pack):
        with pytest.raises(InvalidModelError, match="Not a TFLite model"):
            read(shrink(b"text"))


def test_nothing_is_written_if_the_container_is_wrong(
    model, tmp_path, monkeypatch
):
    path = tmp_path / "m.tflz"
    path.write_text("old")
    monkeypatch.setattr(export_module, "shrink", lambda _: shrink(b""))
    with pytest.raises(ValidationError, match="does not expand to the same"):
        export_tflite(model, path, "fast")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["m.tflz"]


@pytest.mark.parametrize("program", [main, keras_lab_main])
def test_the_command_lines_write_and_inspect_containers(
    files, program, tmp_path, capsys
):
    path = tmp_path / "m.tflz"
    command = [] if program is main else ["export"]
    source = str(files[0].with_name("m.keras"))
    assert program([*command, source, str(path), "--format", "fast"]) == 0
    assert path.read_bytes() == files[1].read_bytes()
    assert "\nexpanded  " in capsys.readouterr().out
    assert program(["inspect", str(path)]) == 0
    assert "\nexpanded  " in capsys.readouterr().out
    path.write_bytes(path.read_bytes()[:-1])
    assert program(["inspect", str(path)]) == 1
    assert "error: Damaged container" in capsys.readouterr().err


def test_the_best_epoch_is_written_as_a_container(tmp_path):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((64,)), keras_lab.BinaryDense(32)])
    model.compile(keras_lab.LABAdam(0.01), "mse", jit_compile=False)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(32, 64)), rng.normal(size=(32, 32))
    path = tmp_path / "best.tflz"
    best = keras_lab.callbacks.ExportBest(path, "loss", format="fast")
    model.fit(x, y, epochs=1, verbose=0, callbacks=[best])
    assert best.report.file_bytes == path.stat().st_size
    assert best.report.expanded_bytes == len(expand(path.read_bytes()))


def test_shrink_and_expand_need_neither_keras_nor_tensorflow():
    code = """if True:
        import sys
        from tflite_export import ContainerError, expand, shrink
        assert expand(shrink(b"text")) == b"text"
        heavy = {"keras", "keras_lab", "tensorflow", "flatbuffers"}
        assert not heavy & set(sys.modules), heavy & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", code], check=True)
