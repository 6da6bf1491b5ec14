"""What a result holds about a network after each epoch."""

import math

import keras
import numpy as np
import pytest

from examples.paper.data import Part
from examples.paper.recipes import select
from examples.paper.results import histogram, recurrent_gradient


def test_selection_takes_the_last_of_equal_epochs():
    history = {
        "validation_error": [3.0, 2.0, None, 2.0, 2.5],
        "test_error": [3.1, 2.1, None, 2.2, 1.0],
    }
    best = {"epoch": 4, "validation_error": 2.0, "test_error": 2.2}
    assert select(history, "error") == best
    overflown = {"validation_loss": [1.0, 0.5], "test_loss": [1.5, None]}
    assert select(overflown, "loss")["epoch"] == 1
    diverged = {"validation_loss": [None], "test_loss": [None]}
    assert select(diverged, "loss") is None


def test_gradients_are_counted_by_magnitude():
    sizes = [1e-50, 0.0, 3e-5, -3e-5, 0.2, 1e50, np.inf, np.nan]
    counted = histogram(np.array(sizes))
    low, high = counted["log10_range"]
    edges = np.linspace(low, high, len(counted["counts"]) + 1)
    for size, count in ((3e-5, 2), (0.2, 1)):
        index = np.searchsorted(edges, math.log10(size)) - 1
        assert counted["counts"][index] == count
    assert sum(counted["counts"]) == 3
    assert (counted["below"], counted["above"]) == (2, 1)
    assert counted["not_finite"] == 2


def test_the_gradient_is_that_of_the_recurrent_weights(rng):
    model = keras.Sequential(
        [keras.Input((3, 2)), keras.layers.SimpleRNN(1, "linear")]
    )
    model.compile(loss="mse")
    kernel, recurrent, bias = np.array([[0.3], [0.2]]), 0.5, 0.1
    model.set_weights([kernel, np.array([[recurrent]]), np.array([bias])])
    x, y = rng.normal(size=(1, 3, 2)), np.array([[2.0]])
    inputs = (x @ kernel)[0, :, 0] + bias
    h1 = inputs[0]
    h2 = inputs[1] + recurrent * h1
    h3 = inputs[2] + recurrent * h2
    expected = 2 * (h3 - 2.0) * (h2 + recurrent * h1)
    got = recurrent_gradient(model, Part(x.astype("float32"), y))
    assert got["rms"] == pytest.approx(abs(expected), rel=1e-4)
    dense = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    dense.compile(loss="mse")
    assert recurrent_gradient(dense, Part(x[:, 0], y)) is None
