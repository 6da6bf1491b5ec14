"""What the pictures share: panels, lines told apart without color, files."""

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
PANELS_A_ROW = 4
# So many characters of a title fit above a panel.
TITLE_WIDTH = 34
# 4 dashes and 13 markers: 52 lines differ in black and white.
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "x", "v", "P", "*", "<", "+", "h", ">", "p")
MARKERS_A_LINE = 12
# Beyond this ratio of the values an axis is logarithmic: one that would begin
# at zero, and one that would not.
WIDE = {True: 100, False: 4}


def check_path(path):
    """The path of a figure that can be written; `None` is none."""
    if path is None:
        return None
    return check_target("path", path, FIGURE_SUFFIXES)


def new_figure(width, height):
    """An empty figure, in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Pictures need matplotlib, not installed here. "
            'Run: pip install "keras_lab[plots]"'
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def finish(figure, path):
    """Writes the figure where there is a path, and returns it."""
    if path is not None:
        kind = path.suffix[1:].lower()
        # Without a date: the same numbers give the same file.
        metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None}}
        metadata = metadata.get(kind, {"Date": None})
        with replacing(path) as partial:
            figure.savefig(partial, format=kind, dpi=120, metadata=metadata)
    return figure


def grid(count):
    """A figure, and that many panels in it."""
    columns = min(count, PANELS_A_ROW)
    rows = math.ceil(count / columns)
    figure = new_figure(max(2.9 * columns, 4.5), 2.2 * rows + 0.5)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels[count:]:
        axes.set_axis_off()
    for axes in panels:
        axes.tick_params(labelsize=8)
    return figure, panels[:count]


def bins_for(count):
    """How many bars suit that many values: an even number."""
    return min(BINS, 2 * max(5, round(math.sqrt(count) / 2)))


def histogram(axes, values):
    """Shares in percent, with an edge at zero: no bar mixes both signs.

    What is not finite is in no bar.
    """
    shares = np.full(values.size, 100 / max(values.size, 1))
    finite = np.isfinite(values)
    limit = np.abs(values[finite]).max(initial=0) or 1.0
    edges = np.linspace(-limit, limit, bins_for(values.size) + 1)
    axes.hist(values[finite], edges, weights=shares[finite], color="0.75")


def plus_minus(axes, alpha):
    """±α as dashed lines; of several, their range shaded."""
    mean, low, high = alpha.mean(), alpha.min(), alpha.max()
    for sign in (-1, 1):
        axes.axvline(sign * mean, color="black", linestyle="--", linewidth=1)
        if low < high:
            axes.axvspan(sign * low, sign * high, color="0.4", alpha=0.3)


def line(axes, xs, ys, number, count, label):
    """A line that differs from the others in dashes, marker and shade."""
    from matplotlib import colormaps

    # Dark to light, but never as light as the paper.
    color = colormaps["viridis"](0.75 * number / max(count - 1, 1))
    every = max(1, len(xs) // MARKERS_A_LINE)
    axes.plot(
        xs,
        ys,
        color=color,
        linestyle=DASHES[number % len(DASHES)],
        marker=MARKERS[number % len(MARKERS)],
        # Not all at the same place: lines may lie on one another.
        markevery=(number % every, every),
        markersize=4,
        linewidth=1.2,
        label=label,
    )


def short_names(names):
    """Names of weights, without what all of them begin and end with."""
    paths = [name.split("/") for name in names]
    if all(len(path) > 1 and path[-1] == "kernel" for path in paths):
        paths = [path[:-1] for path in paths]
    while all(len(path) > 1 and path[0] == paths[0][0] for path in paths):
        paths = [path[1:] for path in paths]
    return ["/".join(path) for path in paths]


def title(axes, name, text):
    """The name of a panel, in several lines if it is long, and a text."""
    words = name.replace("/", "/ ")
    lines = textwrap.wrap(words, TITLE_WIDTH, break_on_hyphens=False)
    lines = [line.replace("/ ", "/") for line in lines]
    axes.set_title("\n".join([*lines, text]), fontsize=8)


def whole_numbers(axis):
    """Ticks at whole numbers only, also where there is but one."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))


def set_scale(axes, from_zero):
    """A grid, and a logarithmic axis for values far apart.

    Args:
        axes: The panel, with its lines.
        from_zero: Whether another axis begins at zero.
    """
    values = np.concatenate([x.get_ydata() for x in axes.lines] or [[]])
    values = values[np.isfinite(values)]
    positive = values[values > 0]
    if positive.size and positive.max() > WIDE[from_zero] * positive.min():
        if np.all(values > 0):
            axes.set_yscale("log")
        else:
            # Linear down to zero, which a logarithm does not reach.
            axes.set_yscale("symlog", linthresh=positive.min())
            axes.set_ylim(bottom=0)
    elif from_zero:
        axes.set_ylim(bottom=0)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8, which="both")
