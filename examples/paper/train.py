"""Trains the paper's networks.

    python examples/paper/train.py mnist --scheme lab --seed 1
    python examples/paper/train.py queue

Each run writes `results/paper/<experiment>/<scheme>-<seed>.json` after every
epoch. The same command continues a run that was interrupted, to the same result
bit for bit: the weights depend only on the seed, the order of the examples on
the seed and the epoch, and each epoch ends with a checkpoint. A finished run is
not overwritten. `queue` works through the runs of the page of results, in the
order in which they matter; start it twice to use two processes. `report.py`
makes the tables and figures.
"""

import argparse
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import filelock
import keras
import numpy as np

import keras_lab
from examples.environment import environment
from examples.paper import measurements, results
from examples.paper.data import DataError, Part
from examples.paper.groups import GROUPS, commands
from examples.paper.recipes import PARTS, RECIPES, WHY, Plan
from examples.paper.results import Finished, RunError
from examples.paper.schemes import ALL_SCHEMES, SCHEMES

EVALUATION_BATCH = 500
WAIT = 60  # Seconds.


def queue(folder: Path, groups: list[str]) -> Iterator[Plan]:
    """The runs of some groups, done or not, as far as they are known."""
    for group in groups:
        for command in commands(group, folder):
            yield from parse(command.split()).plans


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


def log_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def run(
    plan: Plan,
    data_folder: str | None,
    folder: Path,
    jit_compile: bool = True,
    log: Callable[[str], None] = log_line,
) -> dict:
    """Trains until the planned epochs are done, and returns the result.

    Raises filelock.Timeout if another process works on this run, and RunError
    if it is finished or its files do not fit.
    """
    path, measure = plan.path(folder), plan.recipe.task.measure
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f".{path.name}.lock")
    with filelock.FileLock(lock, blocking=False):
        model, parts, result = _begin(plan, data_folder, path, jit_compile)
        first, began = result["epochs_done"] + 1, time.monotonic()
        departures = "; ".join(result["departures"])
        log(f"{plan}   epochs {first} to {plan.epochs}   {departures}")
        for epoch in range(first, plan.epochs + 1):
            numbers = _train_epoch(model, parts, plan, epoch)
            _record(result, numbers, model, parts, measure)
            results.save(path, model, result)
            shown = [_show(numbers, part, measure) for part in PARTS]
            each = (time.monotonic() - began) / (epoch - first + 1)
            log(
                f"{plan}   epoch {epoch}/{plan.epochs}   {'   '.join(shown)}   "
                f"{numbers['seconds']:.0f} s   "
                f"{each * (plan.epochs - epoch) / 60:.0f} min left"
            )
    chosen = result["selected"] or {"epoch": "none"}
    test = _show(chosen, "test", measure)
    log(f"{plan}   {test}, best epoch: {chosen['epoch']}   {path}")
    return result


def _begin(plan, data_folder, path, jit_compile):
    """The model, the parts of the data and the result, new or from before."""
    result = results.previous(path, plan)
    recipe, scheme = plan.recipe, ALL_SCHEMES[plan.scheme]
    ratios = {}
    if scheme.ratio_of:
        runs = results.load(path.parents[1], WHY)
        ratios = results.scale_ratios(runs, plan.scheme, plan.seed)
        if ratios is None:
            raise RunError(f"{plan} needs the runs of {scheme.ratio_of} first.")
    data = recipe.load(data_folder, **plan.sizes)
    keras.utils.set_random_seed(plan.seed)
    scheme = scheme.scaled(ratios)
    model = recipe.build(scheme, data.classes, jit_compile, **plan.sizes)
    model.optimizer.build(model.trainable_variables)

    parts = {name: getattr(data, name) for name in PARTS}
    described = {name: len(part.y) for name, part in parts.items()}
    described["files"] = data.files
    if result is None:
        result = {
            **plan.configuration(),
            "parameters": model.count_params(),
            "data": described,
            "epochs_planned": plan.epochs,
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
        results.restore(path, model)
    if ratios:
        result["scale_ratios"] = ratios
    result["epochs_planned"] = plan.epochs
    result["departures"] = list(data.departures)
    session = {
        "first_epoch": result["epochs_done"] + 1,
        "commit": _commit(),
        "jit_compile": jit_compile,
    }
    result["sessions"].append({**session, **environment()})
    targets = recipe.task.targets
    parts = {name: Part(x, targets(y)) for name, (x, y) in parts.items()}
    return model, parts, result


def _commit():
    """The commit that runs, with `-dirty` if it was changed."""
    command = "git describe --always --dirty --tags"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True)
    return done.stdout.decode().strip() or None


def _train_epoch(model, parts, plan, epoch):
    """Trains and evaluates; returns the numbers of the epoch by name."""
    began = time.monotonic()
    recipe = plan.recipe
    rate = plan.rate * recipe.decay(epoch)
    model.optimizer.learning_rate = rate
    model.optimizer.counts.zeroed.assign(0)
    order = epoch_order(len(parts["train"].y), plan.seed, epoch)
    whole = len(order) // recipe.batch * recipe.batch
    batches = Batches(parts["train"], order[:whole], recipe.batch)
    bar = int(sys.stdout.isatty())
    history = model.fit(batches, shuffle=False, verbose=bar).history
    trained = time.monotonic()
    logs = {"train": {name: values[-1] for name, values in history.items()}}
    for name in ("validation", "test"):
        order = np.arange(len(parts[name].y))
        batches = Batches(parts[name], order, EVALUATION_BATCH)
        logs[name] = model.evaluate(batches, verbose=0, return_dict=True)
    numbers = {"learning_rate": rate}
    for name, values in logs.items():
        loss = measurements.finite(values["loss"])
        numbers[f"{name}_loss"] = loss
        if "categorical_accuracy" in values:
            error = round(100 * (1 - values["categorical_accuracy"]), 4)
            # The largest of ten NaN would count as some class.
            numbers[f"{name}_error"] = None if loss is None else error
    numbers["train_seconds"] = round(trained - began, 2)
    numbers["seconds"] = round(time.monotonic() - began, 2)
    numbers["zeroed_gradients"] = int(model.optimizer.counts.zeroed.numpy())
    return {**numbers, **measurements.scales(model)}


