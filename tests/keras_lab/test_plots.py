"""The pictures show the numbers, and tell 20 lines apart without color."""

import json
import sys

import keras
import matplotlib.image
import numpy as np
import pytest
import tensorflow as tf

import keras_lab
from keras_lab import plots
from keras_lab.history import COLUMNS, write_history


def rows(layers, epochs):
    """A history with numbers that one can recognize."""
    values = dict.fromkeys(COLUMNS)
    return [
        {
            **values,
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


def test_trajectories_draw_each_number_where_it_belongs():
    figure = plots.trajectories(rows(3, 5))
    alpha, flips, clipped = figure.axes
    for panel in figure.axes:
        assert [line.get_label() for line in panel.lines] == [
            f"dense_{n}/kernel" for n in (1, 2, 3)
        ]
        assert list(panel.lines[0].get_xdata()) == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(
        alpha.lines[1].get_ydata(), [0.2, 0.21, 0.22, 0.23, 0.24]
    )
    assert flips.lines[0].get_ydata()[0] == 50
    np.testing.assert_allclose(clipped.lines[2].get_ydata(), [0, 2, 4, 6, 8])
    assert "α" in alpha.get_ylabel() and "%" in flips.get_ylabel()
    assert clipped.get_xlabel() == "epochs trained"


def test_twenty_layers_are_told_apart_and_the_legend_covers_no_line(tmp_path):
    figure = plots.trajectories(rows(20, 15), tmp_path / "figure.png")
    lines = figure.axes[0].lines
    looks = {(line.get_linestyle(), line.get_marker()) for line in lines}
    assert len(looks) == 20
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 20
    box = legend.get_window_extent()
    assert all(not box.overlaps(a.get_window_extent()) for a in figure.axes)
    assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1
    pixels = matplotlib.image.imread(tmp_path / "figure.png")
    assert pixels.std() > 0.05
    assert [path.name for path in tmp_path.iterdir()] == ["figure.png"]


def lines_of(figure):
    return [
        (line.get_label(), list(line.get_xdata()), list(line.get_ydata()))
        for panel in figure.axes
        for line in panel.lines
    ]


def test_a_csv_and_a_json_file_give_the_same_picture(tmp_path):
    history = rows(2, 3)
    write_history(tmp_path / "monitor.csv", history)
    logs = {"loss": [3.0, 2.0, 1.0]}
    for row in history:
        for name in ("alpha", "flips", "clipped"):
            layer = row["weight"].removesuffix("kernel")
            logs.setdefault(layer + name, []).append(row[name])
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"history": logs}))
    expected = lines_of(plots.trajectories(history))
    assert lines_of(plots.trajectories(tmp_path / "monitor.csv")) == expected
    assert lines_of(plots.trajectories(path)) == expected


def test_what_cannot_be_drawn_is_said(tmp_path):
    with pytest.raises(ValueError, match="nothing to draw"):
        plots.trajectories([])
    (tmp_path / "bad.json").write_text("[1, 2")
    with pytest.raises(ValueError, match=r"bad\.json"):
        plots.trajectories(tmp_path / "bad.json")
    with pytest.raises(ValueError, match=r"log\.txt"):
        plots.trajectories("log.txt")
    with pytest.raises(ValueError, match=r"figure\.gif"):
        plots.trajectories(rows(1, 1), tmp_path / "figure.gif")
    plain = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(ValueError, match="no binary weights"):
        plots.latent_weights(plain)
    unbuilt = keras.Sequential([keras_lab.BinaryDense(1)])
    with pytest.raises(ValueError, match="no weights yet"):
        plots.latent_weights(unbuilt)
    with pytest.raises(TypeError, match="model=3"):
        plots.latent_weights(3)


def network():
    return keras.Sequential(
        [
            keras.Input((4, 8)),
            keras_lab.BinaryLSTM(5, name="lstm"),
            keras_lab.BinaryDense(6, name="dense"),
        ]
    )


def test_histograms_show_all_weights_and_plus_minus_alpha():
    model = network()
    figure = plots.latent_weights(model)
    panels = [axes for axes in figure.axes if axes.get_title()]
    panels = {axes.get_title().split("\n")[0]: axes for axes in panels}
    assert len(panels) == 9  # Eight gates and a dense layer.
    layer = model.get_layer("dense")
    axes = panels["dense/kernel"]
    drawn = sorted(line.get_xdata()[0] for line in axes.lines)
    alpha = layer.alpha.numpy()
    np.testing.assert_allclose(drawn, [-alpha, alpha])
    heights = [bar.get_height() for bar in axes.patches]
    np.testing.assert_allclose(sum(heights), 100)
    below = sum(b.get_height() for b in axes.patches if b.get_x() < -1e-9)
    np.testing.assert_allclose(below, 100 * np.mean(layer.kernel.numpy() < 0))
    forget = panels["lstm/recurrent_kernel_f"].lines[1].get_xdata()[0]
    recurrent = model.get_layer("lstm").cell.recurrent_alpha.numpy()
    np.testing.assert_allclose(forget, recurrent[1])


def test_gradients_are_those_of_the_loss(rng):
    model = network()
    x = rng.normal(size=(16, 4, 8)).astype("float32")
    y = np.sign(rng.normal(size=(16, 6))).astype("float32")
    with pytest.raises(ValueError, match="compile"):
        plots.gradients(model, x, y)
    model.compile(keras_lab.LABAdam(), "squared_hinge")
    figure = plots.gradients(model, x, y)
    kernel = model.get_layer("dense").kernel
    with tf.GradientTape() as tape:
        scores = model(x)
        loss = tf.reduce_mean(tf.square(tf.maximum(1 - y * scores, 0)))
    gradient = np.abs(tape.gradient(loss, kernel.value).numpy())
    (axes,) = [a for a in figure.axes if a.get_title().startswith("dense")]
    median = axes.lines[0].get_xdata()[0]
    np.testing.assert_allclose(median, np.median(gradient), rtol=1e-4)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    for name in [n for n in sys.modules if n.startswith("matplotlib")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"keras_lab\[plots\]"):
        plots.latent_weights(network())
