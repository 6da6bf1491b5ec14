"""The results of `train.py`, and the cells of the tables that they fill."""

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping
from pathlib import Path

from examples.paper.recipes import PARTS, RECIPES, Plan, Recipe, select
from examples.paper.schemes import ALL_SCHEMES
from examples.paper.tables import Column, Table


class ResultError(Exception):
    """A file among the results is not a result."""


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
        sizes = {**column.sizes, **sizes}
        return (
            (self.content["recipe"], self.scheme) == (column.recipe, scheme)
            and self.follow == "paper"
            and self.is_at_the_papers_rate
            and sizes.items() <= self.sizes.items()
        )

    def differences(self, column: Column, epochs: int) -> list[str]:
        """How it differs from the paper's run, if `epochs` of it count."""
        recipe = self.recipe
        paper = {**recipe.sizes, **column.sizes}
        found = [
            f"{name} {self.sizes[name]} instead of {size}"
            for name, size in paper.items()
            if self.sizes[name] != size
        ]
        found += [
            f"{self.data[part]:,} {part} examples instead of {count:,}"
            for part, count in (recipe.examples or {}).items()
            if self.data[part] != count
        ]
        found += self.content.get("departures", [])
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
    recipe = RECIPES[column.recipe]
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
