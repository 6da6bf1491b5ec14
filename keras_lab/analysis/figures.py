"""Drawing helpers for `plots`: panels, lines that differ in black and white."""

import math
import textwrap

import numpy as np

from keras_lab.files import check_target, replacing

__all__ = [
    "FIGURE_SUFFIXES",
    "bins_for",
    "check_path",
    "finish",
    "grid",
    "histogram",
    "line",
    "new_figure",
    "plus_minus",
    "set_scale",
    "short_names",
    "title",
    "whole_numbers",
]

FIGURE_SUFFIXES = (".png", ".pdf", ".svg")
BINS = 80
PANELS_PER_ROW = 4
# How many characters of a title fit above a panel.
TITLE_WIDTH = 34
# 4 dashes and 13 markers give 52 lines that differ without color.
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "x", "v", "P", "*", "<", "+", "h", ">", "p")
MARKERS_PER_LINE = 12
# If the largest value is this many times the smallest, the axis is logarithmic.
# The keys tell whether it would start at zero otherwise.
WIDE = {True: 100, False: 4}


def check_path(path):
    """The path to write a figure to, checked; `None` stays `None`."""
    if path is None:
        return None
    return check_target("path", path, FIGURE_SUFFIXES)


def new_figure(width, height):
    """An empty figure. Width and height are in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Figures need matplotlib, which is not installed. "
            'Run: pip install "keras_lab[plots]"'
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def finish(figure, path):
    """Writes the figure if there is a path, and returns it."""
    if path is not None:
        kind = path.suffix[1:].lower()
        # Without a date, so that the same numbers give the same file.
        metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None}}
        metadata = metadata.get(kind, {"Date": None})
        with replacing(path) as partial:
            figure.savefig(partial, format=kind, dpi=120, metadata=metadata)
    return figure


def grid(count):
    """A figure, and a number of panels in it."""
    columns = min(count, PANELS_PER_ROW)
    rows = math.ceil(count / columns)
    figure = new_figure(max(2.9 * columns, 4.5), 2.2 * rows + 0.5)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels[count:]:
        axes.set_axis_off()
    for axes in panels:
        axes.tick_params(labelsize=8)
    return figure, panels[:count]


def bins_for(count):
    """A good number of bars for `count` values. It is even."""
    return min(BINS, 2 * max(5, round(math.sqrt(count) / 2)))


def histogram(axes, values):
    """Draws shares in percent. An edge at zero keeps the signs apart.

    Values that are not finite are in no bar.
    """
    shares = np.full(values.size, 100 / max(values.size, 1))
    finite = np.isfinite(values)
    limit = np.abs(values[finite]).max(initial=0) or 1.0
    edges = np.linspace(-limit, limit, bins_for(values.size) + 1)
    axes.hist(values[finite], edges, weights=shares[finite], color="0.75")


def plus_minus(axes, alpha):
    """Draws ±α as dashed lines, and the range of several α as an area."""
    mean, low, high = alpha.mean(), alpha.min(), alpha.max()
    for sign in (-1, 1):
        axes.axvline(sign * mean, color="black", linestyle="--", linewidth=1)
        if low < high:
            axes.axvspan(sign * low, sign * high, color="0.4", alpha=0.3)


def line(axes, xs, ys, number, count, label):
    """Draws a line that differs from the others in dashes, marker and shade."""
    from matplotlib import colormaps

    # From dark to light, but never as light as the paper.
    color = colormaps["viridis"](0.75 * number / max(count - 1, 1))
    every = max(1, len(xs) // MARKERS_PER_LINE)
    axes.plot(
        xs,
        ys,
        color=color,
        linestyle=DASHES[number % len(DASHES)],
        marker=MARKERS[number % len(MARKERS)],
        # At different places for each line, because lines may coincide.
        markevery=(number % every, every),
        markersize=4,
        linewidth=1.2,
        label=label,
    )


def short_names(names):
    """Names of weights, without the parts that all of them share."""
    paths = [name.split("/") for name in names]
    if all(len(path) > 1 and path[-1] == "kernel" for path in paths):
        paths = [path[:-1] for path in paths]
    while all(len(path) > 1 and path[0] == paths[0][0] for path in paths):
        paths = [path[1:] for path in paths]
    return ["/".join(path) for path in paths]


def title(axes, name, text):
    """Writes the name of a panel, wrapped if it is long, and a text."""
    words = name.replace("/", "/ ")
    lines = textwrap.wrap(words, TITLE_WIDTH, break_on_hyphens=False)
    lines = [line.replace("/ ", "/") for line in lines]
    axes.set_title("\n".join([*lines, text]), fontsize=8)


def whole_numbers(axis):
    """Puts ticks at whole numbers only, even if there is only one."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))


def set_scale(axes, from_zero):
    """Draws a grid, and makes the axis logarithmic for values far apart.

    Args:
        axes: The panel, with its lines.
        from_zero: Whether the axis starts at zero if it is not logarithmic.
    """
    values = np.concatenate([x.get_ydata() for x in axes.lines] or [[]])
    values = values[np.isfinite(values)]
    positive = values[values > 0]
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
