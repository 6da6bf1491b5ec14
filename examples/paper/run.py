"""Runs the paper's experiments.

    python examples/paper/run.py mnist --scheme lab --seed 1

Each run writes `results/paper/<experiment>/<scheme>-<seed>.json` after every
epoch. A run that was interrupted goes on where it stopped; a finished one is
not overwritten. `report.py` makes the tables.
"""

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# TensorFlow's own allocator keeps the memory of the binary kernels from step to
# step: with jit_compile a step of the large MLP is faster by a fifth.
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "1")

from examples.paper.recipes import FOLLOW, RECIPES
from examples.paper.schemes import SCHEMES
from examples.paper.training import Plan, RunError, run
from keras_lab.datasets import DataError


def parse(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("experiment", choices=list(RECIPES))
    add("--scheme", choices=SCHEMES, required=True)
    add("--seed", type=int, default=1)
    add("--epochs", type=int)
    add("--width", type=int)
    add("--follow", choices=FOLLOW, default="paper")
    add("--data-dir")
    add("--results-dir", type=Path, default=ROOT / "results" / "paper")
    add("--no-jit", action="store_true")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    recipe = RECIPES[options.experiment]
    sizes = {"width": options.width} if options.width else {}
    plan = Plan(
        options.experiment,
        recipe,
        options.scheme,
        options.seed,
        options.epochs,
        sizes,
        options.follow,
    )
    try:
        data = recipe.following(options.follow).data(options.data_dir)
        run(plan, data, options.results_dir, jit_compile=not options.no_jit)
    except (DataError, RunError) as error:
        print(f"run.py: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; the same command goes on.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
