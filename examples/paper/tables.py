"""The numbers of the page: the paper's, and ours from the results of the runs.

First the paper's tables, and two of our own: networks without batch norm, and a
learning rate that falls within a few epochs. Then comparisons of two schemes,
seed by seed: runs with the same seed start from the same weights and see the
examples in the same order, so their differences are paired.
"""

import itertools
import statistics
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from scipy import stats

from examples.environment import mean_and_spread
from examples.paper.recipes import COMPARED, RECIPES, WHY
from examples.paper.results import Run, tuned
from examples.paper.schemes import ALL_SCHEMES, CONTROLS, SCHEMES, WEIGHT_ONLY

GATES = ("input gate", "forget gate", "candidate", "output gate")
# The paper's columns, in the order of `SCHEMES`. In brackets is the gap to full
# precision.
PAPER = {
    "MNIST": "1.190, 1.280, 1.310, 1.180, 1.470, 1.530, 1.380",
    "CIFAR-10": "11.900, 9.860, 10.510, 10.500, 12.870, 12.620, 12.280",
    "SVHN": "2.277, 2.450, 2.535, 2.354, 3.500, 3.435, 3.362",
    "K = 16": "2.738, 3.200 (0.462), 3.119 (0.461), 3.050 (0.312)",
    "K = 32": "2.585, 2.777 (0.192), 2.743 (0.158), 2.742 (0.157)",
    "K = 64": "2.277, 2.450 (0.173), 2.535 (0.258), 2.354 (0.077)",
    "K = 128": "2.146, 2.315 (0.169), 2.319 (0.173), 2.200 (0.054)",
    "War and Peace": "1.268, 2.942, 1.313, 1.291, 3.050, 1.424, 1.376",
    "Linux Kernel": "1.329, 3.532, 1.307, 1.305, 3.624, 1.426, 1.409",
    "TS = 10": "1.527, 1.528 (0.001), 1.532 (0.005), 1.527 (0.000)",
    "TS = 50": "1.310, 2.980 (1.670), 1.325 (0.015), 1.324 (0.014)",
    "TS = 100": "1.268, 2.942 (1.674), 1.313 (0.045), 1.291 (0.023)",
    "TS = 150": "1.249, 2.872 (1.623), 1.311 (0.062), 1.285 (0.036)",
}


class Column(NamedTuple):
    """A column of a table: an experiment.

    Args:
        title: The column's title, and the key of the paper's numbers.
        recipe: A key of `RECIPES`.
        sizes: The sizes that make this column.
        ours: The sizes of the networks that we show beside the paper's number,
            one column for each that ran; `{}` is the paper's.
        short: The recipe with fewer epochs, another column if it ran.
    """

    title: str
    recipe: str
    sizes: Mapping[str, int] = {}
    ours: tuple[Mapping[str, int], ...] = ({},)
    short: str | None = None

    @property
    def paper(self) -> dict[str, str]:
        """The paper's number for each scheme, as printed."""
        found = PAPER.get(self.title)
        return dict(zip(SCHEMES, found.split(", "))) if found else {}


class Table(NamedTuple):
    """A table. Its rows are schemes.

    If columns are compared with each other, they have `equal_epochs`: all cells
    show as many epochs as the shortest finished run, and in brackets the gap to
    full precision.
    """

    columns: list[Column]
    schemes: tuple[str, ...] = tuple(SCHEMES)
    equal_epochs: bool = False


STEPS_100, SMALL = {"steps": 100}, {"cells": 128}
TABLES = {
    "table1": Table(
        [
            Column("MNIST", "mnist"),
            Column("CIFAR-10", "cifar10", short="cifar10_20"),
            Column("SVHN", "svhn", ours=({}, {"width": 32})),
        ]
    ),
    "table2": Table(
        [Column(f"K = {k}", "svhn", {"width": k}) for k in (16, 32, 64, 128)],
        WEIGHT_ONLY,
        equal_epochs=True,
    ),
    "table3": Table(
        [
            Column("War and Peace", "war_and_peace", STEPS_100, ({}, SMALL)),
            Column("Linux Kernel", "linux_kernel", STEPS_100, ({}, SMALL)),
        ],
    ),
    "table4": Table(
        [
            Column(f"TS = {ts}", "war_and_peace", {"steps": ts}, (SMALL,))
            for ts in (10, 50, 100, 150)
        ],
        WEIGHT_ONLY,
        equal_epochs=True,
    ),
    # Not in the paper:
    "no_norm": Table(
        [Column("no batch norm", "mnist_no_norm", ours=({"width": 512},))]
    ),
    "schedule": Table(
        [
            Column("the paper's rates", "war_and_peace", STEPS_100 | SMALL),
            Column("×0.65 after each epoch", "war_and_peace_short"),
        ],
        WEIGHT_ONLY,
        equal_epochs=True,
    ),
}


