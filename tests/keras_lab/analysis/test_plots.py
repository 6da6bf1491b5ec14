"""The figures show the right numbers, and 50 lines differ without color."""

import sys

import keras
import matplotlib.image
import numpy as np
import pytest
import tensorflow as tf

import keras_lab
from keras_lab.analysis import figures as drawing
from keras_lab.analysis import plots
from tests.keras_lab.analysis.support import rows


def test_trajectories_draw_each_number_where_it_belongs():
    figure = plots.trajectories(rows(3, 5))
    alpha, flips, clipped = figure.axes
    for panel in figure.axes:
        assert [line.get_label() for line in panel.lines] == [
            f"dense_{n}" for n in (1, 2, 3)
        ]
        assert list(panel.lines[0].get_xdata()) == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(
        alpha.lines[1].get_ydata(), [0.2, 0.21, 0.22, 0.23, 0.24]
    )
    assert flips.lines[0].get_ydata()[0] == 50
    np.testing.assert_allclose(clipped.lines[2].get_ydata(), [0, 2, 4, 6, 8])
    assert "α" in alpha.get_ylabel() and "%" in flips.get_ylabel()
    assert clipped.get_xlabel() == "epochs trained"
    # α fills its panel; a share is seen against zero.
    assert alpha.get_ylim()[0] > 0.08 and flips.get_ylim()[0] == 0


@pytest.mark.parametrize(
    "layers", [pytest.param(20, marks=pytest.mark.slow), 50]
)
def test_many_layers_are_told_apart_and_the_legend_covers_no_line(
    tmp_path, layers
):
    figure = plots.trajectories(rows(layers, 15), tmp_path / "figure.png")
    lines = figure.axes[0].lines
    looks = {(line.get_linestyle(), line.get_marker()) for line in lines}
    assert len(looks) == layers
    (legend,) = figure.legends
    assert len(legend.get_texts()) == layers
    box = legend.get_window_extent()
    assert all(not box.overlaps(a.get_window_extent()) for a in figure.axes)
    assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1
    pixels = matplotlib.image.imread(tmp_path / "figure.png")
    assert pixels.std() > 0.05
    assert [path.name for path in tmp_path.iterdir()] == ["figure.png"]


def test_names_lose_what_all_share():
    short = drawing.short_names
    assert short(["dense/kernel"]) == ["dense"]
    assert short(["a/b/x/kernel", "a/b/y/kernel"]) == ["x", "y"]
    assert short(["a/x/kernel", "a/x/kernel_i"]) == ["kernel", "kernel_i"]
    assert short(["a/kernel", "b/recurrent_kernel"]) == [
        "a/kernel",
        "b/recurrent_kernel",
    ]


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


def panel(figure, name):
    (axes,) = [a for a in figure.axes if a.get_title().startswith(name)]
    return axes


def training_network():
    """With everything that a training step changes, draws or adds."""
    layers = [
        keras.Input((8,)),
        keras_lab.BinaryDense(16, kernel_regularizer="l2", name="first"),
        keras.layers.BatchNormalization(),
        keras.layers.ReLU(activity_regularizer="l2"),
        keras.layers.Dropout(0.5, seed=4),
        keras_lab.BinaryDense(6, name="second"),
    ]
    model = keras.Sequential(layers)
    model.compile(keras_lab.LABAdam(), "squared_hinge", metrics=["mse"])
    return model


def test_gradients_are_those_of_a_training_step(rng):
    x = rng.normal(size=(16, 8)).astype("float32")
    y = np.sign(rng.normal(size=(16, 6))).astype("float32")
    model = training_network()
    figure = plots.gradients(model, x, y)
    with tf.GradientTape() as tape:
        scores = model(x, training=True)
        loss = tf.reduce_mean(tf.square(tf.maximum(1 - y * scores, 0)))
        loss += sum(model.losses)
    gradients = tape.gradient(
        loss, [model.get_layer(n).kernel.value for n in ("first", "second")]
    )
    for name, gradient in zip(("first", "second"), gradients):
        g = np.abs(gradient.numpy())
        median = panel(figure, name).lines[0].get_xdata()[0]
        np.testing.assert_allclose(median, np.median(g[g > 0]), rtol=1e-4)
        assert f"{np.mean(g == 0):.1%} zero" in panel(figure, name).get_title()
    assert len({axes.get_xlim() for axes in figure.axes}) == 1


def test_drawing_gradients_changes_nothing_in_the_model(rng):
    x = rng.normal(size=(16, 8)).astype("float32")
    model = training_network()
    before = [np.array(v) for v in model.variables]
    plots.gradients(model, x, np.ones((16, 6), "float32"))
    for variable, value in zip(model.variables, before):
        np.testing.assert_array_equal(variable, value)


def test_bad_batches_are_named(rng):
    model = training_network()
    x, y = np.zeros((16, 8), "float32"), np.ones((16, 6), "float32")
    with pytest.raises(ValueError, match=r"\[16, 5\]"):
        plots.gradients(model, x, y[:5])
    plain = network()
    with pytest.raises(ValueError, match="Compile it first"):
        plots.gradients(plain, np.zeros((4, 4, 8)), np.zeros((4, 6)))


def test_a_panel_says_where_there_is_a_nan():
    model = training_network()
    x, y = np.full((16, 8), np.nan, "float32"), np.ones((16, 6), "float32")
    title = panel(plots.gradients(model, x, y), "first").get_title()
    assert "100.0% NaN" in title
    kernel = model.get_layer("second").kernel
    kernel.assign(np.full(kernel.shape, np.nan))
    title = panel(plots.latent_weights(model), "second").get_title()
    assert "100.0% NaN" in title


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    for name in [n for n in sys.modules if n.startswith("matplotlib")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"keras_lab\[plots\]"):
        plots.latent_weights(network())


def test_what_cannot_be_drawn_is_named(tmp_path):
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
