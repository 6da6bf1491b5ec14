"""The runs of the page of results, in groups: what `train.py queue` does.

Each run is a command line of `train.py`. The groups are in the order in which
they matter.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

from examples.paper import results
from examples.paper.recipes import COMPARED, RATES, WHY
from examples.paper.schemes import CONTROLS, WEIGHT_ONLY

WEIGHTS = f"--scheme {' '.join(WEIGHT_ONLY)}"
SIGNS = "--scheme bnn xnor lab2"
GROUPS = {
    "schedule": [
        "war_and_peace --scheme full_precision bwn lab binary_connect "
        "--cells 128"
    ],
    "time_steps": [
        f"war_and_peace {WEIGHTS} --seed {seed} --epochs 5 --cells 128 "
        f"--steps {steps}"
        for seed in (2, 3)
        for steps in (10, 50, 100, 150)
    ],
    "signs": [
        f"{text} {SIGNS} --seed {seed} --epochs 5 --cells 128"
        for seed in (1, 2, 3)
        for text in ("war_and_peace", "linux_kernel")
    ],
    "why": [],  # See `commands`.
    "mnist": [
        "mnist --scheme binary_connect bwn lab --seed 2 3",
        "mnist --scheme full_precision bnn xnor lab2 --seed 2 3",
    ],
    "cifar10": [f"cifar10_20 {WEIGHTS}"],
    "svhn": ["svhn --scheme binary_connect --epochs 16 --width 32"],
    "code": [
        "mnist --scheme lab --follow code",
        "war_and_peace --scheme lab --epochs 30 --follow code --cells 128",
    ],
    # Round by round, so that all three have equal epochs when time is up.
    "cells_512": [
        f"war_and_peace --scheme lab bwn full_precision --epochs {epochs}"
        for epochs in (5, 10, 20, 40, 80, 200)
    ],
    # What ran first, with one seed.
    "first": [
        "mnist",
        "mnist_no_norm --width 512",
        f"svhn {WEIGHTS} --epochs 20 --width 16",
        f"svhn {WEIGHTS} --epochs 16 --width 32",
        f"war_and_peace {WEIGHTS} --epochs 5",
        f"linux_kernel {WEIGHTS} --epochs 5 --cells 128",
        f"war_and_peace_short {WEIGHTS}",
        f"war_and_peace {WEIGHTS} --epochs 5 --cells 128 --steps 10",
        f"war_and_peace {WEIGHTS} --epochs 5 --cells 128 --steps 50",
        f"war_and_peace {WEIGHTS} --epochs 15 --cells 128 --steps 150",
    ],
}


def commands(group: str, folder: Path) -> Iterator[str]:
    """The command lines of a group, given the folder of all results."""
    if group != "why":
        yield from GROUPS[group]
        return
    # The best rate of each scheme comes first, and says what follows. All seeds
    # of BWN and LAB come before the rest: their difference is the question.
    runs = results.load(folder, WHY)
    for schemes in (COMPARED[:2], COMPARED[2:], CONTROLS):
        for seed, scheme in itertools.product((1, 2, 3, 4, 5), schemes):
            if results.scale_ratios(runs, scheme, seed) is None:
                continue
            tuned = results.tuned(runs, scheme).values()
            rates = RATES if seed == 1 else {run.learning_rate for run in tuned}
            for rate in rates:
                yield f"{WHY} --scheme {scheme} --seed {seed} --rate {rate}"
