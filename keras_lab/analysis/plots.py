"""Figures of binary networks: latent weights, gradients, trajectories.

Each function returns a matplotlib figure, and writes it if it is given a path.
Install matplotlib with `pip install "keras_lab[plots]"`.
"""

import math
import textwrap

import keras
import numpy as np
from keras import ops

from keras_lab._backend import backend
from keras_lab.analysis.history import read_trajectories
from keras_lab.analysis.measurements import parts_of
from keras_lab.files import FIGURE_SUFFIXES, check_target, replacing
from keras_lab.model_checks import check_is_model, no_binary_weights

__all__ = ["gradients", "latent_weights", "trajectories"]

MOST_BARS = 80
PANELS_PER_ROW = 4
# How many characters of a title fit above a panel.
TITLE_WIDTH = 34
# 4 dashes and 13 markers give 52 lines that differ without color.
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "x", "v", "P", "*", "<", "+", "h", ">", "p")
MARKERS_PER_LINE = 12
PANELS = {
    "alpha": "scale α",
    "flips": "flipped\nsigns (%)",
    "clipped": "weights at\nthe clip (%)",
}
# Heights in inches: of a panel, and of a name in the legend.
PANEL, NAME = 2.4, 0.18
# If the largest value is this many times the smallest, the axis is logarithmic.
# The keys tell whether it would start at zero otherwise.
WIDE = {True: 100, False: 4}


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
    path = _check_path(path)
    parts = _parts(model)
    figure, panels = _panels(parts, "latent weight w (dashed: ±α)")
    for (axes, name), part in zip(panels, parts):
        latent = ops.convert_to_numpy(part.weight.latent)
        alpha = ops.convert_to_numpy(part.weight.alpha)
        w = part.select(latent).astype("float32").ravel()
        alpha = part.select_alpha(alpha).astype("float32").ravel()
        limit = np.abs(w[np.isfinite(w)]).max(initial=0) or 1.0
        # The number of bars is even: an edge at zero keeps the signs apart.
        _histogram(axes, w, np.linspace(-limit, limit, _bars(w.size) + 1))
        _plus_minus(axes, alpha)
        low, high = f"{alpha.min():.3g}", f"{alpha.max():.3g}"
        values = low if low == high else f"{low} … {high}"
        _title(axes, name, f"α = {values}", w)
    return _finish(figure, path)


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
    path = _check_path(path)
    parts = _parts(model)
    _check_batch(x, y)
    of_weight = _gradients(model, [part.weight for part in parts], x, y)
    sizes = [
        np.abs(part.select(of_weight[id(part.weight)])).ravel()
        for part in parts
    ]
    edges = _common_edges(sizes)
    figure, panels = _panels(
        parts,
        "size of a gradient, |g| (dashed: median of those that are not zero)",
    )
    for (axes, name), g in zip(panels, sizes):
        axes.set_xscale("log")
        axes.set_xlim(edges[0], edges[-1])
        _histogram(axes, g, edges)
        text, positive = f"{np.mean(g == 0):.1%} zero", _positive(g)
        if positive.size:
            median = np.median(positive)
            axes.axvline(median, color="black", linestyle="--")
            text += f", median of the others {median:.2g}"
        _title(axes, name, text, g)
    return _finish(figure, path)


