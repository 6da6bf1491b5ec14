"""Trains the paper's networks.

    python examples/paper/train.py mnist --scheme lab --seed 1
    python examples/paper/train.py table1 --budget small
    python examples/paper/train.py figure2

Each run writes `results/paper/<experiment>/<scheme>-<seed>.json` after every
epoch. The same command continues a run that was interrupted, to the same result
bit for bit: the weights depend only on the seed, the order of the examples on
the seed and the epoch, and each epoch ends with a checkpoint. A finished run is
not overwritten. `report.py` makes the tables and figures.
"""

import argparse
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import keras_lab
from examples.environment import environment
from examples.paper import checkpoints, measurements
from examples.paper.checkpoints import Finished, RunError
from examples.paper.data import DataError, Part
from examples.paper.recipes import FOLLOW, PARTS, RECIPES, Plan
from examples.paper.schemes import SCHEMES
from examples.paper.tables import FIGURES, TABLES, jobs

EVALUATION_BATCH = 500
SIZES = ("width", "cells", "steps")
STUDIES = {**TABLES, **FIGURES}


class Batches(keras.utils.PyDataset):
    """The examples in a given order.

    With two workers Keras does not use the autotuning of `tf.data`. That has a
    thread that sleeps for up to a minute, and the end of an epoch often waits
    until it wakes up; on one core, nearly always.
    """

    def __init__(self, part: Part, order: np.ndarray, batch: int):
        super().__init__(workers=2)
        self.part, self.order, self.batch = part, order, batch

    def __len__(self):
        return math.ceil(len(self.order) / self.batch)

    def __getitem__(self, index):
        chosen = self.order[index * self.batch : (index + 1) * self.batch]
        return self.part.x[chosen], self.part.y[chosen]


def epoch_order(count: int, seed: int, epoch: int) -> np.ndarray:
    """The order of the training examples in an epoch."""
    return np.random.default_rng([seed, epoch]).permutation(count)


def run(
    plan: Plan,
    data_folder: str | None,
    folder: Path,
    jit_compile: bool = True,
    log: Callable[[str], None] = print,
) -> dict:
    """Trains until the planned epochs are done, and returns the result.

    Args:
        plan: What to run.
        data_folder: As in `examples.paper.data.data_folder`.
        folder: The folder of all results.
        jit_compile: Whether XLA compiles the step.
        log: Called with each line of progress.
    """
    path = plan.path(folder)
    with checkpoints.kept(path):
        return _run(plan, data_folder, path, jit_compile, log)


def _run(plan, data_folder, path, jit_compile, log):
    recipe = plan.recipe.following(plan.follow)
    epochs, measure = plan.all_epochs, recipe.task.measure
    result = checkpoints.previous(path, plan.configuration(), epochs)
    data = recipe.load(data_folder, **plan.sizes)
    keras.utils.set_random_seed(plan.seed)
    scheme = SCHEMES[plan.scheme]
    model = recipe.build(
        scheme, data.classes, plan.follow, jit_compile, **plan.sizes
    )
    model.optimizer.build(model.trainable_variables)
    result = _begin(plan, path, result, data, model, jit_compile)

    first = result["epochs_done"] + 1
    start = f"continues at epoch {first} of" if first > 1 else "epochs:"
    facts = [f"{result['data'][name]:,} {name}" for name in PARTS]
    facts = "; ".join([", ".join(facts), *data.departures])
    log(f"{plan}   {start} {epochs}   {facts}")
    parts = {
        name: Part(part.x, recipe.task.targets(part.y))
        for name in PARTS
        for part in [getattr(data, name)]
    }
    began = time.monotonic()
    for epoch in range(first, epochs + 1):
        record = _train_epoch(model, parts, plan, recipe, epoch)
        for name, value in record.items():
            # A quantity that is new has no value in earlier epochs.
            values = result["history"].setdefault(name, [None] * (epoch - 1))
            values.append(value)
        result["epochs_done"] = epoch
        result["selected"] = measurements.select(result["history"], measure)
        result["alpha"] = {
            weight.alpha.path: weight.alpha.numpy().tolist()
            for weight in keras_lab.binary_weights(model).values()
        }
        gradient = measurements.recurrent_gradient(model, parts["validation"])
        if gradient:
            result["recurrent_gradient"] = gradient
        checkpoints.save(path, model, result)
        elapsed = time.monotonic() - began
        left = elapsed / (epoch - first + 1) * (epochs - epoch)
        numbers = [
            f"{part} {_show(record[f'{part}_{measure}'], measure)}   "
            for part in PARTS
        ]
        log(
            f"{plan}   epoch {epoch}/{epochs}   {''.join(numbers)}"
            f"{record['seconds']:.0f} s   {duration(left)} left"
        )
    chosen = result["selected"] or {"epoch": "none"}
    test = _show(chosen.get(f"test_{measure}"), measure)
    log(f"{plan}   test {test}, best epoch: {chosen['epoch']}   {path}")
    return result


