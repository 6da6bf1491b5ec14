"""The paper's tables: its numbers, and the runs that give ours.

Two more tables are our own: networks without batch norm, and a learning rate
that falls within a few epochs.
"""

import dataclasses
from collections.abc import Mapping

from examples.paper.schemes import SCHEMES, WEIGHT_ONLY

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
            one column for each that ran; `{}` is the paper's.
        epochs: The number of epochs; that of the recipe if `None`.
        small_epochs: The same for `--budget small`, which trains the last
            network of `ours`; 0 if it skips this column.
    """

    title: str
    recipe: str
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    ours: tuple[Mapping[str, int], ...] = ({},)
    epochs: int | None = None
    small_epochs: int | None = None

    @property
    def paper(self) -> dict[str, str]:
        """The paper's number for each scheme, as printed."""
        found = PAPER.get(self.title)
        return dict(zip(SCHEMES, found.split(", "))) if found else {}


@dataclasses.dataclass(frozen=True)
class Table:
    """A table. Its rows are schemes.

    If columns are compared with each other, they have `equal_epochs`: all cells
    show as many epochs as the shortest finished run.
    """

    columns: tuple[Column, ...]
    schemes: tuple[str, ...] = tuple(SCHEMES)
    equal_epochs: bool = False


# In the convolution networks the learning rate first falls after 15 epochs.
FEW_EPOCHS = 16
K32 = {"ours": ({}, {"width": 32}), "small_epochs": FEW_EPOCHS}
CELLS_128 = {"ours": ({}, {"cells": 128}), "small_epochs": 5}
K_EPOCHS = {16: FEW_EPOCHS, 32: FEW_EPOCHS, 64: 0, 128: 0}
STEPS_100 = {"steps": 100}

TABLES = {
    # Test error (%), feedforward networks
    "table1": Table(
        (
            Column("MNIST", "mnist"),
            Column("CIFAR-10", "cifar10", **K32),
            Column("SVHN", "svhn", **K32),
        )
    ),
    # Test error (%) on SVHN by the number of filters K
    "table2": Table(
        tuple(
            Column(f"K = {width}", "svhn", {"width": width}, small_epochs=few)
            for width, few in K_EPOCHS.items()
        ),
        WEIGHT_ONLY,
        equal_epochs=True,
    ),
    # Test cross-entropy (nats), LSTM
    "table3": Table(
        (
            Column("War and Peace", "war_and_peace", STEPS_100, **CELLS_128),
            Column("Linux Kernel", "linux_kernel", STEPS_100, **CELLS_128),
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
                small_epochs=5,
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
                epochs=10,
            ),
            Column("×0.65 after each epoch", "war_and_peace_short"),
        ),
        WEIGHT_ONLY,
        equal_epochs=True,
    ),
}
PAPER_TABLES = ("table1", "table2", "table3", "table4")


def jobs(table: Table, budget: str) -> list[tuple]:
    """The runs of a table: recipe, scheme, sizes and epochs of each.

    `budget` is `"full"` for the paper's sizes and epochs, or `"small"` for what
    two CPU cores can do.
    """
    result = []
    for column in table.columns:
        sizes, epochs = dict(column.sizes), column.epochs
        if budget == "small":
            sizes |= column.ours[-1]
            if column.small_epochs is not None:
                epochs = column.small_epochs
        if epochs != 0:
            result += [(column.recipe, s, sizes, epochs) for s in table.schemes]
    return result