class Cell(NamedTuple):
    """Runs that differ only in their seeds, and how many epochs count."""

    runs: list[Run]
    epochs: int
    left_out: int

    @property
    def values(self) -> list[float]:
        """The test measures of the runs that did not diverge."""
        scores = [run.score(self.epochs) for run in self.runs]
        return [score for score in scores if score is not None]

    @property
    def unfinished(self) -> bool:
        """Whether a run is still on its way at this epoch."""
        return any(
            run.epochs_done == self.epochs < run.epochs_planned
            for run in self.runs
        )


def as_in_paper(runs: list[Run], recipe: str, scheme: str) -> list[Run]:
    """The runs that follow the paper, with the learning rate of the recipe."""
    return [
        run
        for run in runs
        if (run.recipe.name, run.scheme) == (recipe, scheme)
        and run.follow == "paper"
        and run.learning_rate == run.recipe.first_rate(ALL_SCHEMES[scheme])
    ]


def _cell(runs, recipe, sizes, scheme, epochs):
    """The cell of a network, or `None` if nothing ran."""
    sizes = {**RECIPES[recipe].sizes, **sizes}
    found = [r for r in as_in_paper(runs, recipe, scheme) if r.sizes == sizes]
    # By default those of the longest run count, but no more than the paper's.
    longest = max((run.epochs_done for run in found), default=0)
    epochs = epochs or min(longest, RECIPES[recipe].epochs)
    chosen = [run for run in found if run.epochs_done >= epochs]
    return Cell(chosen, epochs, len(found) - len(chosen)) if chosen else None


def shown(runs: list[Run], table: Table) -> list[tuple]:
    """Our columns: the `Column`, a recipe, sizes, and the cells by scheme.

    A network of `Column.ours` that has no run is left out, unless all are.
    """

    def fill(column, recipe, sizes, epochs=None):
        wanted = {**column.sizes, **sizes}
        cells = {
            scheme: _cell(runs, recipe, wanted, scheme, epochs)
            for scheme in table.schemes
        }
        return column, recipe, sizes, cells

    result = []
    for column in table.columns:
        found = [fill(column, column.recipe, sizes) for sizes in column.ours]
        if column.short:
            found.append(fill(column, column.short, {}))
        result += [f for f in found if any(f[-1].values())] or found[:1]
    if table.equal_epochs:
        cells = [cell for *_, row in result for cell in row.values() if cell]
        finished = [cell for cell in cells if not cell.unfinished]
        epochs = min((c.epochs for c in finished or cells), default=None)
        result = [fill(*network, epochs) for *network, _ in result]
    return result


def spread(values: list[float], decimals: int) -> str:
    """The mean in bold, ± the standard deviation if there are several."""
    mean, *deviation = mean_and_spread(values, decimals).split(" ")
    return " ".join([f"**{mean}**", *deviation])


# Comparisons: rows of tables, each a dictionary.


def interval(differences: list[float]) -> str:
    """The mean of paired differences; if several, its 95% interval (t test)."""
    text = f"{statistics.fmean(differences):+.3f}"
    if len(differences) > 1:
        low, high = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
        text += f" [{low:+.3f}, {high:+.3f}]"
    return text.replace("-", "−")


def by_seed(runs: list[Run], experiment: str, scheme: str) -> dict[int, Run]:
    """The runs of an experiment and a scheme."""
    wanted = (experiment, scheme)
    return {r.seed: r for r in runs if (r.experiment, r.scheme) == wanted}


def pairs(runs: list[Run], experiment: str, schemes) -> list[tuple[Run, Run]]:
    """The runs of two schemes with equal seeds."""
    first, second = (by_seed(runs, experiment, s) for s in schemes)
    return [(first[seed], second[seed]) for seed in first if seed in second]


def leads(runs: list[Run]) -> Iterator[dict]:
    """LAB minus BWN and LAB2 minus XNOR on the texts, at equal epochs."""
    names = dict.fromkeys(
        run.experiment
        for run in runs
        if run.measure == "loss" and run.recipe.name != WHY
    )
    schemes = (("lab", "bwn"), ("lab2", "xnor"))
    for name, pair in itertools.product(names, schemes):
        found = [
            (a, b, min(a.epochs_done, b.epochs_done))
            for a, b in pairs(runs, name, pair)
        ]
        for epochs in sorted({done for *_, done in found}):
            gaps = [
                a.score(epochs) - b.score(epochs)
                for a, b, done in found
                if done >= epochs
            ]
            yield {
                "experiment": name,
                "difference": " − ".join(SCHEMES[s].title for s in pair),
                "epochs": epochs,
                "seeds": len(gaps),
                "nats [95%]": interval(gaps),
            }


def epochs_to_reach(run: Run, loss: float) -> int | None:
    """The first epoch with a test loss as low as this, or `None`."""
    losses = enumerate(run.history["test_loss"], start=1)
    return next((n for n, x in losses if x is not None and x <= loss), None)


