"""The table and the figure of the results of `finetune.py` and its trials.

python examples/finetune_report.py results/finetune
"""

import argparse
import collections
import itertools
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from matplotlib.figure import Figure

from examples.environment import origin
from examples.finetune import RESNET8, SCHEMES
from examples.pages import markdown_table, mean_and_spread, show_table
from keras_lab.files import replacing

STAGES = ("float", "binarized", "recalibrated", "fine-tuned", "exported")
# What the runs of a row have in common, besides the scheme. The table does not
# show the defaults.
SETTINGS = {
    "model": RESNET8,
    "epochs": None,
    "images": None,
    "validation": False,
    "batch": 128,
    "learning_rate": 0.002,
    "distill": 1.0,
    "temperature": 2.0,
    "progressive": 0,
    "keep": None,
    "center": None,
    "inputs": None,
    "two_step": 0,
    "augment": True,
}


def read(folder: Path) -> dict[tuple, list[dict]]:
    """Reads the results below a folder and groups them by their settings."""
    results = collections.defaultdict(list)
    for path in sorted(folder.rglob("*-*.json")):
        result = SETTINGS | json.loads(path.read_text())
        if "exported" in result.get("accuracy", {}):
            results[describe(result), result["epochs"]].append(result)

    def trials_last(item):
        (title, epochs), _ = item
        return "validation" in title, epochs, title

    return dict(sorted(results.items(), key=trials_last))


def describe(result) -> str:
    """The scheme of a result, and which of its settings are not the default."""
    words = [SCHEMES[result["scheme"]][0]]
    for name, default in SETTINGS.items():
        value = result[name]
        if name == "epochs" or value == default:
            continue
        if isinstance(value, list):
            value = " ".join(value)
        name = name.replace("_", " ")
        words.append(name if value is True else f"{name} {value}")
    return ", ".join(words)


def table(results) -> str:
    """Accuracy in percent at each stage, over the runs."""
    lines = []
    for (title, epochs), runs in results.items():
        stages = [
            mean_and_spread([100 * run["accuracy"][stage] for run in runs], 2)
            for stage in STAGES
        ]
        size = np.mean([run["file_bytes"] for run in runs]) / 1000
        lines.append([title, epochs, len(runs), *stages, f"{size:.1f} kB"])
    return markdown_table(("scheme", "epochs", "runs", *STAGES, "file"), lines)


def draw(results: dict, path: Path) -> None:
    """Writes the figure of the runs and the trials, both as means.

    Args:
        results: As `read` returns them.
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


def main(argv=None) -> None:
    """Prints the table of a folder, and writes its page's table and figure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="a folder of results")
    folder = parser.parse_args(argv).folder
    results = read(folder)
    if not results:
        parser.error(f"there are no results. Received: '{folder}'")
    if (folder / "README.md").exists():
        draw(results, folder / "accuracy.png")
    runs = itertools.chain(*results.values())
    about = origin(run["environment"] for run in runs)
    show_table(folder, f"{table(results)}\n\n{about}")


if __name__ == "__main__":
    main()
