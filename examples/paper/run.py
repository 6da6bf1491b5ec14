"""Runs the paper's experiments.

    python examples/paper/run.py mnist --scheme lab --seed 1
    python examples/paper/run.py table1 --budget small
    python examples/paper/run.py figure2

Each run writes `results/paper/<experiment>/<scheme>-<seed>.json` after every
epoch. A run that was interrupted goes on where it stopped when the same command
is given again, to the same result; a finished one is not overwritten.
`report.py` makes the tables and figures.
"""

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from examples.paper.checkpoints import Finished, RunError
from examples.paper.data import DataError
from examples.paper.plans import Plan
from examples.paper.recipes import FOLLOW, RECIPES
from examples.paper.schemes import SCHEMES
from examples.paper.tables import FIGURES, TABLES, jobs
from examples.paper.training import previous, run

SIZES = ("width", "cells", "steps")
STUDIES = {**TABLES, **FIGURES}


def parse(arguments=None):
    """The options, checked."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add(
        "what",
        choices=[*RECIPES, *STUDIES],
        metavar="WHAT",
        help=f"an experiment ({', '.join(RECIPES)}) or all of a table or "
        f"figure ({', '.join(STUDIES)})",
    )
    add(
        "--scheme",
        nargs="+",
        choices=list(SCHEMES),
        metavar="S",
        help=f"one or more of {', '.join(SCHEMES)}; default: all",
    )
    add(
        "--seed",
        nargs="+",
        type=_whole_number(0),
        default=[1],
        metavar="N",
        help="one or more; default: 1",
    )
    for name, letter, of_what in (
        ("epochs", "N", "how many"),
        ("width", "K", "units of a hidden layer, or filters of the first"),
        ("cells", "C", "of the LSTM"),
        ("steps", "TS", "time steps of the LSTM"),
    ):
        text = f"{of_what}; default: the paper's"
        add(f"--{name}", type=_whole_number(1), metavar=letter, help=text)
    add(
        "--follow",
        choices=FOLLOW,
        default="paper",
        help="whom, where the paper and its authors' code differ (initial "
        "weights, batch norm, learning rate, contrast normalization, binary "
        "activations of the LSTM); default: paper",
    )
    add(
        "--budget",
        choices=("full", "small"),
        default="full",
        help="of a table or figure: the paper's sizes and epochs, or what two "
        "CPU cores can carry; default: full",
    )
    add(
        "--data-dir",
        metavar="DIR",
        help="default: KERAS_LAB_DATA, or else datasets in the Keras home",
    )
    add(
        "--results-dir",
        type=Path,
        metavar="DIR",
        default=ROOT / "results" / "paper",
        help="default: results/paper",
    )
    add(
        "--note",
        type=lambda text: " ".join(text.split()),
        metavar="TEXT",
        help="kept with the result and shown by report.py, on the data say",
    )
    add("--no-jit", action="store_true", help="train without XLA")
    options = parser.parse_args(arguments)
    given = {name: getattr(options, name) for name in SIZES}
    options.sizes = {name: size for name, size in given.items() if size}
    if options.what in STUDIES:
        rows = STUDIES[options.what].schemes
        for scheme in options.scheme or ():
            if scheme not in rows:
                parser.error(
                    f"{options.what} has {', '.join(rows)}. Received: "
                    f"--scheme {scheme}"
                )
        for name in (*options.sizes, *(["epochs"] if options.epochs else [])):
            parser.error(
                f"{options.what} says what --{name} is. Received: "
                f"--{name} {getattr(options, name)}"
            )
    else:
        if options.budget != "full":
            parser.error(
                "--budget is for tables and figures. Received: --budget "
                f"{options.budget} with {options.what}"
            )
        known = RECIPES[options.what].all_sizes
        for name in options.sizes:
            if name not in known:
                parser.error(
                    f"{options.what} has no --{name}, but "
                    + ", ".join(f"--{size}" for size in known)
                    + f". Received: --{name} {options.sizes[name]}"
                )
    return options


def _whole_number(lowest):
    def whole_number(text):
        try:
            value = int(text)
        except ValueError:
            value = None
        if value is None or not lowest <= value < 2**32:
            raise argparse.ArgumentTypeError(
                f"must be an integer from {lowest} to 4294967295. Received: "
                f"{text!r}"
            )
        return value

    return whole_number


def plans(options) -> list[Plan]:
    """What the options ask for, run by run."""
    if options.what in STUDIES:
        wanted = [
            (job.recipe, job.scheme, job.epochs, job.sizes)
            for job in jobs(STUDIES[options.what], options.budget)
        ]
    else:
        wanted = [
            (options.what, scheme, options.epochs, options.sizes)
            for scheme in SCHEMES
        ]
    return [
        Plan(
            name=name,
            recipe=RECIPES[name],
            scheme=scheme,
            seed=seed,
            epochs=epochs,
            sizes=sizes,
            follow=options.follow,
            note=options.note,
        )
        for seed in options.seed
        for name, scheme, epochs, sizes in wanted
        if options.scheme is None or scheme in options.scheme
    ]


def problems(todo: list[Plan], folder: Path) -> list[str]:
    """What keeps runs from going on from what is in the folder."""
    found = []
    for plan in todo:
        try:
            previous(plan, plan.path(folder))
        except Finished:
            pass
        except RunError as error:
            found.append(str(error))
    return found


def main(arguments=None) -> int:
    """Runs the command line and returns the exit code."""
    options = parse(arguments)
    todo = plans(options)
    # A table takes days: what cannot work is said before the first run.
    if found := problems(todo, options.results_dir):
        for problem in found:
            _log(f"run.py: error: {problem}")
        return 1
    code, without_data = 0, set()
    for number, plan in enumerate(todo, start=1):
        if plan.name in without_data:
            continue
        if len(todo) > 1:
            _log(f"run {number} of {len(todo)}: {plan}")
        try:
            run(
                plan,
                options.data_dir,
                options.results_dir,
                jit_compile=not options.no_jit,
                log=_log,
            )
        except Finished as finished:
            _log(f"run.py: {finished}")
            # Of several, those that are finished are skipped.
            code = code or int(len(todo) == 1)
        except (DataError, RunError) as error:
            _log(f"run.py: error: {error}")
            code = 1
            if isinstance(error, DataError):
                without_data.add(plan.name)
        except KeyboardInterrupt:
            _log("\nInterrupted. The same command goes on from the last epoch.")
            return 130
    return code


def _log(line):
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
