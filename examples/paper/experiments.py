"""The runs of the page of results, in the order in which they matter.

`train.py queue` works through them. Several processes may do so side by side.
`comparisons.py` says what they show.
"""

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from examples.paper.recipes import RECIPES, Plan, select
from examples.paper.schemes import ALL_SCHEMES, CONTROLS, SCHEMES, WEIGHT_ONLY

SIGNS = ("bnn", "xnor", "lab2")

# Why LAB wins, when it wins: not in the paper. Each scheme has the learning
# rate that is best on the validation part, with the first seed.
WHY = "war_and_peace_30"
RATES = (0.001, 0.002, 0.004)
SEEDS = (1, 2, 3, 4, 5)
COMPARED = ("bwn", "lab", "xnor", "lab2")


def _plans(name, schemes, seeds=(1,), epochs=None, follow="paper", **sizes):
    recipe = RECIPES[name].following(follow)
    return [
        Plan(name, recipe, scheme, seed, sizes, epochs)
        for seed in seeds
        for scheme in schemes
    ]


def _time_steps(folder):
    for seed in (2, 3):
        for steps in (10, 50, 100, 150):
            sizes = {"cells": 128, "steps": steps}
            yield from _plans("war_and_peace", WEIGHT_ONLY, (seed,), 5, **sizes)


def _signs(folder):
    for seed in (1, 2, 3):
        for name in ("war_and_peace", "linux_kernel"):
            yield from _plans(name, SIGNS, (seed,), 5, cells=128)


def _mnist(folder):
    yield from _plans("mnist", ("binary_connect", "bwn", "lab"), (2, 3))
    yield from _plans("mnist", ("full_precision", *SIGNS), (2, 3))


def _cells_512(folder):
    # Round by round, so that all three have equal epochs when time is up.
    for epochs in (5, 10, 20, 40, 80, 200):
        schemes = ("lab", "bwn", "full_precision")
        yield from _plans("war_and_peace", schemes, epochs=epochs)


def _code(folder):
    yield from _plans("mnist", ["lab"], follow="code")
    yield from _plans(
        "war_and_peace", ["lab"], epochs=30, follow="code", cells=128
    )


def _why(folder):
    for schemes in (COMPARED, tuple(CONTROLS)):
        for scheme in schemes:
            for rate in RATES:
                yield Plan(WHY, RECIPES[WHY], scheme, rate=rate)
        for seed in SEEDS[1:]:
            for scheme in schemes:
                if rate := chosen_rate(folder, scheme):
                    yield Plan(WHY, RECIPES[WHY], scheme, seed, rate=rate)


def _first(folder):
    """What ran first, with one seed."""
    yield from _plans("mnist", SCHEMES)
    yield from _plans("mnist_no_norm", SCHEMES, width=512)
    yield from _plans("svhn", WEIGHT_ONLY, epochs=20, width=16)
    yield from _plans("svhn", WEIGHT_ONLY, epochs=16, width=32)
    yield from _plans("war_and_peace", WEIGHT_ONLY, epochs=5)
    yield from _plans("linux_kernel", WEIGHT_ONLY, epochs=5, cells=128)
    yield from _plans("war_and_peace_short", WEIGHT_ONLY)
    for steps, epochs in ((10, 5), (50, 5), (150, 15)):
        sizes = {"cells": 128, "steps": steps}
        yield from _plans("war_and_peace", WEIGHT_ONLY, epochs=epochs, **sizes)


GROUPS = {
    "schedule": lambda folder: _plans(
        "war_and_peace",
        ("full_precision", "bwn", "lab", "binary_connect"),
        cells=128,
    ),
    "time_steps": _time_steps,
    "signs": _signs,
    "why": _why,
    "mnist": _mnist,
    "cifar10": lambda folder: _plans("cifar10_20", WEIGHT_ONLY),
    "svhn": lambda folder: _plans(
        "svhn", ["binary_connect"], epochs=16, width=32
    ),
    "code": _code,
    "cells_512": _cells_512,
    "first": _first,
}


def queue(folder: Path, groups=tuple(GROUPS)) -> Iterator[Plan]:
    """The runs of some groups, done or not, given the folder of all results.

    Some of them depend on results: a scheme runs with more seeds when its
    learning rate is known.
    """
    for group in groups:
        yield from GROUPS[group](folder)


def finished(folder: Path, plan: Plan) -> dict | None:
    """The content of a result, or `None` if it is not finished."""
    path = plan.path(folder)
    content = json.loads(path.read_text()) if path.exists() else None
    done = content and content["epochs_done"] >= plan.all_epochs
    return content if done else None


def chosen_rate(folder: Path, scheme: str) -> float | None:
    """The best learning rate of a scheme, or `None` while it is not known."""
    plans = [Plan(WHY, RECIPES[WHY], scheme, rate=rate) for rate in RATES]
    return best_rate(filter(None, (finished(folder, plan) for plan in plans)))


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
    rate = chosen_rate(folder, source)
    if rate is None:
        return None
    run = finished(
        folder, Plan(WHY, RECIPES[WHY], source, plan.seed, rate=rate)
    )
    return run and {
        f"{kind}kernel": [
            statistics.fmean(run["history"][f"lstm/{kind}ratio_{gate}"])
            for gate in "ifco"
        ]
        for kind in ("", "recurrent_")
    }