def trajectories(source, path=None):
    """Draws α, flipped signs and clipped weights over a training.

    There is one line per weight. Its name in the legend leaves out what all
    names have in common. Up to 52 lines differ in dashes and markers, so that
    they can be told apart without color.

    Args:
        source: A `keras_lab.callbacks.BinaryMonitor`, its `history` or its CSV
            file.
        path: Where to write: `.png`, `.pdf` or `.svg`. Defaults to `None`.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    path = _check_path(path)
    lines, positions = read_trajectories(source)
    shown = [q for q in PANELS if any(q == quantity for quantity, _ in lines)]
    names = list(dict.fromkeys(name for _, name in lines))
    height = max(PANEL * len(shown) + 0.6, NAME * len(names) + 0.4)
    figure = _new_figure(9, height)
    panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axes, quantity in zip(panels, shown):
        _draw_lines(axes, lines, quantity, names)
    axes.set_xlabel(positions)
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    # Beside the panels, so that it covers no line.
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside right upper",
        fontsize=8,
        handlelength=4,
    )
    return _finish(figure, path)


def _draw_lines(axes, lines, quantity, names):
    """Draws lines that differ in dashes, marker and shade."""
    from matplotlib import colormaps

    is_share = "%" in PANELS[quantity]
    # From dark to light, but never as light as the paper.
    colors = colormaps["viridis"](np.linspace(0, 0.75, len(names)))
    for number, (name, label) in enumerate(zip(names, _short_names(names))):
        xs, ys = lines.get((quantity, name), ([], []))
        every = max(1, len(xs) // MARKERS_PER_LINE)
        axes.plot(
            xs,
            [100 * y for y in ys] if is_share else ys,
            color=colors[number],
            linestyle=DASHES[number % len(DASHES)],
            marker=MARKERS[number % len(MARKERS)],
            # At different places for each line, because lines may coincide.
            markevery=(number % every, every),
            markersize=4,
            linewidth=1.2,
            label=label,
        )
    _set_scale(axes, from_zero=is_share)
    axes.set_ylabel(PANELS[quantity], fontsize=9)


def _parts(model):
    check_is_model(model)
    parts = parts_of(model)
    if not parts:
        raise ValueError(no_binary_weights(model))
    return parts


def _check_batch(x, y):
    lengths = [len(array) for array in keras.tree.flatten((x, y))]
    if len(set(lengths)) != 1:
        raise ValueError(
            "`x` and `y` must have the same number of examples. "
            f"Received: {lengths}"
        )


def _positive(values):
    return values[np.isfinite(values) & (values > 0)]


def _common_edges(sizes):
    """The edges of the bars, the same for the gradients of all weights."""
    together = np.concatenate([_positive(g) for g in sizes])
    low, high = 1e-3, 1.0  # If there is nothing to show.
    if together.size:
        low, high = together.min(), together.max()
    bars = _bars(max(g.size for g in sizes))
    return np.geomspace(low, max(high, 1.001 * low), bars + 1)


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


def _check_path(path):
    return path if path is None else check_target("path", path, FIGURE_SUFFIXES)


def _new_figure(width, height):
    """An empty figure. Width and height are in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Figures need matplotlib, which is not installed. "
            'Run: pip install "keras_lab[plots]"'
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def _finish(figure, path):
    """Writes the figure if there is a path, and returns it."""
    if path is not None:
        kind = path.suffix[1:].lower()
        # Without a date, so that the same numbers give the same file.
        metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None}}
        metadata = metadata.get(kind, {"Date": None})
        with replacing(path) as partial:
            figure.savefig(partial, format=kind, dpi=120, metadata=metadata)
    return figure


def _panels(parts, label):
    """A figure, and for each part a panel and its name."""
    count = len(parts)
    columns = min(count, PANELS_PER_ROW)
    rows = math.ceil(count / columns)
    figure = _new_figure(max(2.9 * columns, 4.5), 2.2 * rows + 0.5)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels[count:]:
        axes.set_axis_off()
    for axes in panels:
        axes.tick_params(labelsize=8)
    figure.supxlabel(label, fontsize=10)
    figure.supylabel("weights (%)", fontsize=10)
    return figure, zip(panels, _short_names([part.name for part in parts]))


def _bars(count):
    """A good number of bars for `count` values. It is even."""
    return min(MOST_BARS, 2 * max(5, round(math.sqrt(count) / 2)))


def _histogram(axes, values, edges):
    """Draws the share of the values between two edges, in percent of all."""
    finite = values[np.isfinite(values)]
    shares = np.full(finite.size, 100 / max(values.size, 1))
    axes.hist(finite, edges, weights=shares, color="0.7")


def _plus_minus(axes, alpha):
    """Draws ±α as dashed lines, and the range of several α as an area."""
    mean, low, high = alpha.mean(), alpha.min(), alpha.max()
    for sign in (-1, 1):
        axes.axvline(sign * mean, color="black", linestyle="--", linewidth=1)
        if low < high:
            axes.axvspan(sign * low, sign * high, color="0.4", alpha=0.3)


def _short_names(names):
    """Names of weights, without the parts that all of them share."""
    paths = [name.split("/") for name in names]
    if all(len(path) > 1 and path[-1] == "kernel" for path in paths):
        paths = [path[:-1] for path in paths]
    while all(len(path) > 1 and path[0] == paths[0][0] for path in paths):
        paths = [path[1:] for path in paths]
    return ["/".join(path) for path in paths]


def _title(axes, name, text, values):
    """Writes the name of a panel, wrapped if it is long, and a text."""
    words = name.replace("/", "/ ")
    lines = textwrap.wrap(words, TITLE_WIDTH, break_on_hyphens=False)
    lines = [line.replace("/ ", "/") for line in lines]
    missing = 1 - np.mean(np.isfinite(values))
    if missing:
        text += f", {missing:.1%} NaN or infinite"
    axes.set_title("\n".join([*lines, text]), fontsize=8)


def _set_scale(axes, from_zero):
    """Draws a grid, and makes the axis logarithmic for values far apart."""
    values = np.concatenate([x.get_ydata() for x in axes.lines] or [[]])
    values = values[np.isfinite(values)]
    positive = _positive(values)
    if positive.size and positive.max() > WIDE[from_zero] * positive.min():
        if np.all(values > 0):
            axes.set_yscale("log")
        else:
            # Linear near zero, which a logarithmic axis cannot show.
            axes.set_yscale("symlog", linthresh=positive.min())
            axes.set_ylim(bottom=0)
    elif from_zero:
        axes.set_ylim(bottom=0)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8, which="both")
