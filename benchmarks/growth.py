"""How a training step and an export grow with the number of weights.

    python -m benchmarks.growth

Three square dense layers with batch norm, of 10⁵ to 10⁸ weights together, at
batch 100. Each size is a process of its own, so that its peak of memory is its
own, too. A size that is measured is kept; the same command goes on from there.
"""

import argparse
import sys

from benchmarks import harness
from benchmarks.journal import Journal
from benchmarks.workers import Cannot, Worker

WEIGHTS = (10**5, 10**6, 10**7, 10**8)
# Half a decade between them as well.
STEPS_BETWEEN = 2
TASKS = ("keras", "lab", "export")


def sizes(most):
    """Numbers of weights, evenly spaced on a logarithmic axis."""
    count = STEPS_BETWEEN * (len(WEIGHTS) - 1) + 1
    ratio = (WEIGHTS[-1] / WEIGHTS[0]) ** (1 / (count - 1))
    return [
        weights
        for number in range(count)
        if (weights := round(WEIGHTS[0] * ratio**number)) <= most
    ]


def measure(task, weights, arguments):
    """A row, from a process of its own."""
    with Worker("benchmarks.growth_worker") as worker:
        if task == "export":
            return worker.call(
                "export", weights=weights, rounds=arguments.exports
            )
        return worker.call(
            "train", weights=weights, scheme=task, rounds=arguments.rounds
        )


def run(arguments):
    """Measures what the file does not have yet, the small ones first."""
    journal = Journal(
        arguments.output,
        "growth",
        {
            "rounds": arguments.rounds,
            "exports": arguments.exports,
            "most": arguments.most,
        },
        keys=("task", "weights"),
    )
    for weights in sizes(arguments.most):
        for task in TASKS:
            cell = {"task": task, "weights": weights}
            if not journal.misses(**cell):
                continue
            print(f"{task}, {weights:,} weights", flush=True)
            try:
                result = measure(task, weights, arguments)
            except Cannot as error:
                result = error.to_json()
            journal.add({**cell, **result})
    journal.finish()


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    at_least = harness.at_least
    add("--rounds", type=at_least(2), default=21, help="training steps a size")
    add("--exports", type=at_least(1), default=3, help="exports a size")
    add(
        "--most", type=at_least(WEIGHTS[0]), default=WEIGHTS[-1], help="weights"
    )
    add("--output", default=str(harness.RESULTS / "growth.json"))
    return parser.parse_args(argv)


def main(argv=None) -> int:
    return harness.report_errors(lambda: run(parse(argv)))


if __name__ == "__main__":
    sys.exit(main())
