"""The runs of the page of results, in the order in which they matter.

`train.py queue` works through them. Several processes may do so side by side.
"""

import dataclasses
import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from examples.paper import networks
from examples.paper.recipes import RECIPES, Recipe
from examples.paper.schemes import ALL_SCHEMES, CONTROLS, SCHEMES, WEIGHT_ONLY

SIGNS = ("bnn", "xnor", "lab2")

# Why LAB wins, when it wins: not in the paper. Each scheme has the learning
# rate that is best on the validation part, with the first seed.
WHY = "war_and_peace_30"
RATES = (0.001, 0.002, 0.004)
SEEDS = (1, 2, 3, 4, 5)
COMPARED = ("bwn", "lab", "xnor", "lab2")


@dataclasses.dataclass(frozen=True)
class Plan:
    """A run: a recipe with a scheme, a seed and sizes.

    Args:
        scheme: A key of `ALL_SCHEMES`.
        seed: The seed of the weights and of the order of the examples.
        sizes: Sizes that differ from those of the recipe.
        epochs: The number of epochs; that of the recipe if `None`.
        rate: The first learning rate; that of the recipe if `None`.
    """

    name: str
    recipe: Recipe
    scheme: str
    seed: int = 1
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    epochs: int | None = None
    rate: float | None = None

    def __post_init__(self):
        scheme = ALL_SCHEMES[self.scheme]
        is_lstm = self.recipe.network is networks.character_lstm
        if (scheme.weights or scheme.ratio_of) and not is_lstm:
            raise ValueError(
                f"{self.scheme} is a scheme of the LSTM only. "
                f"Received: {self.name}"
            )
        for size in self.sizes:
            if size not in self.recipe.sizes:
                known = ", ".join(self.recipe.sizes)
                raise ValueError(
                    f"{self.name} has only the sizes {known}. Received: {size}"
                )

    @property
    def experiment(self) -> str:
        """The name, and what is not the paper's: `mnist-width64-rate0.1`."""
        changed = [
            f"{name}{value}"
            for name, value in sorted(self.sizes.items())
            if value != self.recipe.sizes[name]
        ]
        rate = self.learning_rate(1)
        if rate != self.recipe.learning_rate(ALL_SCHEMES[self.scheme], 1):
            changed.append(f"rate{rate:g}")
        code = ["code"] if self.recipe.follow == "code" else []
        return "-".join([self.name, *changed, *code])

    def learning_rate(self, epoch: int) -> float:
        """The learning rate of an epoch; the first epoch is 1."""
        if self.rate is None:
            scheme = ALL_SCHEMES[self.scheme]
            return self.recipe.learning_rate(scheme, epoch)
        return self.rate * self.recipe.decay(epoch)

    @property
    def all_epochs(self) -> int:
        """The number of epochs at the end of the run."""
        return self.recipe.epochs if self.epochs is None else self.epochs

    def path(self, folder: Path) -> Path:
        """The file of the result, given the folder of all results."""
        return folder / self.experiment / f"{self.scheme}-{self.seed}.json"

    def __str__(self):
        return f"{self.experiment} {self.scheme}-{self.seed}"

    def configuration(self) -> dict:
        """What must be the same if a run is continued."""
        recipe = self.recipe
        decay = dataclasses.asdict(recipe.decay)
        return {
            "experiment": self.experiment,
            "recipe": self.name,
            "scheme": self.scheme,
            "seed": self.seed,
            "sizes": {**recipe.sizes, **self.sizes},
            "follow": recipe.follow,
            "batch": recipe.batch,
            "batch_norm": recipe.batch_norm,
            "learning_rate": self.learning_rate(1),
            "decay": {**decay, "after": list(recipe.decay.after)},
            "epochs_of_the_paper": recipe.epochs,
        }


def _plans(name, schemes, seeds=(1,), epochs=None, follow="paper", **sizes):
    recipe = RECIPES[name].following(follow)
    return [
        Plan(name, recipe, scheme, seed, sizes, epochs)
        for seed in seeds
        for scheme in schemes
    ]


def _by_steps(seed, epochs_by_steps):
    return [
        plan
        for steps, epochs in epochs_by_steps.items()
        for plan in _plans(
            *("war_and_peace", WEIGHT_ONLY, (seed,), epochs),
            cells=128,
            steps=steps,
        )
    ]


def _why(folder):
    """Tunes the rate of each scheme, then runs it with more seeds."""
    for schemes in (COMPARED, tuple(CONTROLS)):
        for seed in SEEDS:
            for scheme in schemes:
                rates = RATES if seed == 1 else [chosen_rate(folder, scheme)]
                for rate in filter(None, rates):
                    plan = Plan(WHY, RECIPES[WHY], scheme, seed, rate=rate)
                    needs_run = ALL_SCHEMES[scheme].ratio_of
                    if not needs_run or scale_ratios(folder, plan):
                        yield plan


