"""What the paper says of its numbers, held against ours."""

import dataclasses

from examples.paper import checks, comparison
from examples.paper.cells import ONE_RUN
from examples.paper.checks import Check
from examples.paper.results import Run
from examples.paper.schemes import SCHEMES, WEIGHT_ONLY
from examples.paper.tables import TABLES


@dataclasses.dataclass(frozen=True)
class Claim:
    """A sentence, and what decides it."""

    text: str
    check: Check


def format_summary(runs: list[Run]) -> list[str]:
    """The paper's sentences by verdict, as a list in Markdown."""
    by_verdict = {verdict: [] for verdict in SUMMARY}
    for claim in PAPER:
        verdict, _ = checks.decide(claim.check, runs)
        by_verdict[verdict].append(claim.text)
    lines = []
    for verdict, texts in by_verdict.items():
        if texts:
            count = f"{len(texts)} of {len(PAPER)}"
            lines.append(f"- **{SUMMARY[verdict]}** ({count})")
            lines += [f"  - {text}" for text in texts]
    return lines


def format_claims(runs: list[Run]) -> list[str]:
    """The claims as tables in Markdown."""
    lines = []
    for title, claims in GROUPS.items():
        lines += [f"| {title} | here | the numbers |", "|---|---|---|"]
        for claim in claims:
            verdict, numbers = checks.decide(claim.check, runs)
            lines.append(f"| {claim.text} | {verdict} | {numbers} |")
        lines.append("")
    return [*lines, LEGEND]


SUMMARY = {
    comparison.HOLDS: "Holds here, too",
    comparison.SO_FAR: "Holds as far as it ran",
    comparison.DIFFERS: "Does not hold here",
    comparison.OPEN: "Cannot be told from these runs",
    comparison.NOT_RUN: "Did not run",
}


LEGEND = f"""\
*Open*: the difference is no larger than twice its standard error (± here is one
standard error); or there is nothing to compare with, as where full precision
diverged, or runs are of different data or length. The standard error of an
error is what the size of the test set gives and, with several seeds, their
spread: of single runs it leaves out the luck of a seed. That of a cross-entropy
is what the spread of seeds gives, but at least {ONE_RUN} nats a run: a guess,
from how much the difference of two networks changes from one epoch to the next.
Limits, of 2.5 nats say, are ours and are taken as they are. *So far*: some have
not run. *5 of 200 epochs*: of the paper's. *Reduced*: network or data are not
those of the paper, see the notes of the tables."""

BINARY = ("binary_connect", "bwn", "lab")
SIGNS = ("bnn", "xnor", "lab2")
SCALED = ("bwn", "lab")
SUCCEED = ("full_precision", *SCALED)
FAILURE = 2.5
CLOSE = 0.1
MUCH = 10


def are_similar(sizes):
    """Whether gradients differ by less than a factor."""
    return max(sizes.values()) < MUCH * min(sizes.values())


def have_exploded(sizes):
    """Whether BinaryConnect's gradients are larger by a factor."""
    others = [sizes[scheme] for scheme in sizes if scheme != "binary_connect"]
    return sizes["binary_connect"] > MUCH * max(others)


def columns(table, but=()):
    """The titles of a table's columns."""
    titles = [column.title for column in TABLES[table].columns]
    return [title for title in titles if title not in but]


def best_in_each(table, best, schemes):
    """That a scheme is the lowest in each column that has run."""
    return checks.in_each(
        {
            column: checks.lowest(table, column, best, schemes)
            for column in columns(table)
        }
    )


def by_scheme(check, schemes, *place, **arguments):
    """A check of each of some schemes, by the scheme's title."""
    return {SCHEMES[s].title: check(*place, s, **arguments) for s in schemes}


def for_each(check, table, schemes, **arguments):
    """That a check along a table holds for each of some schemes."""
    return checks.in_each(by_scheme(check, schemes, table, **arguments))


# What the explanations of the page rest on, too.
LONGER_IS_BETTER = by_scheme(checks.falls, SUCCEED, "table4")
COST_FALLS_IN_TIME = by_scheme(
    checks.cost_falls_in_time, SCALED, "table3", "War and Peace"
)
COST_FALLS_WITH_THE_RATE = by_scheme(
    checks.cost_changes, SCALED, "schedule", sign=-1
)
FURTHER_WITH_THE_RATE = by_scheme(checks.falls, SUCCEED, "schedule")
GRADIENTS_EXPLODE = checks.gradients(
    "table4", "TS = 100", WEIGHT_ONLY, have_exploded
)
SCALE_MATTERS = checks.lowest(
    "no_norm", "MNIST, no batch norm", "bwn", BINARY[:2]
)

