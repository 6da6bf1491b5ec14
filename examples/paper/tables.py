"""The paper's four tables: its numbers, and the runs that give ours.

Two more, of our own, are tests that the paper did not make: networks without
batch norm, and a learning rate that falls within few epochs. The figures show
runs of the tables.
"""

import dataclasses
from collections.abc import Mapping

from examples.paper.schemes import SCHEMES, WEIGHT_ONLY


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a table: an experiment, with the paper's numbers.

    Args:
        title: The column's head.
        recipe: A key of `RECIPES`.
        paper: The paper's number by scheme, as printed.
        sizes: The sizes that make this column.
        epochs: How many; those of the recipe if `None`.
    """

    title: str
    recipe: str
    paper: Mapping[str, str]
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    epochs: int | None = None


@dataclasses.dataclass(frozen=True)
class Reduced:
    """What a run on two CPU cores changes: `sizes` and `epochs`."""

    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    epochs: int | None = None


@dataclasses.dataclass(frozen=True)
class Table:
    """A table.

    Args:
        title: What it shows.
        columns: Its columns.
        schemes: Its rows.
        small: What `--budget small` changes, by the column's recipe.
        skip: The columns that `--budget small` leaves out.
        across: Whether rows are to be read across: all cells then show equal
            epochs.
    """

    title: str
    columns: tuple[Column, ...]
    schemes: tuple[str, ...] = tuple(SCHEMES)
    small: Mapping[str, Reduced] = dataclasses.field(default_factory=dict)
    skip: tuple[str, ...] = ()
    across: bool = False


def numbers(line: str, schemes=tuple(SCHEMES)) -> dict[str, str]:
    """The numbers of a column, in the order of the schemes."""
    return dict(zip(schemes, line.split(), strict=True))


# The learning rate of the convolution networks first falls after 15 epochs.
FEW_EPOCHS = 16

TABLES = {
    "table1": Table(
        "Table 1: test error (%), feedforward networks",
        (
            Column(
                "MNIST",
                "mnist",
                numbers("1.190 1.280 1.310 1.180 1.470 1.530 1.380"),
            ),
            Column(
                "CIFAR-10",
                "cifar10",
                numbers("11.900 9.860 10.510 10.500 12.870 12.620 12.280"),
            ),
            Column(
                "SVHN",
                "svhn",
                numbers("2.277 2.450 2.535 2.354 3.500 3.435 3.362"),
            ),
        ),
        small={
            "cifar10": Reduced({"width": 32}, FEW_EPOCHS),
            "svhn": Reduced({"width": 32}, FEW_EPOCHS),
        },
    ),
    "table2": Table(
        "Table 2: test error (%) on SVHN by the number of filters K",
        tuple(
            Column(
                f"K = {width}",
                "svhn",
                numbers(line, WEIGHT_ONLY),
                {"width": width},
            )
            for width, line in {
                16: "2.738 3.200 3.119 3.050",
                32: "2.585 2.777 2.743 2.742",
                64: "2.277 2.450 2.535 2.354",
                128: "2.146 2.315 2.319 2.200",
            }.items()
        ),
        WEIGHT_ONLY,
        small={"svhn": Reduced(epochs=FEW_EPOCHS)},
        skip=("K = 64", "K = 128"),
        across=True,
    ),
    "table3": Table(
        "Table 3: test cross-entropy (nats), LSTM",
        (
            Column(
                "War and Peace",
                "war_and_peace",
                numbers("1.268 2.942 1.313 1.291 3.050 1.424 1.376"),
                {"steps": 100},
            ),
            Column(
                "Linux Kernel",
                "linux_kernel",
                numbers("1.329 3.532 1.307 1.305 3.624 1.426 1.409"),
                {"steps": 100},
            ),
        ),
        small={
            "war_and_peace": Reduced(epochs=5),
            "linux_kernel": Reduced(epochs=5),
        },
    ),
    "table4": Table(
        "Table 4: test cross-entropy (nats) on War and Peace by time steps TS",
        tuple(
            Column(
                f"TS = {steps}",
                "war_and_peace",
                numbers(line, WEIGHT_ONLY),
                {"steps": steps},
            )
            for steps, line in {
                10: "1.527 1.528 1.532 1.527",
                50: "1.310 2.980 1.325 1.324",
                100: "1.268 2.942 1.313 1.291",
                150: "1.249 2.872 1.311 1.285",
            }.items()
        ),
        WEIGHT_ONLY,
        small={"war_and_peace": Reduced({"cells": 128}, 5)},
        across=True,
    ),
    "no_norm": Table(
        "Not in the paper: test error (%) without batch norm, at a tenth of "
        "the learning rate",
        (Column("MNIST, no batch norm", "mnist_no_norm", {}),),
        small={"mnist_no_norm": Reduced({"width": 512})},
    ),
    "schedule": Table(
        "Not in the paper: test cross-entropy (nats), 128 cells, by schedule",
        (
            Column(
                "the paper's rates",
                "war_and_peace",
                {},
                {"steps": 100, "cells": 128},
                epochs=10,
            ),
            Column("ten epochs, ×0.65 after each", "war_and_peace_short", {}),
        ),
        WEIGHT_ONLY,
        across=True,
    ),
}


def part(table: str, schemes=None, columns=None) -> Table:
    """Some of the rows and columns of a table."""
    whole = TABLES[table]
    chosen = tuple(
        column
        for column in whole.columns
        if columns is None or column.title in columns
    )
    return dataclasses.replace(
        whole, columns=chosen, schemes=schemes or whole.schemes
    )


FIGURES = {
    "figure1": part("table1", schemes=("lab",)),
    "figure2": part("table4", columns=("TS = 10", "TS = 100")),
}


@dataclasses.dataclass(frozen=True)
class Job:
    """A run of a table: recipe, scheme, sizes and epochs."""

    recipe: str
    scheme: str
    sizes: dict[str, int]
    epochs: int | None


def jobs(table: Table, budget: str) -> list[Job]:
    """The runs that fill a table.

    Args:
        table: The table.
        budget: `"full"` for the paper's sizes and epochs, `"small"` for what
            two CPU cores can carry.
    """
    result = []
    for column in table.columns:
        reduced = Reduced()
        if budget == "small":
            if column.title in table.skip:
                continue
            reduced = table.small.get(column.recipe, reduced)
        for scheme in table.schemes:
            sizes = {**column.sizes, **reduced.sizes}
            epochs = reduced.epochs or column.epochs
            result.append(Job(column.recipe, scheme, sizes, epochs))
    return result
