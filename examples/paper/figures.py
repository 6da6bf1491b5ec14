"""The figures of the page of results."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from examples.paper.cells import find, shown_cells, shown_sizes
from examples.paper.results import Run
from examples.paper.schemes import SCHEMES
from examples.paper.tables import TABLES
from keras_lab.files import replacing

STYLE = {
    "full_precision": "ks-",
    "binary_connect": "C0^:",
    "bwn": "C1v--",
    "lab": "C3o-.",
    "bnn": "C9^:",
    "xnor": "C8v--",
    "lab2": "C6o-.",
}

LABEL = {"error": "test error (%)", "loss": "test cross-entropy (nats)"}

# Of one legend for two panels: inside there may be curves anywhere.
LEGEND = "outside upper center"


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A figure: its file's name, its title, and the function that draws it.

    The function returns `None` where there is nothing to draw.
    """

    name: str
    title: str
    draw: Callable[[list[Run]], Figure | None]


def draw_all(runs: list[Run], folder: Path) -> dict[str, str]:
    """Draws what there is; returns the files by the figures' names."""
    drawn = {}
    for drawings in OF_TABLE.values():
        for drawing in drawings:
            figure = drawing.draw(runs)
            if figure is not None:
                _write(figure, folder / f"{drawing.name}.png")
                drawn[drawing.name] = f"{folder.name}/{drawing.name}.png"
    return drawn


def _write(figure, path):
    path.parent.mkdir(exist_ok=True)
    with replacing(path) as partial:
        # Without a date: the same results give the same file.
        figure.savefig(
            partial, format="png", dpi=120, metadata={"Software": None}
        )


def convergence(runs):
    """Figure 1: error of LAB by epoch, on each data set."""
    table = TABLES["table1"]
    found = [
        (column, find(runs, column, "lab", sizes))
        for column, sizes in zip(table.columns, shown_sizes(runs, table))
    ]
    found = [(column, cell.runs[0]) for column, cell in found if cell]
    if not found:
        return None
    figure = Figure(figsize=(4.2 * len(found), 3.4), layout="constrained")
    for axes, (column, run) in zip(
        figure.subplots(1, len(found), squeeze=False)[0], found
    ):
        epochs = np.arange(1, run.epochs_done + 1)
        for part, line in (
            ("train", "C0:"),
            ("validation", "C1--"),
            ("test", "C3-"),
        ):
            errors = np.array(run.history[f"{part}_error"], np.float64)
            # An error of zero has no place on this axis: a gap.
            errors = np.where(errors > 0, errors, np.nan)
            marker = "." if len(epochs) <= 10 else ""
            axes.plot(epochs, errors, line, marker=marker, label=part)
        axes.set(
            title=f"{column.title}, {_sizes(run)}, seed {run.seed}",
            xlabel="epoch",
            ylabel="error of LAB (%)",
        )
        _log_scale(axes)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
        axes.legend()
    return figure


def _log_scale(axes):
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")


def texts(runs):
    """Table 3 by epoch."""
    return _by_epoch(runs, "table3")


def schedules(runs):
    """The table of schedules by epoch."""
    return _by_epoch(runs, "schedule")


def without_norm(runs):
    """The table without batch norm by epoch."""
    return _by_epoch(runs, "no_norm")


def _by_epoch(runs, name):
    """What is measured by epoch, a panel a column and a line a scheme."""
    table = TABLES[name]
    found = [
        (column, [find(runs, column, s, sizes) for s in table.schemes])
        for column, sizes in zip(table.columns, shown_sizes(runs, table))
    ]
    found = [(column, cells) for column, cells in found if any(cells)]
    if not found:
        return None
    figure = Figure(figsize=(4.8 * len(found), 3.6), layout="constrained")
    lines = {}
    panels = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
    for axes, (column, cells) in zip(panels, found):
        for cell in filter(None, cells):
            run = cell.runs[0]
            values = run.history[f"test_{run.measure}"]
            (lines[run.scheme],) = axes.plot(
                np.arange(1, run.epochs_done + 1),
                np.array(values, np.float64),
                STYLE[run.scheme],
                markersize=4,
                label=SCHEMES[run.scheme].title,
            )
        axes.set(
            title=f"{column.title}, {_sizes(run)}",
            xlabel="epoch",
            ylabel=LABEL[run.measure],
        )
        if run.measure == "error":
            _log_scale(axes)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
    # In the order of the table, whichever panel has them.
    handles = [lines[scheme] for scheme in table.schemes if scheme in lines]
    columns = 4 if len(found) > 1 else 2 if len(handles) <= 4 else 3
    figure.legend(handles=handles, loc=LEGEND, ncols=columns)
    return figure


def _sizes(run):
    """The sizes of a network, for a title."""
    return ", ".join(f"{name} {size}" for name, size in run.sizes.items())


