"""Figures of binary networks: latent weights, gradients, trajectories.

Each function returns a matplotlib figure, and writes it if it is given a path.
Install matplotlib with `pip install "keras_lab[plots]"`.
"""

import keras
import numpy as np
from keras import ops

from keras_lab._backend import backend
from keras_lab.analysis import figures as drawing
from keras_lab.analysis.history import read_trajectories
from keras_lab.analysis.measurements import parts_of
from keras_lab.convert.graph import check_is_model, no_binary_weights

__all__ = ["gradients", "latent_weights", "trajectories"]

PANELS = {
    "alpha": "scale α",
    "flips": "flipped\nsigns (%)",
    "clipped": "weights at\nthe clip (%)",
}
# Heights in inches: of a panel, of a panel with nothing but zeros, and of a
# name in the legend.
PANEL, EMPTY_PANEL, NAME = 2.4, 0.6, 0.18


def latent_weights(model: keras.Model, path=None):
    """Draws histograms of the latent weights, with lines at ±α.

    There is one panel per binary weight, or per gate of a recurrent one. If a
    weight has one α per channel, their range is shaded.

    Args:
        model: A built model.
        path: Where to write: `.png`, `.pdf` or `.svg`. Defaults to `None`.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    path = drawing.check_path(path)
    parts = _parts(model)
    figure, panels = drawing.grid(len(parts))
    names = drawing.short_names([part.name for part in parts])
    for axes, name, part in zip(panels, names, parts):
        latent = ops.convert_to_numpy(part.weight.latent)
        alpha = ops.convert_to_numpy(part.weight.alpha)
        w = part.select(latent).astype("float32").ravel()
        alpha = part.select_alpha(alpha).astype("float32").ravel()
        drawing.histogram(axes, w)
        drawing.plus_minus(axes, alpha)
        low, high = f"{alpha.min():.3g}", f"{alpha.max():.3g}"
        values = low if low == high else f"{low} … {high}"
        drawing.title(axes, name, f"α = {values}{_not_finite(w)}")
    figure.supxlabel("latent weight w (dashed: ±α)", fontsize=10)
    figure.supylabel("weights (%)", fontsize=10)
    return drawing.finish(figure, path)


def gradients(model: keras.Model, x, y, path=None):
    """Draws the distribution of the gradients of the loss at the weights ŵ.

    There is one panel per binary weight, or per gate of a recurrent one: the
    share of gradients by size, with |g| on a logarithmic axis that is the same
    in all panels. Zeros are not on it. The title shows their share, and the
    median of the other gradients.

    These are the gradients of a training step on the batch: with dropout, and
    with batch norm in training mode. The model stays the same to the bit,
    including its moving averages and random seeds.

    Args:
        model: A compiled model.
        x, y: A batch of data, as in `fit`.
        path: Where to write: `.png`, `.pdf` or `.svg`. Defaults to `None`.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    path = drawing.check_path(path)
    parts = _parts(model)
    _check_batch(x, y)
    of_weight = _gradients(model, [part.weight for part in parts], x, y)
    sizes = [
        np.abs(part.select(of_weight[id(part.weight)])).ravel()
        for part in parts
    ]
    edges = _common_edges(sizes)
    figure, panels = drawing.grid(len(parts))
    names = drawing.short_names([part.name for part in parts])
    for axes, name, g in zip(panels, names, sizes):
        positive = g[np.isfinite(g) & (g > 0)]
        axes.set_xscale("log")
        axes.set_xlim(edges[0], edges[-1])
        shares = np.full(positive.size, 100 / g.size)
        axes.hist(positive, edges, weights=shares, color="0.6")
        text = f"{np.mean(g == 0):.1%} zero{_not_finite(g)}"
        if positive.size:
            median = np.median(positive)
            axes.axvline(median, color="black", linestyle="--")
            text += f", median of the others {median:.2g}"
        drawing.title(axes, name, text)
    figure.supxlabel(
        "size of a gradient, |g| (dashed: median of those that are not zero)",
        fontsize=10,
    )
    figure.supylabel("weights (%)", fontsize=10)
    return drawing.finish(figure, path)


