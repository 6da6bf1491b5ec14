"""Table and figure of `finetune.py`, from the files that it wrote."""

import json
from pathlib import Path

import numpy as np

from examples.paper.schemes import SCHEMES
from keras_lab import drawing

STAGES = ("float", "binarized", "recalibrated", "fine-tuned", "exported")


def read(folder: Path) -> dict[str, list[dict]]:
    """The results of a folder by their scheme, finished or not."""
    results = {}
    for scheme in ("lab", "bwn", "binary_connect"):
        paths = sorted(folder.glob(f"{scheme}-*.json"))
        if paths:
            results[scheme] = [json.loads(path.read_text()) for path in paths]
    return results


def table(folder: Path) -> str:
    """Accuracy in percent at each stage: mean, and ± the spread over seeds."""
    lines = [
        f"| scheme | runs | epochs | {' | '.join(STAGES)} |",
        "|---" * (len(STAGES) + 3) + "|",
    ]
    for scheme, results in read(folder).items():
        epochs = sorted({result["epochs_done"] for result in results})
        cells = [
            SCHEMES[scheme].title,
            str(len(results)),
            ", ".join(map(str, epochs)),
            *(_mean(results, stage) for stage in STAGES),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(results, stage):
    values = [result["accuracy"].get(stage) for result in results]
    if None in values:
        return "not run"
    values = 100 * np.array(values)
    text = f"{values.mean():.2f}"
    if len(values) > 1 and np.ptp(values):
        text += f" ± {values.std(ddof=1):.2f}"
    return text


def draw(folder: Path, path: Path) -> None:
    """Accuracy by stage and by epoch."""
    results = read(folder)
    figure = drawing.new_figure(9, 3.6)
    stages, epochs = figure.subplots(1, 2, width_ratios=(3, 2))
    for number, (scheme, runs) in enumerate(results.items()):
        accuracy = [
            [100 * run["accuracy"].get(stage, np.nan) for stage in STAGES]
            for run in runs
        ]
        drawing.line(
            stages,
            STAGES,
            np.mean(accuracy, axis=0),
            number,
            len(results),
            SCHEMES[scheme].title,
        )
        shortest = min(run["epochs_done"] for run in runs)
        by_epoch = [run["history"]["test_accuracy"][:shortest] for run in runs]
        drawing.line(
            epochs,
            range(1, shortest + 1),
            100 * np.mean(by_epoch, axis=0),
            number,
            len(results),
            SCHEMES[scheme].title,
        )
    for axes in (stages, epochs):
        axes.set_ylabel("test accuracy, %")
        axes.grid(color="0.9")
        axes.set_axisbelow(True)
    stages.set_ylim(0, 100)
    stages.legend(loc="lower right")
    epochs.set_xlabel("epoch, batch norm recalibrated")
    epochs.xaxis.get_major_locator().set_params(integer=True)
    drawing.finish(figure, path)
