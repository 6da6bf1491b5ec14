"""The figure of `finetune.py`: accuracy by epoch, and by the size of files."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from keras_lab.files import replacing

__all__ = ["draw"]


def draw(results: dict, path: Path) -> None:
    """Writes the figure of the runs and the trials, both as means.

    Args:
        results: As `finetune.read` returns them.
        path: Where to write the figure.
    """
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    draw_epochs(results, left)
    draw_sizes(results, right)
    with replacing(path) as partial:
        figure.savefig(partial, format="png", dpi=120)


def draw_epochs(results, axes):
    """The accuracy by epoch of the runs that are not trials."""
    shown = [item for item in results.items() if not item[1][0]["validation"]]
    for number, ((title, epochs), runs) in enumerate(shown):
        color, x = f"C{number}", range(1, epochs + 1)
        test, train = (
            100 * np.mean([run["history"][name] for run in runs], axis=0)
            for name in ("val_accuracy", "accuracy")
        )
        axes.plot(x, test, color=color, label=f"{title}, {epochs} epochs")
        axes.plot(x, train, ":", color=color)
        axes.axhline(100 * runs[0]["accuracy"]["float"], color="black")
    axes.set(xlabel="epoch", ylabel="accuracy, %", ylim=(70, 88))
    axes.legend(title="test; dotted: training. Black: float")


def draw_sizes(results, axes):
    """The accuracy of trials by the size of their files.

    A line joins those that differ only in what stays in float.
    """
    trials = {
        title: runs
        for (title, _), runs in results.items()
        if runs[0]["validation"]
    }
    keep = ", keep "
    series = {title.partition(keep)[0] for title in trials if keep in title}
    curve = []
    for title, runs in trials.items():
        accuracy = np.mean([run["accuracy"]["fine-tuned"] for run in runs])
        point = runs[0]["file_bytes"] / 1000, 100 * accuracy
        if title.partition(keep)[0] in series:
            kept = runs[0]["keep"] or ["nothing else"]
            curve.append((*point, ", ".join(kept)))
        else:
            axes.plot(*point, ".", color="gray")
    for runs in list(trials.values())[:1]:
        size = runs[0]["float_file_bytes"] / 1000
        curve.append((size, 100 * runs[0]["accuracy"]["float"], "all"))
    curve.sort()
    axes.plot([x for x, *_ in curve], [y for _, y, _ in curve], "o-")
    for x, y, name in curve:
        axes.text(x, y, f"  {name} ", rotation=-40, va="top", fontsize="small")
    ticks = (20, 50, 100, 200, 300)
    axes.set(xscale="log", xlabel="file, kB", xlim=(12, 500), ylim=(79, 94))
    axes.set_xticks(ticks, list(map(str, ticks)))
    axes.set_xticks([], minor=True)
    axes.set_title(
        "trials. Blue: what stays in float besides the first\nconvolution and "
        "the last layer. Gray: other settings",
        fontsize="medium",
    )
