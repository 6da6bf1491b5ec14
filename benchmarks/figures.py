"""The figure of growth, from the JSON rows alone."""

import statistics
from pathlib import Path

from benchmarks.peer_tables import TASKS

__all__ = ["draw_growth"]

COLOURS = {"keras": "#777777", "lab": "#c0392b", "export": "#2471a3"}


def points(rows, task, value):
    """Numbers of weights, and a value at each of them."""
    found = sorted(
        (row["weights"], value(row))
        for row in rows
        if row["task"] == task and "cannot" not in row
    )
    return [list(axis) for axis in zip(*found)]


def draw_growth(rows: list, path: Path) -> None:
    """Time and memory against the number of weights, as a PNG file."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for axis, label, value in (
        (axes[0], "seconds", lambda row: statistics.median(row["seconds"])),
        (axes[1], "peak memory, GB", lambda row: row["peak_bytes"] / 1e9),
    ):
        for task, title in TASKS.items():
            line = points(rows, task, value)
            if line:
                axis.loglog(*line, "o-", color=COLOURS[task], label=title)
        axis.set_xlabel("weights")
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    # Less than a decade: numbers, not powers.
    axes[1].yaxis.set_major_formatter("{x:g}")
    axes[1].yaxis.set_minor_formatter("{x:g}")
    axes[0].legend(frameon=False)
    partial = path.with_name(path.name + ".part")
    figure.savefig(partial, format="png", dpi=120)
    plt.close(figure)
    partial.replace(path)