def _begin(plan, path, result, data, model, jit_compile):
    """The result at the beginning of a session, new or from before."""
    counts = {name: len(getattr(data, name).y) for name in PARTS}
    described = {**counts, "files": data.files}
    if result is None:
        result = {
            **plan.configuration(),
            "parameters": model.count_params(),
            "data": described,
            "epochs_planned": plan.all_epochs,
            "epochs_done": 0,
            "history": {},
            "sessions": [],
        }
    elif result["data"] != described:
        raise RunError(
            f"{path} was made with other data: {result['data']}. Choose the "
            "folder of that data with --data-dir, or another --results-dir. "
            f"Received: {described}"
        )
    else:
        checkpoints.restore(path, model)
    result["epochs_planned"] = plan.all_epochs
    result["departures"] = list(data.departures)
    if plan.note:
        result["note"] = plan.note
    session = {
        "first_epoch": result["epochs_done"] + 1,
        "commit": _commit(),
        "jit_compile": jit_compile,
    }
    result["sessions"].append({**session, **environment()})
    return result


def _train_epoch(model, parts, plan, recipe, epoch):
    """Trains and evaluates; returns the numbers of the epoch by name."""
    began = time.monotonic()
    rate = recipe.learning_rate(SCHEMES[plan.scheme], epoch)
    model.optimizer.learning_rate = rate
    order = epoch_order(len(parts["train"].y), plan.seed, epoch)
    whole = len(order) // recipe.batch * recipe.batch
    batches = Batches(parts["train"], order[:whole], recipe.batch)
    bar = int(sys.stdout.isatty())
    history = model.fit(batches, shuffle=False, verbose=bar).history
    trained = time.monotonic()
    logs = {"train": {name: values[-1] for name, values in history.items()}}
    for name in ("validation", "test"):
        order = np.arange(len(parts[name].y))
        logs[name] = model.evaluate(
            Batches(parts[name], order, EVALUATION_BATCH),
            verbose=0,
            return_dict=True,
        )
    record = {"learning_rate": rate}
    for name, values in logs.items():
        loss = measurements.finite(values["loss"])
        record[f"{name}_loss"] = loss
        if "categorical_accuracy" in values:
            error = round(100 * (1 - values["categorical_accuracy"]), 4)
            # The largest of ten NaN would count as some class.
            record[f"{name}_error"] = None if loss is None else error
    record["train_seconds"] = round(trained - began, 2)
    record["seconds"] = round(time.monotonic() - began, 2)
    return {**record, **measurements.mean_alphas(model)}


def _show(value, measure):
    if value is None:
        return "diverged"
    return f"{value:.3f}{'%' if measure == 'error' else ' nats'}"