def _study(runs, name, size_name, label, ylabel, sharey):
    """A table of one recipe as curves, the paper's beside ours.

    Ours as the table shows them. An error has its standard error as a bar; that
    of one cross-entropy is not known.
    """
    table = TABLES[name]
    cells = shown_cells(runs, table)
    at = [size[size_name] for size in shown_sizes(runs, table)]
    epochs = {cell.epochs for cell in cells.values() if cell}
    if not any(cell and cell.values for cell in cells.values()):
        return None
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    paper, ours = figure.subplots(1, 2, sharex=True, sharey=sharey)
    for number, scheme in enumerate(table.schemes):
        # Side by side, for the bars to be seen.
        aside = (number - (len(table.schemes) - 1) / 2) * max(at) / 100
        printed = [float(column.paper[scheme]) for column in table.columns]
        title = SCHEMES[scheme].title
        paper.plot(at, printed, STYLE[scheme], label=title)
        points = [
            (x + aside, cell.mean, _bar(cell))
            for x, column in zip(at, table.columns)
            if (cell := cells[column.title, scheme]) and cell.values
        ]
        if points:
            x, means, bars = zip(*points)
            ours.errorbar(x, means, bars, fmt=STYLE[scheme], capsize=3)
    paper.set(title="the paper")
    ours.set(title=f"ours, {_scale(cells, size_name)}{_epochs(epochs)}")
    for axes in (paper, ours):
        axes.set(xlabel=label, ylabel=ylabel)
        axes.set_xticks(at)
        axes.grid(alpha=0.3)
    figure.legend(handles=list(paper.lines), loc=LEGEND, ncols=4)
    return figure


def _scale(cells, but):
    """The sizes of the networks but for one, and how many images there were."""
    runs = [run for cell in cells.values() if cell for run in cell.runs]
    sizes = {name: size for name, size in runs[0].sizes.items() if name != but}
    texts = [f"{name} {size}" for name, size in sizes.items()]
    if runs[0].recipe.examples:
        counts = _range({run.data["train"] for run in runs})
        texts.append(f"{counts} training images")
    return "".join(f"{text}, " for text in texts)


def _bar(cell):
    """Half the length of a bar; NaN for none."""
    known = cell.measure == "error" or len(cell.values) > 1
    return cell.standard_error if known else np.nan


def width(runs):
    """Table 2 as curves.

    Each panel has a scale of its own: without SVHN's `extra` images errors are
    several times those of the paper.
    """
    label = LABEL["error"]
    return _study(runs, "table2", "width", "filters K", label, sharey=False)


def time_steps(runs):
    """Table 4 as curves."""
    label = LABEL["loss"]
    return _study(runs, "table4", "steps", "time steps TS", label, sharey=True)


def gradients(runs):
    """Figure 2: the gradients of the recurrent weights, at 10 and 100 steps."""
    table = TABLES["table4"]
    found = {}
    for column, sizes in zip(table.columns, shown_sizes(runs, table)):
        if sizes["steps"] in (10, 100):
            cells = [find(runs, column, s, sizes) for s in table.schemes]
            found[f"{column.title}, cells {sizes['cells']}"] = [
                cell.runs[0]
                for cell in cells
                if cell and "recurrent_gradient" in cell.runs[0].content
            ]
    if not any(found.values()):
        return None
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    seen, lines = [], {}
    for axes, (title, of_panel) in zip(panels, found.items()):
        for run in of_panel:
            gradient = run.recurrent_gradient
            counts = np.array(gradient["counts"])
            # What is beyond the bins is in the outermost ones.
            counts[0] += gradient["below"]
            counts[-1] += gradient["above"] + gradient["not_finite"]
            total = counts.sum()
            edges = np.linspace(*gradient["log10_range"], len(counts) + 1)
            sizes = 10 ** ((edges[1:] + edges[:-1]) / 2)
            seen += sizes[counts > 0.001 * total].tolist()
            (lines[run.scheme],) = axes.plot(
                sizes,
                100 * counts / total,
                STYLE[run.scheme],
                markersize=3,
                label=SCHEMES[run.scheme].title,
            )
        epochs = {run.epochs_done for run in of_panel}
        after = f", after {_epochs(epochs)}" if epochs else ", not run"
        axes.set(
            title=title + after,
            xscale="log",
            xlabel="|∂ℓ/∂ŵ|, recurrent weights",
        )
        axes.set_ylabel("share of the weights (%)")
        axes.grid(alpha=0.3)
    figure.legend(handles=list(lines.values()), loc=LEGEND, ncols=4)
    if seen:
        panels[0].set_xlim(min(seen) / 3, max(seen) * 3)
    return figure


def _epochs(numbers):
    return f"{_range(numbers)} epoch{'s' * (max(numbers) > 1)}"


def _range(numbers):
    """One number, or the first and the last."""
    first, last = min(numbers), max(numbers)
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


OF_TABLE = {
    "table1": (
        Drawing("convergence", "Figure 1: convergence of LAB", convergence),
    ),
    "table2": (
        Drawing(
            "width",
            "Error by the number of filters; bars are standard errors",
            width,
        ),
    ),
    "table3": (
        Drawing("texts", "Cross-entropy by epoch, one seed each", texts),
    ),
    "table4": (
        Drawing("time_steps", "Cross-entropy by time steps", time_steps),
        Drawing(
            "gradients",
            "Figure 2: gradients of the recurrent weights at 10 and 100 steps, "
            "of the first 100 sequences of the validation part, after the last "
            "epoch",
            gradients,
        ),
    ),
    "no_norm": (
        Drawing("no_norm", "Error by epoch, one seed each", without_norm),
    ),
    "schedule": (
        Drawing("schedule", "Cross-entropy by epoch and schedule", schedules),
    ),
}
