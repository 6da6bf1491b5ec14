"""The cells of the tables: which runs they show, and what these add up to."""

import collections
import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping

from examples.paper.recipes import RECIPES
from examples.paper.results import Run
from examples.paper.tables import TABLES, Column, Table

DECIMALS = {"error": 2, "loss": 3}
# Nats: the least that the standard error of one run's cross-entropy is taken
# to be. It is a guess.
ONE_RUN = 0.02


@dataclasses.dataclass(frozen=True)
class Cell:
    """The runs of one network and scheme, which differ in their seeds.

    Args:
        runs: The runs.
        epochs: How many of their epochs count.
        column: The column of the table.
        left_out: How many more runs there are, with fewer epochs.
    """

    runs: tuple[Run, ...]
    epochs: int
    column: Column
    left_out: int = 0

    @property
    def values(self) -> list[float]:
        """The runs' test measures, of those that did not diverge."""
        chosen = [run.selected(self.epochs) for run in self.runs]
        return [epoch[f"test_{self.measure}"] for epoch in chosen if epoch]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def spread(self) -> float:
        """The standard deviation over seeds; zero where there is one only."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    @property
    def standard_error(self) -> float:
        """That of the mean.

        An error rate has that of the test set's size and that of the seeds,
        where there are several; a cross-entropy that of the seeds.
        """
        seeds = len(self.values)
        variance_of_seeds = self.spread**2 / seeds
        if self.measure == "error":
            share = self.mean / 100
            tested = self.runs[0].data["test"]
            return math.sqrt(
                1e4 * share * (1 - share) / tested + variance_of_seeds
            )
        return math.sqrt(max(variance_of_seeds, ONE_RUN**2 / seeds))

    @property
    def updates(self) -> int:
        """How often an epoch updates the weights."""
        run = self.runs[0]
        return run.data["train"] // run.recipe.batch

    @property
    def measure(self) -> str:
        return self.runs[0].measure

    @property
    def decimals(self) -> int:
        """How many decimals of a value to show."""
        return DECIMALS[self.measure]

    @property
    def unfinished(self) -> bool:
        """Whether a run stops short of its plan where the cell does."""
        return any(run.unfinished_at(self.epochs) for run in self.runs)

    @property
    def reduced(self) -> bool:
        """Whether network or data are not those of the paper."""
        return any(run.departures(self.column) for run in self.runs)


def find(
    runs: Iterable[Run],
    column: Column,
    scheme: str,
    sizes: Mapping[str, int],
    epochs: int | None = None,
) -> Cell | None:
    """The runs of a column and a scheme at some sizes, the paper's way.

    Of a run the paper's epochs count, or as many of them as any run has. Those
    that have fewer are left out.

    Args:
        runs: All runs.
        column: A column of a table.
        scheme: A key of `SCHEMES`.
        sizes: The sizes that the column shows.
        epochs: How many epochs are to count instead.
    """
    found = [
        run
        for run in runs
        if run.scheme == scheme and run.fits(column.recipe, sizes)
    ]
    if not found:
        return None
    if epochs is None:
        most = max(run.epochs_done for run in found)
        epochs = min(most, RECIPES[column.recipe].epochs)
    chosen = tuple(run for run in found if run.epochs_done >= epochs)
    return Cell(chosen, epochs, column, len(found) - len(chosen))


def cell_of(
    runs: list[Run],
    table: str,
    column: str,
    scheme: str,
    epochs: int | None = None,
) -> Cell | None:
    """A cell by the names of its table, column and scheme, as `find`."""
    columns = TABLES[table].columns
    index = [each.title for each in columns].index(column)
    sizes = shown_sizes(runs, TABLES[table])[index]
    return find(runs, columns[index], scheme, sizes, epochs)


def shown_cells(
    runs: list[Run], table: Table
) -> dict[tuple[str, str], Cell | None]:
    """What a table shows, by the column's title and the scheme.

    Where rows are to be read across, all have the epochs of the shortest run;
    one that is under way does not count as that.
    """
    places = [
        (column, scheme, sizes)
        for column, sizes in zip(table.columns, shown_sizes(runs, table))
        for scheme in table.schemes
    ]
    cells = [find(runs, *place) for place in places]
    if table.across:
        ran = [cell for cell in cells if cell]
        finished = [cell for cell in ran if not cell.unfinished]
        epochs = min((c.epochs for c in finished or ran), default=None)
        cells = [
            cell and find(runs, *place, min(cell.epochs, epochs))
            for cell, place in zip(cells, places)
        ]
    return {
        (column.title, scheme): cell
        for (column, scheme, _), cell in zip(places, cells)
    }


def shown_sizes(runs: list[Run], table: Table) -> list[dict[str, int]]:
    """The sizes of the networks that each column shows.

    The columns of one recipe differ in the size that the table is about. In all
    others they are alike: those that most of the columns ran at; of these, as
    in the paper, or else whichever fills more of the table, or is larger.
    """
    filled = collections.defaultdict(set)
    finished = collections.defaultdict(set)
    for column in table.columns:
        for run in runs:
            if run.scheme in table.schemes and run.fits(
                column.recipe, column.sizes
            ):
                others = run.sizes.items() - column.sizes.items()
                key = (column.recipe, frozenset(others))
                filled[key].add((column.title, run.scheme))
                if run.epochs_done >= run.epochs_planned:
                    finished[key].add((column.title, run.scheme))

    def rank(key):
        recipe, others = key
        titles = {title for title, _ in filled[key]}
        as_in_paper = others <= RECIPES[recipe].all_sizes.items()
        counts = (len(finished[key]), len(filled[key]))
        return len(titles), as_in_paper, *counts, sorted(others)

    sizes = []
    for column in table.columns:
        ran = [key for key in filled if key[0] == column.recipe]
        best = max(ran, key=rank, default=None)
        others = best[1] if best else RECIPES[column.recipe].all_sizes
        sizes.append({**dict(others), **column.sizes})
    return sizes