def _record(result, numbers, model, parts, measure):
    """Adds an epoch to the result."""
    for name, value in numbers.items():
        # A quantity that is new has no value in earlier epochs.
        missing = [None] * result["epochs_done"]
        result["history"].setdefault(name, missing).append(value)
    result["epochs_done"] += 1
    result["selected"] = best = results.select(result["history"], measure)
    if measure == "error" and best and best["epoch"] == result["epochs_done"]:
        result["hits"] = measurements.hits(
            model, parts["test"], EVALUATION_BATCH
        )
    gradient = measurements.recurrent_gradient(model, parts["validation"])
    if gradient is not None:
        result["recurrent_gradient"] = measurements.histogram(gradient)
        result["rows"] = measurements.rows(model, parts["train"])


def _show(numbers, part, measure):
    value = numbers.get(f"{part}_{measure}")
    if value is None:
        return f"{part} diverged"
    return f"{part} {value:.3f}{'%' if measure == 'error' else ' nats'}"


def parse(arguments=None) -> argparse.Namespace:
    """The options, with the runs that they ask for as `plans`."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("what", choices=[*RECIPES, "queue"])
    add("--groups", nargs="+", choices=GROUPS, default=list(GROUPS),
        help="for the queue; default: all, in this order")  # fmt: skip
    add("--scheme", nargs="+", choices=ALL_SCHEMES, default=list(SCHEMES),
        help="default: the first seven")  # fmt: skip
    add("--seed", nargs="+", type=_positive, default=[1])
    add("--epochs", type=_positive, help="default: as in the paper")
    for name, text in (
        ("width", "units of a hidden layer, or filters of the first"),
        ("cells", "cells of the LSTM"),
        ("steps", "time steps of the LSTM"),
    ):
        add(f"--{name}", type=_positive, help=f"{text}; default: the paper's")
    add("--rate", type=float, help="first learning rate; default: the paper's")
    add("--follow", choices=("paper", "code"), default="paper",
        help="which one decides where the paper and its authors' code differ; "
        "default: paper")  # fmt: skip
    add("--data-dir", help="default: KERAS_LAB_DATA, or datasets in ~/.keras")
    add("--results-dir", type=Path, default=ROOT / "results" / "paper",
        help="default: results/paper")  # fmt: skip
    add("--no-jit", action="store_true", help="train without XLA")
    options = parser.parse_args(arguments)
    try:
        options.plans = [] if options.what == "queue" else _plans(options)
    except ValueError as error:
        parser.error(str(error))
    return options


def _positive(text):
    if text.isdecimal() and 1 <= int(text) < 2**32:
        return int(text)
    raise argparse.ArgumentTypeError(
        f"must be an integer from 1 to {2**32 - 1}. Received: {text}"
    )


def _plans(options):
    recipe = RECIPES[options.what].following(options.follow)
    sizes = {n: getattr(options, n) for n in ("width", "cells", "steps")}
    sizes = {name: size for name, size in sizes.items() if size}
    return [
        Plan(recipe, scheme, seed, sizes, options.epochs, options.rate)
        for seed in options.seed
        for scheme in options.scheme
    ]


def run_all(options) -> int:
    """Does the runs that the options ask for; returns how many failed.

    After each run it starts over, because what comes next may depend on it. It
    waits for runs that another process does.
    """
    failed = set()
    while True:
        plans, done, busy = options.plans, False, False
        if options.what == "queue":
            plans = queue(options.results_dir, options.groups)
        for plan in plans:
            # Without its data, no run of an experiment can start.
            if failed & {plan.recipe.name, str(plan)}:
                continue
            try:
                jit_compile = not options.no_jit
                run(plan, options.data_dir, options.results_dir, jit_compile)
            except Finished:
                continue
            except filelock.Timeout:
                busy = True
            except (DataError, RunError, OSError) as error:
                log_line(f"train.py: error: {error}")
                missing = isinstance(error, DataError)
                failed.add(plan.recipe.name if missing else str(plan))
            else:
                keras.utils.clear_session()
                done = True
                break
        if not done and not busy:
            log_line(f"train.py: nothing is left to do, {len(failed)} failed")
            return len(failed)
        if not done:
            time.sleep(WAIT)


def main(arguments=None) -> int:
    """Runs the command line and returns the exit code."""
    options = parse(arguments)
    keras_lab.config.keep_memory()
    try:
        return 1 if run_all(options) else 0
    except RunError as error:  # In a result that the queue depends on.
        log_line(f"train.py: error: {error}")
        return 1
    except KeyboardInterrupt:
        log_line("\nInterrupted. The same command continues the run.")
        return 130


if __name__ == "__main__":
    sys.exit(main())
