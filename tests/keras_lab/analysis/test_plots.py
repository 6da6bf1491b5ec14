"""The figures and the histories they show have the right numbers."""

import sys

import keras
import matplotlib.image
import numpy as np
import pytest
import tensorflow as tf

import keras_lab
from keras_lab.analysis import plots
from keras_lab.analysis.history import (
    CSV_COLUMNS,
    read_history,
    read_trajectories,
    write_history,
)
from tests.keras_lab.support import assert_same, sequential


def rows(layers, epochs):
    """A history with numbers that are easy to recognize."""
    return [
        {
            **dict.fromkeys(CSV_COLUMNS),
            "epoch": epoch,
            "step": 10 * (epoch + 1),
            "weight": f"dense_{layer}/kernel",
            "alpha": 0.1 * layer + 0.01 * epoch,
            "flips": 0.5 / (1 + epoch) ** (1 + layer / 10),
            "clipped": 0.02 * epoch,
        }
        for epoch in range(epochs)
        for layer in range(1, layers + 1)
    ]


def test_rows_and_files_give_the_same_lines(tmp_path):
    path, history = tmp_path / "monitor.csv", rows(2, 3)
    write_history(path, history)
    assert read_history(path) == history
    lines, positions = read_trajectories(history)
    assert read_trajectories(path) == (lines, positions)
    assert positions == "epochs trained"
    assert lines["clipped", "dense_1/kernel"] == ([1, 2, 3], [0, 0.02, 0.04])
    # Several measurements per epoch are in steps.
    history += [{**row, "epoch": 2, "step": 35} for row in rows(2, 1)]
    lines, positions = read_trajectories(history)
    assert positions == "steps trained"
    assert lines["alpha", "dense_1/kernel"][0] == [10, 20, 30, 35]


@pytest.mark.parametrize(
    "content", ["", ",".join(CSV_COLUMNS) + "\n1,2,3,4", "a,b\n1,2\n"]
)
def test_a_file_that_is_something_else_is_named(tmp_path, content):
    path = tmp_path / "mine.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"not the CSV.*mine\.csv"):
        read_trajectories(path)


def test_trajectories_draw_each_number_where_it_belongs(tmp_path):
    path = tmp_path / "figure.png"
    alpha, flips, clipped = plots.trajectories(rows(3, 5), path).axes
    assert matplotlib.image.imread(path).std() > 0.05
    for panel in (alpha, flips, clipped):
        labels = [line.get_label() for line in panel.lines]
        assert labels == ["dense_1", "dense_2", "dense_3"]
        assert list(panel.lines[0].get_xdata()) == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(
        alpha.lines[1].get_ydata(), [0.2, 0.21, 0.22, 0.23, 0.24]
    )
    assert flips.lines[0].get_ydata()[0] == 50
    np.testing.assert_allclose(clipped.lines[2].get_ydata(), [0, 2, 4, 6, 8])


def panel(figure, name):
    (axes,) = [a for a in figure.axes if a.get_title().startswith(name)]
    return axes


def test_histograms_show_all_weights_and_plus_minus_alpha():
    lstm = keras_lab.BinaryLSTM(5, name="lstm")
    dense = keras_lab.BinaryDense(6, name="dense")
    figure = plots.latent_weights(sequential((4, 8), lstm, dense))
    assert sum(bool(axes.get_title()) for axes in figure.axes) == 9
    axes = panel(figure, "dense/kernel")
    drawn = sorted(line.get_xdata()[0] for line in axes.lines)
    alpha = dense.alpha.numpy()
    np.testing.assert_allclose(drawn, [-alpha, alpha])
    assert sum(b.get_height() for b in axes.patches) == pytest.approx(100)
    below = sum(b.get_height() for b in axes.patches if b.get_x() < -1e-9)
    np.testing.assert_allclose(below, 100 * np.mean(dense.kernel.numpy() < 0))
    forget = panel(figure, "lstm/recurrent_kernel_f").lines[1].get_xdata()[0]
    np.testing.assert_allclose(forget, lstm.cell.recurrent_alpha.numpy()[1])


def training_network():
    """With everything that a training step changes, draws or adds."""
    model = sequential(
        (8,),
        keras_lab.BinaryDense(16, kernel_regularizer="l2", name="first"),
        keras.layers.BatchNormalization(),
        keras.layers.ReLU(activity_regularizer="l2"),
        keras.layers.Dropout(0.5, seed=4),
        keras_lab.BinaryDense(6, name="second"),
    )
    model.compile(keras_lab.LABAdam(), "squared_hinge", metrics=["mse"])
    return model


def test_gradients_are_those_of_a_training_step_that_changes_nothing(rng):
    x = rng.normal(size=(16, 8)).astype("float32")
    y = np.sign(rng.normal(size=(16, 6))).astype("float32")
    model = training_network()
    before = [np.array(v) for v in model.variables]
    figure = plots.gradients(model, x, y)
    assert_same(before, [np.array(v) for v in model.variables])
    with tf.GradientTape() as tape:
        scores = model(x, training=True)
        loss = tf.reduce_mean(tf.square(tf.maximum(1 - y * scores, 0)))
        loss += sum(model.losses)
    names = ("first", "second")
    gradients = tape.gradient(
        loss, [model.get_layer(name).kernel.value for name in names]
    )
    for name, gradient in zip(names, gradients):
        g = np.abs(gradient.numpy())
        median = panel(figure, name).lines[0].get_xdata()[0]
        np.testing.assert_allclose(median, np.median(g[g > 0]), rtol=1e-4)
        assert f"{np.mean(g == 0):.1%} zero" in panel(figure, name).get_title()


def test_what_cannot_be_drawn_is_named(monkeypatch):
    model, (x, y) = training_network(), np.ones((2, 16, 8), "float32")
    with pytest.raises(ValueError, match="nothing to draw"):
        read_trajectories([])
    with pytest.raises(TypeError, match=r"'a/alpha': 0\.5"):
        read_trajectories({"a/alpha": 0.5})
    with pytest.raises(ValueError, match=r"\[16, 5\]"):
        plots.gradients(model, x, y[:5])
    with pytest.raises(ValueError, match="no binary weights"):
        plots.latent_weights(sequential((2,), keras.layers.Dense(1)))
    for name in [n for n in sys.modules if n.startswith("matplotlib")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"keras_lab\[plots\]"):
        plots.latent_weights(model)
