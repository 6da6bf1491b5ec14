"""Table and figure of `finetune.py`, from the files that it wrote.

    python examples/finetune_report.py results/finetune

Writes `README.md` and `figure.png` into the folder, of the results in it and in
the folders in it.
"""

import argparse
import collections
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from examples.paper.schemes import SCHEMES
from keras_lab import drawing

STAGES = (
    "float",
    "binarized",
    "recalibrated",
    "with moving averages",
    "fine-tuned",
    "exported",
)
# What a row of the table has in common.
SETTINGS = (
    "scheme",
    "images",
    "epochs",
    "distill",
    "progressive",
    "progressive_by",
)
HEADS = ("scheme", "images", "epochs", "distilled", "progressive", "runs")
PAGE = """# Fine-tuning a pretrained network

Test accuracy in percent: of the float network, right after binarization, with
batch norm measured anew, after fine-tuning with batch norm as it was averaged
and with batch norm measured anew, and of the exported file in the stock
interpreter. Mean ± standard deviation over the runs.

{table}

![{alt}](figure.png)

Written by `python examples/finetune_report.py {folder}` from the files that
`python examples/finetune.py` wrote after each epoch; they hold its options, the
versions, and each epoch. *images*: of the training set, an epoch. *distilled*:
the weight of the float network's opinion. *progressive*: the epochs in which
the binary weights take over, by their share or layer by layer.
"""


def read(folder: Path) -> dict[tuple, list[dict]]:
    """The results of a folder and of those in it, by their settings."""
    results = collections.defaultdict(list)
    for path in sorted(folder.rglob("*-*.json")):
        result = json.loads(path.read_text())
        results[tuple(result[name] for name in SETTINGS)].append(result)
    order = list(SCHEMES)[::-1]  # LAB first.
    return dict(
        sorted(
            results.items(),
            key=lambda item: (str(item[0][1:]), order.index(item[0][0])),
        )
    )


def table(results: dict[tuple, list[dict]]) -> str:
    """Accuracy in percent at each stage: mean, and ± the spread over seeds."""
    heads = [*HEADS, *STAGES]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for settings, runs in results.items():
        cells = [*_describe(settings, runs), str(len(runs))]
        cells += [_mean(runs, stage) for stage in STAGES]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _describe(settings, runs):
    scheme, images, epochs, distill, progressive, by = settings
    done = min(run["epochs_done"] for run in runs)
    return (
        SCHEMES[scheme].title,
        "all" if images is None else f"{images:,}",
        str(epochs) if done == epochs else f"{done} of {epochs}",
        f"{distill:g}" if distill else "no",
        f"{progressive}, by {by}" if progressive else "no",
    )


def _mean(runs, stage):
    values = [run["accuracy"].get(stage) for run in runs]
    if None in values:
        return "not run"
    values = 100 * np.array(values)
    text = f"{values.mean():.2f}"
    if len(values) > 1 and np.ptp(values):
        text += f" ± {values.std(ddof=1):.2f}"
    return text


def draw(results: dict[tuple, list[dict]], path: Path) -> None:
    """Accuracy by stage and by epoch."""
    figure = drawing.new_figure(11, 4)
    stages, epochs = figure.subplots(1, 2)
    for number, (settings, runs) in enumerate(results.items()):
        title, images, _, distilled, progressive = _describe(settings, runs)
        label = f"{title}, {images} images"
        label += ", distilled" if distilled != "no" else ""
        label += f", progressive {progressive}" if progressive != "no" else ""
        accuracy = [
            [100 * run["accuracy"].get(stage, np.nan) for stage in STAGES]
            for run in runs
        ]
        shortest = min(run["epochs_done"] for run in runs)
        by_epoch = [
            run["history"].get("test_accuracy", [])[:shortest] for run in runs
        ]
        for axes, xs, ys in (
            (stages, STAGES, np.mean(accuracy, axis=0)),
            (epochs, range(1, shortest + 1), 100 * np.mean(by_epoch, axis=0)),
        ):
            drawing.line(axes, xs, ys, number, len(results), label)
    for axes in (stages, epochs):
        axes.set_ylabel("test accuracy, %")
        axes.set_axisbelow(True)
        axes.grid(color="0.9")
    stages.set_ylim(0, 100)
    stages.set_xticks(STAGES, [stage.replace(" ", "\n") for stage in STAGES])
    stages.tick_params(axis="x", labelsize=8)
    epochs.set_xlabel("epoch of fine-tuning")
    epochs.xaxis.get_major_locator().set_params(integer=True)
    figure.legend(
        *stages.get_legend_handles_labels(), loc="outside lower center", ncols=2
    )
    drawing.finish(figure, path)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(argv).folder
    results = read(folder)
    if not results:
        parser.error(f"there is no result. Received: {folder}")
    draw(results, folder / "figure.png")
    page = PAGE.format(
        table=table(results),
        folder=folder.as_posix(),
        alt="Test accuracy by stage, and by epoch of fine-tuning",
    )
    (folder / "README.md").write_text(page)
    print(table(results))


if __name__ == "__main__":
    main()
