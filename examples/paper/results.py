"""The results of runs, as `run.py` wrote them."""

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path

from examples.paper.plans import Plan
from examples.paper.recipes import PARTS, RECIPES, Recipe
from examples.paper.schemes import SCHEMES
from examples.paper.selection import select
from examples.paper.tables import Column

MACHINE = ("machine", "python", "keras", "tensorflow", "numpy")


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
            and sizes.items() <= self.sizes.items()
        )

    def departures(self, column: Column) -> list[str]:
        """How network and data are not those of a column of the paper."""
        paper = {**self.recipe.all_sizes, **column.sizes}
        sizes = [
            f"{name} {self.sizes[name]} instead of {size}"
            for name, size in paper.items()
            if self.sizes[name] != size
        ]
        examples = [
            f"{self.data[part]:,} {part} examples instead of {count:,}"
            for part, count in (self.recipe.examples or {}).items()
            if self.data[part] != count
        ]
        return sizes + examples + self.content.get("departures", [])

    def unfinished_at(self, epochs: int) -> bool:
        """Whether so many epochs are all it has, but not all it will have."""
        return epochs == self.epochs_done < self.epochs_planned

    def selected(self, epochs: int | None = None) -> dict | None:
        """The epoch chosen by validation, see `select`.

        Args:
            epochs: Of how many epochs to choose; of all, if `None`.
        """
        history = {name: v[:epochs] for name, v in self.history.items()}
        return select(history, self.measure)


def load(folder: Path) -> list[Run]:
    """All results of a folder."""
    runs = []
    for path in folder.glob("*/*.json"):
        try:
            content = json.loads(path.read_text())
            _check(content, f"{path.parent.name}/{path.name}")
        except ValueError as error:
            raise ResultError(
                f"{path} is not a result of run.py: {error}"
            ) from error
        except (KeyError, TypeError) as error:
            raise ResultError(
                f"{path} is not a result of run.py: "
                f"{type(error).__name__}: {error}"
            ) from error
        runs.append(Run(path, content))
    schemes = list(SCHEMES)
    return sorted(
        runs,
        key=lambda run: (run.experiment, schemes.index(run.scheme), run.seed),
    )


def _check(content, name):
    """Raises an error if content is not that of a result with this name."""
    for key, known in (("recipe", RECIPES), ("scheme", SCHEMES)):
        if content[key] not in known:
            raise ValueError(f"the {key} {content[key]!r} is not known")
    recipe = RECIPES[content["recipe"]]
    sizes = content["sizes"]
    if set(sizes) != set(recipe.all_sizes):
        raise ValueError(f"its sizes are {sizes}")
    plan = Plan(
        content["recipe"],
        recipe,
        content["scheme"],
        content["seed"],
        sizes=sizes,
        follow=content["follow"],
    )
    # The same recipe, batch and learning rates as today.
    for key, value in plan.configuration().items():
        if content[key] != value:
            raise ValueError(f"its {key} is {content[key]!r}, not {value!r}")
    if name != f"{plan.experiment}/{plan.scheme}-{plan.seed}.json":
        raise ValueError(f"it is that of {plan}")
    measure = recipe.task.measure
    done = content["epochs_done"]
    for key in (*(f"{part}_{measure}" for part in PARTS), "seconds"):
        values = content["history"][key]
        numbers = [value for value in values if value is not None]
        if len(values) != done or not all(map(_is_number, numbers)):
            raise ValueError(f"its {key} is not {done} numbers: {values}")
    for key in ("epochs_done", "epochs_planned"):
        if not (isinstance(content[key], int) and content[key] > 0):
            raise ValueError(f"its {key} is {content[key]!r}")
    for part in PARTS:
        if not isinstance(content["data"][part], int):
            raise ValueError(f"its data are {content['data']}")
    if not content["sessions"]:
        raise ValueError("it has no session")
    for session in content["sessions"]:
        for key in ("commit", "cores", *MACHINE):
            session[key]


def _is_number(value):
    return isinstance(value, int | float) and math.isfinite(value)
