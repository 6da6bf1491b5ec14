"""The figures of the page of results."""

from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from examples.paper.comparisons import GATES
from examples.paper.recipes import COMPARED, describe
from examples.paper.results import Run, by_seed, tuned
from examples.paper.schemes import ALL_SCHEMES, CONTROLS, SCHEMES
from examples.paper.tables import TABLES, shown
from keras_lab.files import replacing

STYLE = {
    "full_precision": "ks-",
    "binary_connect": "C0^:",
    "bwn": "C1v--",
    "lab": "C3o-.",
    "bnn": "C9^:",
    "xnor": "C8v--",
    "lab2": "C6o-.",
    "lab_input": "C2s-",
    "lab_recurrent": "C4D-",
    "lab_shuffled": "C5^:",
    "bwn_ratio": "C0o--",
    "bwn_channel": "k*:",
}
LABEL = {"error": "test error (%)", "loss": "test cross-entropy (nats)"}


def draw_all(runs: list[Run], folder: Path) -> int:
    """Draws the figures that have runs; returns how many."""
    folder.mkdir(exist_ok=True)
    count = 0
    for name, draw in DRAWINGS.items():
        if figure := draw(runs):
            count += 1
            with replacing(folder / f"{name}.png") as file:
                # Without metadata the same results give the same file.
                about = {"format": "png", "metadata": {"Software": None}}
                figure.savefig(file, dpi=120, **about)
    return count


def _panels(count, **options):
    figure = Figure(figsize=(4.8 * count, 3.9), layout="constrained")
    return figure, figure.subplots(1, count, squeeze=False, **options)[0]


def _finish(figure, handles):
    """Puts one legend above all panels: inside there may be curves anywhere."""
    for axes in figure.axes:
        axes.grid(alpha=0.3)
    columns = 4 if len(figure.axes) > 1 else 3
    figure.legend(handles=handles, loc="outside upper center", ncols=columns)
    return figure


def _describe(cell, without=None):
    """The sizes of a network and the number of runs, for a title."""
    sizes = {k: v for k, v in cell.runs[0].sizes.items() if k != without}
    count = len(cell.runs)
    seeds = "one seed" if count == 1 else f"{count} seeds"
    return ", ".join(filter(None, [describe(sizes), seeds]))


def _deviation(values):
    """The standard deviation over the seeds; NaN if there is only one."""
    return np.std(values, axis=0, ddof=1) if len(values) > 1 else np.nan


def _band(axes, x, values, style, **look):
    """The mean over the seeds, with a band of ± one deviation."""
    mean = np.mean(values, axis=0)
    (line,) = axes.plot(x, mean, style, **look)
    if len(values) > 1:
        band = mean + np.outer([-1, 1], _deviation(values))
        axes.fill_between(x, *band, color=line.get_color(), alpha=0.2)
    return line


def _label_log(axis):
    """Labels 1, 2 and 5 times each power of ten."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("")


def by_epoch(runs, name, curves, label=None):
    """A table by epoch; a curve is a scheme, a part, a style and a label."""
    panels = []
    table = TABLES[name]._replace(equal_epochs=False)
    for column, _, cells in shown(runs, table):
        found = [c for c in curves if cells.get(c[0])]
        if found:
            panels.append((column.title, cells, found))
    if not panels:
        return None
    figure, all_axes = _panels(len(panels), sharey=True)
    lines = {}
    for axes, (title, cells, found) in zip(all_axes, panels):
        for scheme, part, style, key in found:
            cell = cells[scheme]
            measure = cell.runs[0].measure
            histories = [run.history[f"{part}_{measure}"] for run in cell.runs]
            values = np.array([h[: cell.epochs] for h in histories], float)
            if measure == "error":
                values[values == 0] = np.nan  # It has no place on a log axis.
            epochs = np.arange(1, cell.epochs + 1)
            look = {"markersize": 4, "markevery": max(1, cell.epochs // 10)}
            lines[key] = _band(axes, epochs, values, style, label=key, **look)
        axes.set_title(f"{title}\n{_describe(cells[found[0][0]])}")
        axes.set(xlabel="epoch", ylabel=label or LABEL[measure])
        axes.xaxis.get_major_locator().set_params(integer=True)
        counts = [cells[scheme].epochs for scheme, *_ in found]
        if max(counts) > 5 * min(counts):  # A short run is seen, too.
            axes.set_xscale("log")
            _label_log(axes.xaxis)
        if measure == "error":
            axes.set_yscale("log")
            _label_log(axes.yaxis)
    return _finish(figure, list(lines.values()))


def by_size(runs, name, size, label, sharey):
    """A table as curves over one size, the paper's beside ours."""
    table = TABLES[name]
    columns = shown(runs, table)
    ran = [c for *_, cells in columns for c in cells.values() if c]
    if not ran:
        return None
    figure, (paper, ours) = _panels(2, sharex=True, sharey=sharey)
    at = [column.at for column in table.columns]
    for scheme in table.schemes:
        printed = [float(c.paper[scheme].split()[0]) for c in table.columns]
        paper.plot(at, printed, STYLE[scheme], label=SCHEMES[scheme].title)
        points = [
            (column.at, np.mean(values), _deviation(values))
            for column, _, cells in columns
            if (cell := cells[scheme]) and (values := cell.values)
        ]
        if points:
            ours.errorbar(*zip(*points), fmt=STYLE[scheme], capsize=3)
    few = min(cell.epochs for cell in ran)
    paper.set_title("the paper\n")
    ours.set_title(f"ours\n{_describe(ran[0], size)}, {few} epochs")
    for axes in (paper, ours):
        axes.set(xlabel=label, ylabel=LABEL[ran[0].runs[0].measure])
        axes.set_xticks(at)
    return _finish(figure, list(paper.lines))


