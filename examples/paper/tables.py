"""The paper's tables: its numbers, and the results that fill our cells.

Two more tables are our own: networks without batch norm, and a learning rate
that falls within a few epochs.
"""

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping
from pathlib import Path

from examples.paper.recipes import PARTS, RECIPES, Plan, Recipe, select
from examples.paper.schemes import ALL_SCHEMES, SCHEMES, WEIGHT_ONLY

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


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a table: an experiment.

    Args:
        title: The column's title, and the key of the paper's numbers.
        recipe: A key of `RECIPES`.
        sizes: The sizes that make this column.
        ours: The sizes of the networks that we show beside the paper's number,
            one column for each that ran; `{}` is the paper's. `"recipe"` among
            them is another key of `RECIPES`.
    """

    title: str
    recipe: str
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    ours: tuple[Mapping[str, int], ...] = ({},)

    @property
    def paper(self) -> dict[str, str]:
        """The paper's number for each scheme, as printed."""
        found = PAPER.get(self.title)
        return dict(zip(SCHEMES, found.split(", "))) if found else {}


@dataclasses.dataclass(frozen=True)
class Table:
    """A table. Its rows are schemes.

    If columns are compared with each other, they have `equal_epochs`: all cells
    show as many epochs as the shortest finished run, and in brackets the gap to
    full precision.
    """

    columns: tuple[Column, ...]
    schemes: tuple[str, ...] = tuple(SCHEMES)
    equal_epochs: bool = False


CELLS_128 = ({}, {"cells": 128})
TABLES = {
    # Test error (%), feedforward networks
    "table1": Table(
        (
            Column("MNIST", "mnist"),
            Column("CIFAR-10", "cifar10", ours=({}, {"recipe": "cifar10_20"})),
            Column("SVHN", "svhn", ours=({}, {"width": 32})),
        )
    ),
    # Test error (%) on SVHN by the number of filters K
    "table2": Table(
        tuple(
            Column(f"K = {width}", "svhn", {"width": width})
            for width in (16, 32, 64, 128)
        ),
        WEIGHT_ONLY,
        equal_epochs=True,
    ),
    # Test cross-entropy (nats), LSTM
    "table3": Table(
        (
            Column("War and Peace", "war_and_peace", {"steps": 100}, CELLS_128),
            Column("Linux Kernel", "linux_kernel", {"steps": 100}, CELLS_128),
        ),
    ),
    # Test cross-entropy (nats) on War and Peace by time steps TS
    "table4": Table(
        tuple(
            Column(
                f"TS = {steps}",
                "war_and_peace",
                {"steps": steps},
                ours=({"cells": 128},),
            )
            for steps in (10, 50, 100, 150)
        ),
        WEIGHT_ONLY,
        equal_epochs=True,
    ),
    # Not in the paper: test error (%) on MNIST without batch norm
    "no_norm": Table(
        (Column("no batch norm", "mnist_no_norm", ours=({"width": 512},)),)
    ),
    # Not in the paper: test cross-entropy (nats) by schedule, 128 cells
    "schedule": Table(
        (
            Column(
                "the paper's rates",
                "war_and_peace",
                {"steps": 100, "cells": 128},
            ),
            Column("×0.65 after each epoch", "war_and_peace_short"),
        ),
        WEIGHT_ONLY,
        equal_epochs=True,
    ),
}
PAPER_TABLES = ("table1", "table2", "table3", "table4")


class ResultError(Exception):
    """A file among the results is not a result."""


EXAMPLES = {
    "train": "training images",
    "validation": "validation images",
    "test": "test images",
}


def format_size(name: str, size: int) -> str:
    """A size in words: "128 cells"."""
    words = {"cells": "{} cells", "steps": "{} time steps"}
    return words.get(name, name + " {}").format(size)


@dataclasses.dataclass(frozen=True)
class Run:
    """A result of `train.py`, finished or not; `content` is the file's."""

    content: Mapping

    def __getattr__(self, name):
        return self.content[name]

    @property
    def recipe(self) -> Recipe:
        return RECIPES[self.content["recipe"]]

    @property
    def measure(self) -> str:
        return self.recipe.task.measure

    @property
    def is_at_the_papers_rate(self) -> bool:
        scheme = ALL_SCHEMES[self.scheme]
        return self.learning_rate == self.recipe.learning_rate(scheme, 1)

    def fits(self, column: Column, scheme: str, **sizes: int) -> bool:
        """Whether it belongs to a cell of a table."""
        name = sizes.pop("recipe", column.recipe)
        return (
            (self.content["recipe"], self.scheme) == (name, scheme)
            and self.follow == "paper"
            and self.is_at_the_papers_rate
            and {**column.sizes, **sizes}.items() <= self.sizes.items()
        )

    def differences(self, column: Column, epochs: int) -> list[str]:
        """How it differs from the paper's run, if `epochs` of it count."""
        recipe = RECIPES[column.recipe]
        paper = {**recipe.sizes, **column.sizes}
        found = [
            f"{format_size(name, self.sizes[name])} instead of {size}"
            for name, size in paper.items()
            if self.sizes[name] != size
        ]
        found += [
            f"{self.data[part]:,} {EXAMPLES[part]} instead of {count:,}"
            for part, count in (recipe.examples or {}).items()
            if self.data[part] != count
        ]
        found += self.content.get("departures", [])
        if self.recipe.decay != recipe.decay:
            found.append("the schedule compressed in proportion")
        if epochs < recipe.epochs:
            found.append(f"{epochs} of the paper's {recipe.epochs} epochs")
        return found

    def selected(self, epochs: int | None = None) -> dict | None:
        """The best epoch on the validation part, among the first `epochs`."""
        history = {name: v[:epochs] for name, v in self.history.items()}
        return select(history, self.measure)