PAPER = (
    Claim(
        "MNIST: of the networks with binary weights LAB has the lowest error "
        "(Table 1)",
        checks.lowest("table1", "MNIST", "lab", BINARY),
    ),
    Claim(
        "MNIST: LAB is even better than full precision",
        checks.lowest("table1", "MNIST", "lab", ("full_precision", "lab")),
    ),
    Claim(
        "CIFAR-10: LAB is outperformed by BinaryConnect (slightly, in the "
        "paper)",
        checks.lowest(
            "table1", "CIFAR-10", "binary_connect", ("binary_connect", "lab")
        ),
    ),
    Claim(
        "CIFAR-10: LAB is better than full precision",
        checks.lowest("table1", "CIFAR-10", "lab", ("full_precision", "lab")),
    ),
    Claim(
        "SVHN: of the networks with binary weights LAB has the lowest error",
        checks.lowest("table1", "SVHN", "lab", BINARY),
    ),
    Claim(
        "With binary activations LAB2 is the best",
        best_in_each("table1", "lab2", SIGNS),
    ),
    Claim(
        "SVHN, each number of filters: of the networks with binary weights LAB "
        "is the best (Table 2)",
        best_in_each("table2", "lab", BINARY),
    ),
    Claim(
        "SVHN: the cost of binarization falls as filters are added",
        for_each(checks.cost_changes, "table2", BINARY, sign=-1),
    ),
    Claim(
        f"War and Peace, 100 steps: BinaryConnect fails, above {FAILURE} nats "
        "(Table 3)",
        checks.fails("table3", "War and Peace", "binary_connect", FAILURE),
    ),
    Claim(
        f"Linux Kernel: BinaryConnect fails, above {FAILURE} nats",
        checks.fails("table3", "Linux Kernel", "binary_connect", FAILURE),
    ),
    Claim(
        f"War and Peace, 100 steps: BWN and LAB are within {CLOSE} nats of "
        "full precision, at equal epochs",
        checks.within("table3", "War and Peace", SCALED, CLOSE),
    ),
    Claim(
        "The texts: of the networks with binary weights LAB is the best",
        best_in_each("table3", "lab", BINARY),
    ),
    Claim(
        "Linux Kernel: LAB is even better than full precision",
        checks.lowest(
            "table3", "Linux Kernel", "lab", ("full_precision", "lab")
        ),
    ),
    Claim(
        "The texts: with binary activations LAB2 is the best",
        best_in_each("table3", "lab2", SIGNS),
    ),
    Claim(
        f"War and Peace, 10 steps: all are close to full precision, within "
        f"{CLOSE} nats (Table 4)",
        checks.within("table4", "TS = 10", BINARY, CLOSE),
    ),
    Claim(
        "War and Peace, from 50 steps on: BinaryConnect fails, above "
        f"{FAILURE} nats",
        checks.in_each(
            {
                column: checks.fails(
                    "table4", column, "binary_connect", FAILURE
                )
                for column in columns("table4", but=("TS = 10",))
            }
        ),
    ),
    Claim(
        "War and Peace, each number of steps: of the networks with binary "
        "weights LAB is the best",
        best_in_each("table4", "lab", BINARY),
    ),
    Claim(
        "War and Peace: with more steps all but BinaryConnect get better, at "
        "equal epochs",
        checks.in_each(LONGER_IS_BETTER),
    ),
    Claim(
        "War and Peace: with more steps binarization costs more, at equal "
        "epochs",
        for_each(checks.cost_changes, "table4", SCALED, sign=1),
    ),
    Claim(
        "War and Peace, 10 steps: all have similar gradients (Figure 2; within "
        f"a factor of {MUCH})",
        checks.gradients("table4", "TS = 10", WEIGHT_ONLY, are_similar),
    ),
    Claim(
        "War and Peace, 100 steps: BinaryConnect's gradients are much higher "
        f"than the others' (Figure 2; by a factor of {MUCH})",
        GRADIENTS_EXPLODE,
    ),
)

OURS = (
    Claim(
        "MNIST without batch norm: LAB has the lowest error of the networks "
        "with binary weights",
        checks.lowest("no_norm", "MNIST, no batch norm", "lab", BINARY),
    ),
    Claim(
        "MNIST without batch norm: BWN is better than BinaryConnect at this "
        "learning rate, that is, a scale matters",
        SCALE_MATTERS,
    ),
    Claim(
        "War and Peace: with more steps all but BinaryConnect get better, at "
        "equal updates",
        for_each(checks.falls, "table4", SUCCEED, equal_updates=True),
    ),
    Claim(
        "War and Peace: with more steps binarization costs more, at equal "
        "updates",
        for_each(
            checks.cost_changes, "table4", SCALED, sign=1, equal_updates=True
        ),
    ),
    Claim(
        "War and Peace, 100 steps: binarization costs less after the last "
        "epoch than after the first",
        checks.in_each(COST_FALLS_IN_TIME),
    ),
    Claim(
        "War and Peace, 128 cells, ten epochs: where the learning rate falls, "
        "binarization costs less",
        checks.in_each(COST_FALLS_WITH_THE_RATE),
    ),
    Claim(
        "The same: where the learning rate falls, all but BinaryConnect get "
        "further",
        checks.in_each(FURTHER_WITH_THE_RATE),
    ),
    Claim(
        "The same, where it falls: BWN and LAB are within "
        f"{CLOSE} nats of full precision",
        checks.within("schedule", columns("schedule")[-1], SCALED, CLOSE),
    ),
)

LIMITS = (
    Claim(
        "MNIST: LAB at most 1.30%, every scheme with float activations at most "
        "1.6%",
        checks.at_most(
            "table1", "MNIST", {**dict.fromkeys(WEIGHT_ONLY, 1.6), "lab": 1.3}
        ),
    ),
)

GROUPS = {
    "the paper says": PAPER,
    "not in the paper": OURS,
    "what we ask of ourselves": LIMITS,
}
CLAIMS = (*PAPER, *OURS, *LIMITS)
