"""The results of runs, as `run.py` wrote them."""

import collections
import dataclasses
import json
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path

from examples.paper.recipes import RECIPES, Recipe
from examples.paper.selection import select
from examples.paper.tables import Table

DECIMALS = {"error": 2, "loss": 3}


class ResultError(Exception):
    """A file among the results is not one."""


@dataclasses.dataclass(frozen=True)
class Run:
    """A result, finished or not."""

    path: Path
    content: Mapping

    def __getattr__(self, name):
        try:
            return self.content[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def recipe(self) -> Recipe:
        return RECIPES[self.content["recipe"]]

    @property
    def measure(self) -> str:
        return self.recipe.task.measure

    def fits(self, recipe: str, sizes: Mapping[str, int]) -> bool:
        """Whether it is a run of a recipe, the paper's way, at some sizes."""
        return (
            self.content["recipe"] == recipe
            and self.follow == "paper"
            and self.epochs_done > 0
            and sizes.items() <= self.sizes.items()
        )

    def value(self, epochs: int | None = None) -> float | None:
        """The test measure at the epoch chosen by validation.

        Args:
            epochs: Of how many epochs to choose; of all, if `None`.
        """
        history = {name: v[:epochs] for name, v in self.history.items()}
        chosen = select(history, self.measure)
        return chosen and chosen[f"test_{self.measure}"]


@dataclasses.dataclass(frozen=True)
class Cell:
    """The runs of one network and scheme, which differ in their seeds.

    Args:
        runs: The runs.
        epochs: How many of their epochs count.
    """

    runs: tuple[Run, ...]
    epochs: int

    @property
    def values(self) -> list[float]:
        """The runs' test measures, of those that did not diverge."""
        values = [run.value(self.epochs) for run in self.runs]
        return [value for value in values if value is not None]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def spread(self) -> float:
        """The standard deviation over seeds; zero where there is one only."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    @property
    def decimals(self) -> int:
        """How many decimals of a value to show."""
        return DECIMALS[self.runs[0].measure]

    def at(self, epochs: int) -> "Cell":
        """The same runs, as they were after fewer epochs."""
        return Cell(self.runs, epochs)


REQUIRED = (
    *("experiment", "recipe", "scheme", "seed", "sizes", "follow"),
    *("epochs_planned", "epochs_done", "history", "data", "sessions"),
)


def load(folder: Path) -> list[Run]:
    """All results of a folder."""
    runs = []
    for path in sorted(folder.glob("*/*.json")):
        try:
            content = json.loads(path.read_text())
        except ValueError as error:
            raise ResultError(f"{path} is not JSON: {error}") from error
        missing = [name for name in REQUIRED if name not in content]
        if missing or content["recipe"] not in RECIPES:
            what = ", ".join(missing) or f"recipe {content['recipe']!r}"
            raise ResultError(
                f"{path} is not a result of run.py: missing or unknown {what}"
            )
        runs.append(Run(path, content))
    return runs


def find(
    runs: Iterable[Run], recipe: str, scheme: str, sizes: Mapping[str, int]
) -> Cell | None:
    """The runs of a recipe, a scheme and some sizes, the paper's way.

    Of several seeds only those count that have as many epochs as any.
    """
    found = [
        run for run in runs if run.scheme == scheme and run.fits(recipe, sizes)
    ]
    if not found:
        return None
    most = max(run.epochs_done for run in found)
    chosen = tuple(run for run in found if run.epochs_done == most)
    return Cell(chosen, most)


def shown_sizes(runs: list[Run], table: Table) -> list[dict[str, int]]:
    """The sizes of the networks that each column shows.

    The columns of one recipe differ in the size that the table is about. In all
    others they are alike: as in the paper, or scaled down for all, whichever
    fills more of the table; the larger of equals.
    """
    filled = collections.defaultdict(set)
    for column in table.columns:
        for run in runs:
            if run.fits(column.recipe, column.sizes):
                others = run.sizes.items() - column.sizes.items()
                key = (column.recipe, tuple(sorted(others)))
                filled[key].add((column.title, run.scheme))
    sizes = []
    for column in table.columns:
        ran = [key for key in filled if key[0] == column.recipe]
        best = max(ran, key=lambda key: (len(filled[key]), key), default=None)
        others = best[1] if best else RECIPES[column.recipe].all_sizes
        sizes.append({**dict(others), **column.sizes})
    return sizes