def why(runs: list[Run]) -> Iterator[dict]:
    """The schemes and the controls, compared with BWN or XNOR."""
    for scheme in (*COMPARED, *CONTROLS):
        reference = "xnor" if ALL_SCHEMES[scheme].input_quantizer else "bwn"
        found, others = tuned(runs, scheme), tuned(runs, reference)
        if not found:
            continue
        paired = [(found[s], others[s].score()) for s in found if s in others]
        reached = [epochs_to_reach(run, loss) for run, loss in paired]
        epochs = None
        if never := reached.count(None):
            epochs = f"not reached by {never} of {len(reached)}"
        elif reached:
            epochs = f"{statistics.fmean(reached):.1f}"
        gaps = scheme != reference and [r.score() - loss for r, loss in paired]
        yield {
            "scheme": ALL_SCHEMES[scheme].title,
            "learning rate": found[1].learning_rate,
            "seeds": len(found),
            "test nats": spread([run.score() for run in found.values()], 3),
            "compared with": ALL_SCHEMES[reference].title if gaps else None,
            "difference [95%]": interval(gaps) if gaps else None,
            "epochs to its final loss": epochs,
        }


def ratios(runs: list[Run]) -> Iterator[dict]:
    """LAB's α divided by mean|w|, by kernel and gate."""
    for scheme, kernel in itertools.product(
        ("lab", "lab2"), ("input", "recurrent")
    ):
        found = tuned(runs, scheme).values()
        if not found:
            continue
        row = {"scheme": SCHEMES[scheme].title, "weights": f"{kernel} kernel"}
        prefix = "recurrent_" if kernel == "recurrent" else ""
        for gate in GATES:
            name = f"lstm/{prefix}ratio_{gate[0]}"
            means = [statistics.fmean(run.history[name]) for run in found]
            row[gate] = f"{statistics.fmean(means):.3f}"
        yield row


def byte_rows(runs: list[Run]) -> Iterator[dict]:
    """How large the weights of frequent and of rare bytes are."""
    lab, bwn = (
        [run.rows for run in tuned(runs, s).values()] for s in ("lab", "bwn")
    )
    if not (lab and bwn):
        return

    def mean(found, name):
        return np.mean([rows[name] for rows in found], axis=0)

    count, curvature = mean(lab, "count"), mean(lab, "curvature")
    lab, bwn = mean(lab, "weight"), mean(bwn, "weight")
    last = 0
    for part in np.array_split(np.argsort(-count), 4):
        first, last = last + 1, last + len(part)
        share = 100 * count[part].sum() / count.sum()
        relative = curvature[part].mean() / curvature.mean()
        yield {
            "bytes by frequency": f"{first} to {last}",
            "share of the text (%)": f"{share:.2f}",
            "mean\\|w\\|, LAB": f"{lab[part].mean():.3f}",
            "mean\\|w\\|, BWN": f"{bwn[part].mean():.3f}",
            "d, LAB (mean = 1)": f"{relative:.3f}",
        }


def paired_errors(runs: list[Run]) -> Iterator[dict]:
    """McNemar's exact test for the pairs of networks whose hits were kept."""
    compared = [("lab", "bwn"), ("lab", "binary_connect")]
    compared += [("lab", "full_precision"), ("lab2", "xnor"), ("lab2", "bnn")]
    kept = [run for run in runs if "hits" in run.content]
    names = dict.fromkeys(run.experiment for run in kept)
    for name, schemes in itertools.product(names, compared):
        for both in pairs(kept, name, schemes):
            if both[0].epochs_done != both[1].epochs_done:
                continue
            first, second = (run.right() for run in both)
            only_first = int((~first & second).sum())
            only_second = int((first & ~second).sum())
            # The test needs at least one difference.
            count = max(only_first + only_second, 1)
            p = stats.binomtest(only_first, count).pvalue
            yield {
                "experiment": name,
                "seed": both[0].seed,
                "networks": " and ".join(run.title for run in both),
                "errors (%)": " and ".join(f"{r.score():.2f}" for r in both),
                "only the first wrong": only_first,
                "only the second wrong": only_second,
                "p": f"{p:.2f}",
            }


def gradients(runs: list[Run]) -> Iterator[dict]:
    """The size of the recurrent weights' gradients, as in Figure 2."""
    for column, *_, cells in shown(runs, TABLES["table4"]):
        steps = column.sizes["steps"]
        for cell in filter(None, cells.values()):
            if steps in (10, 100):
                run = cell.runs[0]
                yield {
                    "scheme": run.title,
                    "time steps": steps,
                    "epochs": run.epochs_done,
                    "root mean square": f"{run.recurrent_gradient['rms']:.2g}",
                }


def code(runs: list[Run]) -> Iterator[dict]:
    """Runs that follow the authors' code, beside ours at equal epochs."""
    for run in runs:
        if run.follow == "code":
            name = run.experiment.removesuffix("-code")
            ours = by_seed(runs, name, run.scheme).get(run.seed)
            epochs = min(r.epochs_done for r in (ours or run, run))
            scores = [r and r.score(epochs) for r in (ours, run)]
            numbers = [s and f"{s:.3f}" for s in scores]
            yield {
                "experiment": name,
                "scheme": run.title,
                "seed": run.seed,
                "epochs": epochs,
                "as the paper says": numbers[0],
                "as the authors' code": numbers[1],
            }