def duration(seconds: float) -> str:
    """A time for people to read."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes / 60:.1f} h"


def _commit():
    """The commit that runs, with `-dirty` if it was changed."""
    command = ["git", "describe", "--always", "--dirty", "--tags"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except OSError:  # There is no git.
        return None
    return done.stdout.strip() or None


def parse(arguments=None) -> argparse.Namespace:
    """The options, checked."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add(
        "what",
        choices=[*RECIPES, *STUDIES],
        metavar="WHAT",
        help=f"an experiment ({', '.join(RECIPES)}), or all runs of a table or "
        f"figure ({', '.join(STUDIES)})",
    )
    add(
        "--scheme",
        nargs="+",
        choices=list(SCHEMES),
        metavar="S",
        help=f"one or more of {', '.join(SCHEMES)}; default: all",
    )
    add("--seed", nargs="+", type=_integer(0), default=[1], metavar="N",
        help="one or more; default: 1")  # fmt: skip
    for name, letter, text in (
        ("epochs", "N", "number of epochs"),
        ("width", "K", "units of a hidden layer, or filters of the first"),
        ("cells", "C", "cells of the LSTM"),
        ("steps", "TS", "time steps of the LSTM"),
    ):
        text = f"{text}; default: as in the paper"
        add(f"--{name}", type=_integer(1), metavar=letter, help=text)
    add("--follow", choices=FOLLOW, default="paper",
        help="which one decides where the paper and its authors' code differ; "
        "default: paper")  # fmt: skip
    add("--budget", choices=("full", "small"), default="full",
        help="for a table or figure: the paper's sizes and epochs, or what two "
        "CPU cores can do; default: full")  # fmt: skip
    add("--data-dir", metavar="DIR",
        help="default: KERAS_LAB_DATA, or datasets in ~/.keras")  # fmt: skip
    add("--results-dir", type=Path, default=ROOT / "results" / "paper",
        metavar="DIR", help="default: results/paper")  # fmt: skip
    add(
        "--note",
        metavar="TEXT",
        help="saved with the result and shown by report.py",
    )
    add("--no-jit", action="store_true", help="train without XLA")
    options = parser.parse_args(arguments)
    given = {name: getattr(options, name) for name in SIZES}
    options.sizes = {name: size for name, size in given.items() if size}
    if problem := _problem(options):
        parser.error(problem)
    return options


def _problem(options):
    """Why options do not fit together; `None` if they do."""
    if options.what not in STUDIES:
        if options.budget != "full":
            return (
                f"--budget is for tables and figures. Received: {options.what}"
            )
        known = RECIPES[options.what].all_sizes
        wrong = [name for name in options.sizes if name not in known]
        known = ", ".join(f"--{name}" for name in known)
        if wrong:
            return f"{options.what} has only {known}. Received: --{wrong[0]}"
        return None
    rows = STUDIES[options.what].schemes
    for scheme in options.scheme or ():
        if scheme not in rows:
            rows = ", ".join(rows)
            return (
                f"{options.what} has only {rows}. Received: --scheme {scheme}"
            )
    if options.sizes or options.epochs:
        names = ", ".join(f"--{n}" for n in (*options.sizes, "epochs"))
        return f"{options.what} has its own sizes and epochs. Received: {names}"
    return None


def _integer(lowest):
    def integer(text):
        if text.isdecimal() and lowest <= int(text) < 2**32:
            return int(text)
        raise argparse.ArgumentTypeError(
            f"must be an integer from {lowest} to {2**32 - 1}. Received: {text}"
        )

    return integer


def plans(options) -> list[Plan]:
    """The runs that the options ask for."""
    if options.what in STUDIES:
        wanted = jobs(STUDIES[options.what], options.budget)
    else:
        wanted = [
            (options.what, scheme, options.sizes, options.epochs)
            for scheme in SCHEMES
        ]
    return [
        Plan(
            name,
            RECIPES[name],
            scheme,
            seed,
            epochs,
            sizes,
            options.follow,
            options.note,
        )
        for seed in options.seed
        for name, scheme, sizes, epochs in wanted
        if options.scheme is None or scheme in options.scheme
    ]


def main(arguments=None) -> int:
    """Runs the command line and returns the exit code."""
    options = parse(arguments)
    keras_lab.config.keep_memory()
    todo = plans(options)
    code, without_data = 0, set()
    for number, plan in enumerate(todo, start=1):
        if plan.name in without_data:
            continue
        if len(todo) > 1:
            _log(f"run {number} of {len(todo)}: {plan}")
        jit_compile = not options.no_jit
        try:
            run(plan, options.data_dir, options.results_dir, jit_compile, _log)
        except Finished as finished:
            _log(f"train.py: {finished}")
            # If there are several, those that are finished are skipped.
            code = code or int(len(todo) == 1)
        except (DataError, RunError) as error:
            _log(f"train.py: error: {error}")
            code = 1
            if isinstance(error, DataError):
                without_data.add(plan.name)
        except KeyboardInterrupt:
            _log("\nInterrupted. The same command continues the run.")
            return 130
    return code


def _log(line):
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