def gradients(runs):
    """Figure 2: gradients of the recurrent weights, at 10 and 100 steps."""
    found = [
        (column, [c.runs[0] for c in cells.values() if c])
        for column, _, cells in shown(runs, TABLES["table4"])
        if column.at in (10, 100)
    ]
    if not all(runs for _, runs in found):
        return None
    figure, panels = _panels(2, sharey=True)
    lines = {}
    for axes, (column, of_column) in zip(panels, found):
        seen = []
        for run in of_column:
            gradient = run.recurrent_gradient
            counts = np.array(gradient["counts"], float)
            # The outermost bins also count what lies beyond them.
            counts[0] += gradient["below"]
            counts[-1] += gradient["above"] + gradient["not_finite"]
            counts[counts == 0] = np.nan
            share = 100 * counts / np.nansum(counts)
            edges = np.linspace(*gradient["log10_range"], len(counts) + 1)
            sizes = 10 ** ((edges[1:] + edges[:-1]) / 2)
            seen += sizes[share > 0.1].tolist()
            look = {"markersize": 3, "label": run.title}
            (lines[run.scheme],) = axes.plot(
                sizes, share, STYLE[run.scheme], **look
            )
        epochs = {run.epochs_done for run in of_column}
        after = "–".join(map(str, sorted({min(epochs), max(epochs)})))
        cells = of_column[0].sizes["cells"]
        axes.set_title(f"{column.title}\n{cells} cells, after {after} epochs")
        axes.set(xscale="log", xlabel="|∂ℓ/∂ŵ|, recurrent weights")
        axes.set_ylabel("share of the weights (%)")
        axes.set_xlim(min(seen) / 3, max(seen) * 3)
    return _finish(figure, list(lines.values()))


def alpha(runs):
    """α of the LSTM by epoch, for each kernel and gate."""
    found = {
        scheme: by_seed(runs, "war_and_peace-cells128", scheme).get(1)
        for scheme in ("lab", "bwn")
    }
    if not all(found.values()):
        return None
    figure, panels = _panels(2)
    for axes, kind in zip(panels, ("", "recurrent_")):
        for (scheme, run), style in zip(found.items(), ("-", "--")):
            for number, gate in enumerate(GATES):
                values = run.history[f"lstm/{kind}alpha_{gate[0]}"]
                label = f"{SCHEMES[scheme].title}, {gate}"
                epochs = range(1, len(values) + 1)
                axes.plot(epochs, values, f"C{number}{style}", label=label)
        axes.set_title("recurrent kernel" if kind else "input kernel")
        axes.set(xlabel="epoch", ylabel="α", ylim=(0, None))
    return _finish(figure, panels[0].lines)


def why(runs):
    """Nats by update, and the difference to BWN with the same seed."""
    bwn = tuned(runs, "bwn")
    if not bwn:
        return None
    figure, panels = _panels(2)
    lines, per_epoch = {}, bwn[1].data["train"] // bwn[1].batch
    for axes, schemes in zip(panels, (COMPARED, ("lab", *CONTROLS))):
        for scheme in schemes:
            found = tuned(runs, scheme)
            seeds = [seed for seed in found if seed in bwn]
            if not seeds:
                continue
            values, reference = (
                np.array([of[s].history["test_loss"] for s in seeds], float)
                for of in (found, bwn)
            )
            if axes is panels[1]:
                values -= reference
            updates = per_epoch * np.arange(1, values.shape[1] + 1)
            look = {"markersize": 3, "label": ALL_SCHEMES[scheme].title}
            lines[scheme] = _band(axes, updates, values, STYLE[scheme], **look)
        axes.set(xlabel="updates", ylabel=LABEL["loss"])
    panels[1].axhline(0, color="C1")
    panels[1].set_ylabel("difference to BWN (nats)")
    return _finish(figure, list(lines.values()))


_of_lab = {
    # Figure 1, for each data set.
    "curves": [
        ("lab", "train", "C7-", "train"),
        ("lab", "validation", "C0--", "validation"),
        ("lab", "test", "C3-", "test"),
    ],
    "label": "error of LAB (%)",
}
_schemes = [(s, "test", STYLE[s], SCHEMES[s].title) for s in SCHEMES]
_width = {"size": "width", "label": "filters K", "sharey": False}
_steps = {"size": "steps", "label": "time steps TS", "sharey": True}
DRAWINGS = {
    "convergence": partial(by_epoch, name="table1", **_of_lab),
    "width": partial(by_size, name="table2", **_width),
    "texts": partial(by_epoch, name="table3", curves=_schemes),
    "time_steps": partial(by_size, name="table4", **_steps),
    "gradients": gradients,
    "no_norm": partial(by_epoch, name="no_norm", curves=_schemes),
    "schedule": partial(by_epoch, name="schedule", curves=_schemes),
    "alpha": alpha,
    "why": why,
}