@dataclasses.dataclass(frozen=True)
class Cell:
    """Runs that differ only in their seeds, and how many epochs count."""

    runs: tuple[Run, ...]
    epochs: int
    left_out: int

    @property
    def values(self) -> list[float]:
        """The test measures of the runs that did not diverge."""
        chosen = [(run, run.selected(self.epochs)) for run in self.runs]
        return [best[f"test_{run.measure}"] for run, best in chosen if best]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float:
        """The standard deviation over the seeds; NaN for a single one."""
        single = len(self.values) < 2
        return math.nan if single else statistics.stdev(self.values)

    @property
    def unfinished(self) -> bool:
        """Whether a run is still on its way at this epoch."""
        return any(
            run.epochs_done == self.epochs < run.epochs_planned
            for run in self.runs
        )


def find(
    runs: list[Run],
    column: Column,
    scheme: str,
    sizes: Mapping[str, int],
    epochs: int | None = None,
) -> Cell | None:
    """The cell of a table for one of `column.ours`; `None` if nothing ran.

    `epochs` says how many epochs count. It defaults to the paper's, or to as
    many as the longest run has. Runs that have fewer are left out.
    """
    recipe = RECIPES[sizes.get("recipe", column.recipe)]
    sizes = {**recipe.sizes, **column.sizes, **sizes}
    found = [run for run in runs if run.fits(column, scheme, **sizes)]
    if epochs is None:
        longest = max((run.epochs_done for run in found), default=0)
        epochs = min(longest, recipe.epochs)
    chosen = tuple(run for run in found if run.epochs_done >= epochs)
    return Cell(chosen, epochs, len(found) - len(chosen)) if chosen else None


def shown(
    runs: list[Run], table: Table
) -> list[tuple[Column, Mapping[str, int], dict[str, Cell | None]]]:
    """Our columns of a table: the column, our sizes, and the cells by scheme.

    A network of `Column.ours` that has no run is left out, unless all are.
    """

    def cells(column, sizes, epochs=None):
        return {s: find(runs, column, s, sizes, epochs) for s in table.schemes}

    result = []
    for column in table.columns:
        networks = [
            (column, sizes, cells(column, sizes)) for sizes in column.ours
        ]
        ran = [network for network in networks if any(network[2].values())]
        result += ran or networks[:1]
    if table.equal_epochs:
        found = [cell for *_, row in result for cell in row.values() if cell]
        finished = [cell for cell in found if not cell.unfinished]
        epochs = min((c.epochs for c in finished or found), default=None)
        result = [(c, sizes, cells(c, sizes, epochs)) for c, sizes, _ in result]
    return result


def load(folder: Path) -> list[Run]:
    """All results of a folder. Raises ResultError if a file is not one."""
    runs = []
    for path in folder.glob("*/*.json"):
        try:
            content = json.loads(path.read_text())
            _check(content, path)
        except (ValueError, KeyError, TypeError) as error:
            raise ResultError(
                f"{path} is not a result of train.py: "
                f"{type(error).__name__}: {error}"
            ) from error
        runs.append(Run(content))
    schemes = list(ALL_SCHEMES)
    return sorted(
        runs,
        key=lambda run: (run.experiment, schemes.index(run.scheme), run.seed),
    )


def _check(content, path):
    """Raises an error if this is not the content of a result at this path."""
    name, scheme, seed = (content[n] for n in ("recipe", "scheme", "seed"))
    recipe = RECIPES[name].following(content["follow"])
    rate = content["learning_rate"]
    plan = Plan(name, recipe, scheme, seed, content["sizes"], rate=rate)
    if plan.path(path.parents[1]) != path:
        raise ValueError(f"it is the result of {plan}")
    # The recipe, batch and learning rate must be those of today.
    for key, value in plan.configuration().items():
        if content[key] != value:
            raise ValueError(f"its {key} is {content[key]!r}, not {value!r}")
    for part in PARTS:
        values = content["history"][f"{part}_{recipe.task.measure}"]
        if len(values) != content["epochs_done"]:
            raise ValueError(f"it has not {content['epochs_done']} epochs")