# Lists of runs, or functions of the folder of results that yield them.
GROUPS = {
    "schedule": _plans(
        "war_and_peace",
        ("full_precision", "bwn", "lab", "binary_connect"),
        cells=128,
    ),
    "time_steps": [
        plan
        for seed in (2, 3)
        for plan in _by_steps(seed, dict.fromkeys((10, 50, 100, 150), 5))
    ],
    "signs": [
        plan
        for seed in (1, 2, 3)
        for name in ("war_and_peace", "linux_kernel")
        for plan in _plans(name, SIGNS, (seed,), epochs=5, cells=128)
    ],
    "why": _why,
    "mnist": [
        *_plans("mnist", ("binary_connect", "bwn", "lab"), (2, 3)),
        *_plans("mnist", ("full_precision", *SIGNS), (2, 3)),
    ],
    "cifar10": _plans("cifar10_20", WEIGHT_ONLY),
    "svhn": _plans("svhn", ["binary_connect"], epochs=16, width=32),
    "code": [
        *_plans("mnist", ["lab"], follow="code"),
        *_plans("war_and_peace", ["lab"], (1,), 30, "code", cells=128),
    ],
    # Round by round, so that all three have equal epochs when time is up.
    "cells_512": [
        plan
        for epochs in (5, 10, 20, 40, 80, 200)
        for plan in _plans(
            "war_and_peace", ("lab", "bwn", "full_precision"), epochs=epochs
        )
    ],
    # What ran first, with one seed.
    "first": [
        *_plans("mnist", SCHEMES),
        *_plans("mnist_no_norm", SCHEMES, width=512),
        *_plans("svhn", WEIGHT_ONLY, epochs=20, width=16),
        *_plans("svhn", WEIGHT_ONLY, epochs=16, width=32),
        *_plans("war_and_peace", WEIGHT_ONLY, epochs=5),
        *_plans("linux_kernel", WEIGHT_ONLY, epochs=5, cells=128),
        *_plans("war_and_peace_short", WEIGHT_ONLY),
        *_by_steps(1, {10: 5, 50: 5, 150: 15}),
    ],
}


def queue(folder: Path, groups=tuple(GROUPS)) -> Iterator[Plan]:
    """The runs of some groups, done or not, given the folder of all results.

    Some of them depend on results: a scheme runs with more seeds when its
    learning rate is known.
    """
    for group in groups:
        plans = GROUPS[group]
        yield from plans(folder) if callable(plans) else plans


def select(history: Mapping[str, Sequence], measure: str) -> dict | None:
    """The epoch with the lowest validation measure; the last of equal ones.

    The epoch counts from 1 and comes with its validation and test measure. In
    the history a number that was not finite is `None`; the result is `None` if
    no epoch has both measures.
    """
    names = [f"validation_{measure}", f"test_{measure}"]
    pairs = enumerate(zip(*(history[name] for name in names)), start=1)
    finite = [(pair, epoch) for epoch, pair in pairs if None not in pair]
    if not finite:
        return None
    pair, epoch = min(finite, key=lambda found: (found[0][0], -found[1]))
    return {"epoch": epoch, **dict(zip(names, pair))}


def _finished(folder, plan):
    """The content of a result, or `None` if it is not finished."""
    path = plan.path(folder)
    content = json.loads(path.read_text()) if path.exists() else None
    done = content and content["epochs_done"] >= plan.all_epochs
    return content if done else None


def chosen_rate(folder: Path, scheme: str) -> float | None:
    """The best learning rate of a scheme, or `None` while it is not known."""
    plans = [Plan(WHY, RECIPES[WHY], scheme, rate=rate) for rate in RATES]
    return best_rate(filter(None, (_finished(folder, plan) for plan in plans)))


def best_rate(results: Iterable[Mapping]) -> float | None:
    """The learning rate with the lowest validation loss.

    `None` unless there is a result for each of `RATES`.
    """
    losses = {}
    for result in results:
        best = select(result["history"], "loss")
        loss = best["validation_loss"] if best else float("inf")
        losses[result["learning_rate"]] = loss
    return min(losses, key=losses.get) if len(losses) == len(RATES) else None


def scale_ratios(folder: Path, plan: Plan) -> dict[str, list[float]] | None:
    """LAB's ratio α / mean|w|, for each kernel and gate of the LSTM.

    It is the mean over the epochs of the run that has the scheme `ratio_of` of
    the plan, its chosen learning rate and the same seed; `None` if that run is
    not finished.
    """
    source = ALL_SCHEMES[plan.scheme].ratio_of
    if (rate := chosen_rate(folder, source)) is None:
        return None
    run = _finished(
        folder, Plan(WHY, RECIPES[WHY], source, plan.seed, rate=rate)
    )
    return run and {
        f"{kind}kernel": [
            statistics.fmean(run["history"][f"lstm/{kind}ratio_{gate}"])
            for gate in "ifco"
        ]
        for kind in ("", "recurrent_")
    }
