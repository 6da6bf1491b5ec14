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
from keras_lab.analysis import figures as drawing

STAGES = (
    "float",
    "binarized",
    "recalibrated",
    "with moving averages",
    "fine-tuned",
    "exported",
)
# What a row of the table has in common; the first ones are always shown.
SETTINGS = (
    "scheme",
    "images",
    "epochs",
    "distill",
    "progressive",
    "progressive_by",
    "model",
    "model_sha256",
    "data",
    "batch",
    "learning_rate",
    "temperature",
    "augment",
)
HEADS = ("scheme", "images", "epochs", "distilled", "progressive")
SHOWN_IF_DIFFERENT = SETTINGS[6:]
# Files from before these were written down are of the default network.
DEFAULT_MODEL = "cifar10_resnet8_mlperf_tiny.h5"
DEFAULT = {"model_sha256": "5f938a8eea60", "data": "cifar10"}
# Of Okabe and Ito: told apart also by the color-blind.
COLORS = {"lab": "#0072B2", "bwn": "#D55E00", "binary_connect": "#009E73"}
# Lines may lie on one another.
DASHES = {"lab": "-", "bwn": "--", "binary_connect": ":"}
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
the binary weights take over, by their share or layer by layer. Other options
have a column where they differ between rows.
"""


class ResultError(Exception):
    """A file is not a result of `finetune.py`."""


def read(folder: Path) -> dict[tuple, list[dict]]:
    """The results of a folder and of those in it, by their settings."""
    results = collections.defaultdict(list)
    for path in sorted(folder.rglob("*-*.json")):
        result = _read_file(path)
        results[tuple(result[name] for name in SETTINGS)].append(result)
    order = list(SCHEMES)[::-1]  # LAB first.
    return dict(
        sorted(
            results.items(),
            key=lambda item: (str(item[0][1:]), order.index(item[0][0])),
        )
    )


def _read_file(path):
    try:
        result = json.loads(path.read_text())
        if not isinstance(result, dict):
            raise TypeError("it is not a JSON object")
        if result["model"] == DEFAULT_MODEL:
            result = {**DEFAULT, **result}
        result = {**dict.fromkeys(DEFAULT), **result}
        # What was without effect.
        if not result["distill"]:
            result["temperature"] = None
        if not result["progressive"]:
            result["progressive_by"] = None
        needed = (*SETTINGS, "epochs_done", "accuracy", "history")
        missing = [name for name in needed if name not in result]
        if missing:
            raise KeyError(missing[0])
        if result["scheme"] not in COLORS:
            raise ValueError(f"unknown scheme {result['scheme']!r}")
        return result
    except KeyError as error:
        problem = f"it has no {error}"
    except (OSError, TypeError, ValueError) as error:
        problem = str(error)
    raise ResultError(f"{path} is not a result of finetune.py: {problem}")


def table(results: dict[tuple, list[dict]]) -> str:
    """Accuracy in percent at each stage: mean, and ± the spread over seeds."""
    extra = _different(results)
    heads = [*HEADS, *extra, "runs", *STAGES]
    heads = [head.replace("_", " ") for head in heads]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for runs in results.values():
        cells = [*_describe(runs), *_extra(runs, extra), str(len(runs))]
        cells += [_mean(runs, stage) for stage in STAGES]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _different(results):
    """The settings beyond those always shown, in which the rows differ."""
    values = {
        name: {runs[0][name] for runs in results.values()}
        for name in SHOWN_IF_DIFFERENT
    }
    values["temperature"] -= {None}  # It was without effect.
    return [name for name in values if len(values[name]) > 1]


def _extra(runs, names):
    return [_word(runs[0][name]) for name in names]


def _word(value):
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _describe(runs):
    run = runs[0]
    images, epochs, progressive = (
        run["images"],
        run["epochs"],
        run["progressive"],
    )
    done = min(run["epochs_done"] for run in runs)
    return (
        SCHEMES[run["scheme"]].title,
        "all" if images is None else f"{images:,}",
        str(epochs) if done == epochs else f"{done} of {epochs}",
        f"{run['distill']:g}" if run["distill"] else "no",
        f"{progressive}, by {run['progressive_by']}" if progressive else "no",
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
    """Accuracy by stage and by epoch: a color a scheme, a marker a variant."""
    extra = _different(results)
    labels = [_label(runs, extra) for runs in results.values()]
    variants = list(dict.fromkeys(variant for _, variant in labels))
    # Two columns where they are not wider than the figure.
    longest = max(len(title + variant) for title, variant in labels)
    columns = 2 if longest < 60 else 1
    rows = -(-len(results) // columns)
    figure = drawing.new_figure(11, 4.2 + 0.25 * rows)
    stages, epochs = figure.subplots(1, 2, width_ratios=(3, 2))
    for number, (runs, (title, variant)) in enumerate(
        zip(results.values(), labels)
    ):
        style = {
            "color": COLORS[runs[0]["scheme"]],
            "marker": drawing.MARKERS[
                variants.index(variant) % len(drawing.MARKERS)
            ],
            "markersize": 6,
            "markerfacecolor": "white",
            "label": f"{title}, {variant}",
        }
        # Side by side within a stage.
        shift = 0.8 * ((number + 0.5) / len(results) - 0.5)
        _draw_stages(stages, runs, shift, style)
        _draw_epochs(epochs, runs, style)
    for axes in (stages, epochs):
        axes.set_ylabel("test accuracy, %")
        axes.set_axisbelow(True)
        axes.grid(axis="y", color="0.9")
    stages.set_ylim(0, 100)
    stages.set_xlim(-0.5, len(STAGES) - 0.5)
    stages.set_xticks(
        range(len(STAGES)), [stage.replace(" ", "\n") for stage in STAGES]
    )
    stages.tick_params(axis="x", length=0)
    for edge in range(1, len(STAGES)):
        stages.axvline(edge - 0.5, color="0.8", linewidth=0.8)
    epochs.set_xlabel("epoch of fine-tuning")
    drawing.whole_numbers(epochs.xaxis)
    figure.legend(
        *epochs.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=columns,
    )
    drawing.finish(figure, path)


def _label(runs, extra):
    """The scheme, and all else that a line in the figure stands for."""
    title, images, epochs, distilled, progressive = _describe(runs)
    variant = [f"{images} images, {epochs} epochs"]
    if distilled != "no":
        variant.append("distilled" + f" {distilled}" * (distilled != "1"))
    if progressive != "no":
        variant.append(f"progressive {progressive}")
    values = zip(extra, _extra(runs, extra))
    variant += [f"{name.replace('_', ' ')} {word}" for name, word in values]
    return title, ", ".join(variant)


def _draw_stages(axes, runs, shift, style):
    accuracy = 100 * np.array(
        [[run["accuracy"].get(s, np.nan) for s in STAGES] for run in runs]
    )
    axes.errorbar(
        np.arange(len(STAGES)) + shift,
        accuracy.mean(axis=0),
        _spread(accuracy),
        linestyle="none",
        **style,
    )


def _draw_epochs(axes, runs, style):
    histories = [run["history"].get("test_accuracy", []) for run in runs]
    count = min(map(len, histories))
    accuracy = 100 * np.array([history[:count] for history in histories])
    mean, spread = accuracy.mean(axis=0), _spread(accuracy)
    numbers = np.arange(1, count + 1)
    every = max(1, count // drawing.MARKERS_A_LINE)
    axes.plot(
        numbers,
        mean,
        DASHES[runs[0]["scheme"]],
        markevery=every,
        linewidth=1.5,
        **style,
    )
    axes.fill_between(
        numbers,
        mean - spread,
        mean + spread,
        color=style["color"],
        alpha=0.15,
        linewidth=0,
    )


def _spread(values):
    """The standard deviation over the runs; of one run, none."""
    if len(values) < 2:
        return np.zeros(values.shape[1])
    return values.std(axis=0, ddof=1)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(argv).folder
    try:
        results = read(folder)
    except ResultError as error:
        sys.exit(f"error: {error}")
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
