"""The first example, on a part of MNIST as its files have it."""

import gzip
import os
from pathlib import Path

import keras
import numpy as np
import pytest

from examples import mnist
from tflite_export import run

DATA = Path(os.environ.get("KERAS_LAB_DATA", "")) / "mnist"
COUNT = {"train": 6000, "t10k": 1000}


def read(part, kind, offset, shape):
    path = DATA / f"{part}-{kind}-ubyte.gz"
    if not path.is_file():
        pytest.skip(f"no {path.name} in KERAS_LAB_DATA")
    content = gzip.decompress(path.read_bytes())
    return np.frombuffer(content, np.uint8, offset=offset).reshape(shape)


def test_it_trains_saves_and_exports(tmp_path, monkeypatch, capsys):
    arrays = {}
    for part, name in (("train", "train"), ("t10k", "test")):
        x = read(part, "images-idx3", 16, (-1, 28, 28))
        y = read(part, "labels-idx1", 8, (-1,))
        arrays[f"x_{name}"] = x[: COUNT[part]]
        arrays[f"y_{name}"] = y[: COUNT[part]]
    np.savez(tmp_path / "mnist.npz", **arrays)
    monkeypatch.chdir(tmp_path)
    mnist.main("--data mnist.npz --epochs 1 --units 128".split())
    lines = capsys.readouterr().out.splitlines()
    accuracy = [line.split()[-1] for line in lines if "test accuracy" in line]
    assert [float(value[:-1]) > 80 for value in accuracy] == [True, True]

    _, (x, y) = mnist.load_digits("mnist.npz")
    network = keras.models.load_model("mnist_lab.keras")
    assert f"{network.evaluate(x, y, verbose=0)[1]:.2%}" == accuracy[1]
    (scores,) = run("mnist_lab.tflite", x).values()
    assert np.mean(scores.argmax(axis=1) == y) > 0.8