def trajectories(source, path=None):
    """Draws α, flipped signs and clipped weights over a training.

    There is one line per weight. Its name in the legend leaves out what all
    names have in common. Up to 52 lines differ in dashes and markers, so that
    they can be told apart without color.

    Args:
        source: A `keras_lab.callbacks.BinaryMonitor`, its `history` or its CSV
            file; or the result of `fit`, its `history`, or a JSON file with it
            under `history`. It then has lists under names such as
            `dense_1/alpha`.
        path: Where to write: `.png`, `.pdf` or `.svg`. Defaults to `None`.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    path = drawing.check_path(path)
    lines, positions = read_trajectories(source)
    shown = [q for q in PANELS if any(q == quantity for quantity, _ in lines)]
    if not shown:
        raise ValueError(
            f"There is nothing to draw: none of {list(PANELS)} was measured. "
            f"Received: {sorted({quantity for quantity, _ in lines})}"
        )
    names = list(dict.fromkeys(name for _, name in lines))
    heights = [_panel_height(lines, quantity) for quantity in shown]
    figure = drawing.new_figure(
        9, max(sum(heights) + 0.6, NAME * len(names) + 0.4)
    )
    panels = figure.subplots(
        len(shown), 1, sharex=True, squeeze=False, height_ratios=heights
    )[:, 0]
    for axes, quantity in zip(panels, shown):
        _draw_lines(axes, lines, quantity, names)
    axes.set_xlabel(positions)
    drawing.whole_numbers(axes.xaxis)
    # Beside the panels, so that it covers no line.
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside right upper",
        fontsize=8,
        handlelength=4,
    )
    return drawing.finish(figure, path)


def _panel_height(lines, quantity):
    shown = [ys for (name, _), (_, ys) in lines.items() if name == quantity]
    return PANEL if any(map(any, shown)) else EMPTY_PANEL


def _draw_lines(axes, lines, quantity, names):
    is_share = "%" in PANELS[quantity]
    for number, label in enumerate(drawing.short_names(names)):
        xs, ys = lines.get((quantity, names[number]), ([], []))
        if is_share:
            ys = [100 * y for y in ys]
        drawing.line(axes, xs, ys, number, len(names), label=label)
    drawing.set_scale(axes, from_zero=is_share)
    if _panel_height(lines, quantity) == EMPTY_PANEL:
        axes.set_ylim(-1, 1)
        axes.set_yticks([0])
    axes.set_ylabel(PANELS[quantity], fontsize=9)


def _parts(model):
    check_is_model(model)
    parts = parts_of(model)
    if not parts:
        raise ValueError(no_binary_weights(model))
    return parts


def _not_finite(values):
    share = 1 - np.mean(np.isfinite(values))
    return f", {share:.1%} NaN or infinite" if share else ""


def _check_batch(x, y):
    lengths = [len(array) for array in keras.tree.flatten((x, y))]
    if len(set(lengths)) != 1:
        raise ValueError(
            "`x` and `y` must have the same number of examples. "
            f"Received: {lengths}"
        )


def _common_edges(sizes):
    """The edges of the bars, the same for the gradients of all weights."""
    positive = [g[np.isfinite(g) & (g > 0)] for g in sizes]
    together = np.concatenate(positive)
    low, high = 1e-3, 1.0  # If there is nothing to show.
    if together.size:
        low, high = together.min(), together.max()
    bins = drawing.bins_for(max(g.size for g in sizes))
    return np.geomspace(low, max(high, 1.001 * low), bins + 1)


def _gradients(model, weights, x, y):
    """The gradients at ŵ, by the `id` of the weight."""
    if not model.compiled:
        raise ValueError(
            "Gradients need a loss. Compile the model first. Received: model "
            f"'{model.name}', which is not compiled"
        )

    def loss():
        # What the step assigns stays in this scope and ends with it.
        state = [(variable, variable.value) for variable in model.variables]
        with keras.StatelessScope(state, collect_losses=True):
            scores = model(x, training=True)
            return model.compute_loss(x, y, scores, training=True)

    latents = {id(weight): weight.latent for weight in weights}
    found = backend.gradients(loss, list(latents.values()))
    return {
        key: np.zeros(latents[key].shape, "float32")
        if gradient is None
        else ops.convert_to_numpy(backend.dense(gradient)).astype("float32")
        for key, gradient in zip(latents, found)
    }
