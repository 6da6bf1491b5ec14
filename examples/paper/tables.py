"""The paper's tables with our numbers beside, and two tables of our own.

Those are networks without batch norm, and a learning rate that falls within a
few epochs.
"""

import itertools
import statistics
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from examples.pages import mean_and_spread
from examples.paper.results import Run, by_seed
from examples.paper.schemes import SCHEMES, WEIGHT_ONLY

DECIMALS = {"error": 2, "loss": 3}
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
    """An experiment of the paper, and ours beside it.

    Args:
        title: The experiment, and the key of the paper's numbers.
        ours: Our experiments, by what follows the title at the head of their
            columns. It is `"ours"` if the network has the paper's size.
            Experiments that did not run are left out, unless all are.
        at: The number of filters or of time steps, if columns differ in that.
    """

    title: str
    ours: Mapping[str, str]
    at: int | None = None

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


SMALL = "ours (128 cells)"
SMALL_TEXT = "war_and_peace-cells128"
TABLES = {
    "table1": Table(
        [
            Column("MNIST", {"ours": "mnist"}),
            Column(
                "CIFAR-10", {"ours": "cifar10", "ours (width 32)": "cifar10_20"}
            ),
            Column("SVHN", {"ours": "svhn", "ours (width 32)": "svhn-width32"}),
        ]
    ),
    "table2": Table(
        [
            Column("K = 16", {"ours": "svhn-width16"}, at=16),
            Column("K = 32", {"ours": "svhn-width32"}, at=32),
            Column("K = 64", {"ours": "svhn"}, at=64),
            Column("K = 128", {"ours": "svhn-width128"}, at=128),
        ],
        WEIGHT_ONLY,
        equal_epochs=True,
    ),
    "table3": Table(
        [
            Column(
                "War and Peace", {"ours": "war_and_peace", SMALL: SMALL_TEXT}
            ),
            Column(
                "Linux Kernel",
                {"ours": "linux_kernel", SMALL: "linux_kernel-cells128"},
            ),
        ],
    ),
    "table4": Table(
        [
            Column("TS = 10", {SMALL: f"{SMALL_TEXT}-steps10"}, at=10),
            Column("TS = 50", {SMALL: f"{SMALL_TEXT}-steps50"}, at=50),
            Column("TS = 100", {SMALL: SMALL_TEXT}, at=100),
            Column("TS = 150", {SMALL: f"{SMALL_TEXT}-steps150"}, at=150),
        ],
        WEIGHT_ONLY,
        equal_epochs=True,
    ),
    # Not in the paper:
    "no_norm": Table(
        [
            Column(
                "no batch norm", {"ours (width 512)": "mnist_no_norm-width512"}
            )
        ]
    ),
    "schedule": Table(
        [
            Column("the paper's rates", {"ours": SMALL_TEXT}),
            Column("×0.65 after each epoch", {"ours": "war_and_peace_short"}),
        ],
        WEIGHT_ONLY,
        equal_epochs=True,
    ),
}


class Cell(NamedTuple):
    """Runs that differ only in their seeds, and how many epochs count."""

    runs: list[Run]
    epochs: int

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


def _cell(runs, experiment, scheme, epochs):
    """The cell of an experiment and a scheme, or `None` if nothing ran.

    By default the epochs of the longest run count, but no more than the
    experiment has. Runs with fewer epochs are left out.
    """
    found = list(by_seed(runs, experiment, scheme).values())
    if not found:
        return None
    if epochs is None:
        longest = max(run.epochs_done for run in found)
        epochs = min(longest, found[0].recipe.epochs)
    chosen = [run for run in found if run.epochs_done >= epochs]
    return Cell(chosen, epochs) if chosen else None


def shown(runs: list[Run], table: Table) -> list[tuple]:
    """Our columns: the `Column`, a key of its `ours`, the cells by scheme."""

    def fill(column, head, epochs=None):
        cells = {
            scheme: _cell(runs, column.ours[head], scheme, epochs)
            for scheme in table.schemes
        }
        return column, head, cells

    result = []
    for column in table.columns:
        found = [fill(column, head) for head in column.ours]
        result += [f for f in found if any(f[-1].values())] or found[:1]
    if table.equal_epochs:
        cells = [cell for *_, row in result for cell in row.values() if cell]
        finished = [cell for cell in cells if not cell.unfinished]
        epochs = min((c.epochs for c in finished or cells), default=None)
        result = [fill(column, head, epochs) for column, head, _ in result]
    return result


def rows(runs: list[Run], table: Table) -> Iterator[dict]:
    """The rows of a table, with the paper's numbers and ours."""
    columns = shown(runs, table)
    for scheme in table.schemes:
        row = {"scheme": SCHEMES[scheme].title}
        for column, head, cells in columns:
            if column.paper:
                row[f"{column.title}, paper"] = column.paper[scheme]
            gap_to = cells["full_precision"] if table.equal_epochs else None
            row[f"{column.title}, {head}"] = format_cell(cells[scheme], gap_to)
        yield row


def format_cell(cell: Cell | None, baseline: Cell | None) -> str:
    """Mean ± standard deviation, the gap to a baseline, runs and epochs."""
    if cell is None:
        return "not run"
    decimals = DECIMALS[cell.runs[0].measure]
    runs, values = len(cell.runs), cell.values
    text = f"**{mean_and_spread(values, decimals)}**" if values else "diverged"
    if values and baseline and baseline is not cell and baseline.values:
        gap = statistics.fmean(values) - statistics.fmean(baseline.values)
        text += f" ({gap:.{decimals}f})".replace("-", "−")
    if 0 < len(values) < runs:
        text += f", {runs - len(values)} diverged"
    epochs = f"{cell.epochs} of {cell.runs[0].recipe.epochs} epochs"
    return f"{text}; {runs} run{'s' * (runs > 1)}, {epochs}"


def coverage(runs: list[Run]) -> Iterator[dict]:
    """How many cells of each of the paper's tables ran.

    A run has the full protocol if its network, data and epochs are the paper's.
    """
    rows = list(_coverage_by_table(runs))
    names = ("cells", "full protocol", "reduced", "not run")
    total = {name: sum(row[name] for row in rows) for name in names}
    seeds = max(row["most seeds per cell"] for row in rows)
    yield {"": "All tables", **total, "most seeds per cell": seeds}
    yield from rows


def _coverage_by_table(runs):
    for name in ("table1", "table2", "table3", "table4"):
        columns, schemes, _ = TABLES[name]
        full = reduced = most = 0
        for column, scheme in itertools.product(columns, schemes):
            ran, whole = set(), set()
            for head, experiment in column.ours.items():
                for seed, run in by_seed(runs, experiment, scheme).items():
                    ran.add(seed)
                    if head == "ours" and run.full_protocol:
                        whole.add(seed)
            full += bool(whole)
            reduced += bool(ran) and not whole
            most = max(most, len(whole or ran))
        cells = len(columns) * len(schemes)
        yield {
            "": name.replace("table", "Table "),
            "cells": cells,
            "full protocol": full,
            "reduced": reduced,
            "not run": cells - full - reduced,
            "most seeds per cell": most,
        }
