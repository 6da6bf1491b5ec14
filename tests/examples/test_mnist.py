"""The first example, on a part of MNIST."""

import os

import keras
import numpy as np
import pytest

from examples import mnist
from examples.paper import data
from tflite_export import run

COUNT = {"train": 6000, "validation": 0, "test": 1000}


def test_it_trains_saves_and_exports(tmp_path, monkeypatch, capsys):
    if not os.environ.get("KERAS_LAB_DATA"):
        pytest.skip("KERAS_LAB_DATA is not set")
    digits = data.mnist()
    parts = {
        name: data.Part(*(a[:count] for a in getattr(digits, name)))
        for name, count in COUNT.items()
    }
    small = data.Dataset(**parts, classes=10, files={})
    monkeypatch.setattr(data, "mnist", lambda: small)
    monkeypatch.chdir(tmp_path)
    mnist.main("--epochs 1 --units 128".split())
    lines = capsys.readouterr().out.splitlines()
    accuracy = [line.split()[-1] for line in lines if "test accuracy" in line]
    assert [float(value[:-1]) > 80 for value in accuracy] == [True, True]

    x, y = small.test
    network = keras.models.load_model("mnist_lab.keras")
    assert f"{network.evaluate(x, y, verbose=0)[1]:.2%}" == accuracy[1]
    (scores,) = run("mnist_lab.tflite", x).values()
    assert np.mean(scores.argmax(axis=1) == y) > 0.8
