"""What a run is: an experiment at some sizes, a scheme and a seed."""

import dataclasses
from pathlib import Path

from examples.paper.recipes import Recipe
from examples.paper.schemes import SCHEMES


@dataclasses.dataclass(frozen=True)
class Plan:
    """What to run.

    Args:
        name: The recipe's name.
        recipe: The recipe.
        scheme: A key of `SCHEMES`.
        seed: Of the weights and of the order of the examples.
        epochs: How many; those of the recipe if `None`.
        sizes: Sizes of the network that are not those of the recipe.
        follow: `"paper"` or `"code"`, where the two differ.
        note: What a reader of the result should know, on the data say.
    """

    name: str
    recipe: Recipe
    scheme: str
    seed: int = 1
    epochs: int | None = None
    sizes: dict[str, int] = dataclasses.field(default_factory=dict)
    follow: str = "paper"
    note: str | None = None

    @property
    def experiment(self) -> str:
        """The name with all that makes it another network, `mnist-width64`."""
        changed = [
            f"{name}{value}"
            for name, value in sorted(self.sizes.items())
            if value != self.recipe.all_sizes[name]
        ]
        code = ["code"] if self.follow == "code" else []
        return "-".join([self.name, *changed, *code])

    @property
    def all_epochs(self) -> int:
        """How many epochs there are in the end."""
        return self.recipe.epochs if self.epochs is None else self.epochs

    def path(self, folder: Path) -> Path:
        """The file of the result, given the folder of all results."""
        return folder / self.experiment / f"{self.scheme}-{self.seed}.json"

    def __str__(self):
        return f"{self.experiment} {self.scheme}-{self.seed}"

    def configuration(self) -> dict:
        """What must be the same for a run to be continued."""
        recipe = self.recipe.following(self.follow)
        scheme = SCHEMES[self.scheme]
        return {
            "experiment": self.experiment,
            "recipe": self.name,
            "scheme": self.scheme,
            "seed": self.seed,
            "sizes": {**recipe.all_sizes, **self.sizes},
            "follow": self.follow,
            "batch": recipe.batch,
            "batch_norm": recipe.batch_norm,
            "learning_rate": recipe.learning_rate(scheme, 1),
            "decay": recipe.decay.to_json(),
            "epochs_of_the_paper": recipe.epochs,
        }
