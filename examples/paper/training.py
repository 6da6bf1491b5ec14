"""One run: a network, a scheme and a seed, epoch by epoch, resumable.

All that is random comes from the seed (the weights) or from the seed and the
epoch's number (the order of the examples), and each epoch ends with a
checkpoint. So a run that was interrupted goes on as if it had not been.
"""

import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np

import keras_lab
from examples.paper import checkpoints
from examples.paper.data import Part
from examples.paper.gradients import recurrent_gradient
from examples.paper.plans import Plan
from examples.paper.recipes import PARTS
from examples.paper.schemes import SCHEMES
from examples.paper.selection import select
from examples.records import environment
from keras_lab.analysis.names import named_parts
from keras_lab.binary_weight import weights_of

EVALUATION_BATCH = 500


class Batches(keras.utils.PyDataset):
    """The examples in a given order.

    With two workers Keras does without the autotuning of `tf.data`. That has a
    thread that sleeps, for up to a minute, and the end of an epoch often waits
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
        folder: Of all results; this one is `<experiment>/<scheme>-<seed>.json`.
        jit_compile: Whether XLA compiles the step.
        log: Called with a line of progress now and then.
    """
    path = plan.path(folder)
    with checkpoints.kept(path):
        return _run(plan, data_folder, path, jit_compile, log)


def previous(plan: Plan, path: Path) -> dict | None:
    """The result that a run goes on from, as `checkpoints.previous`."""
    return checkpoints.previous(path, plan.configuration(), plan.all_epochs)


def _run(plan, data_folder, path, jit_compile, log):
    recipe = plan.recipe.following(plan.follow)
    scheme = SCHEMES[plan.scheme]
    epochs = plan.all_epochs
    result = previous(plan, path)

    data = recipe.load(data_folder, **plan.sizes)
    keras.utils.set_random_seed(plan.seed)
    model = recipe.build(
        scheme, data.classes, plan.follow, jit_compile, **plan.sizes
    )
    model.optimizer.build(model.trainable_variables)
    described = {
        **{name: len(getattr(data, name).y) for name in PARTS},
        "files": data.files,
    }
    if result is None:
        result = {
            **plan.configuration(),
            "parameters": model.count_params(),
            "data": described,
            "epochs_planned": epochs,
            "epochs_done": 0,
            "history": {},
            "sessions": [],
        }
    elif result["data"] != described:
        raise checkpoints.RunError(
            f"{path} was made with other data: "
            + _differences(result["data"], described)
            + ". Name the folder that it was made with by --data-dir, or "
            "another one for this run by --results-dir."
        )
    else:
        checkpoints.restore(path, model)
    result["epochs_planned"] = epochs
    result["departures"] = list(data.departures)
    if plan.note:
        result["note"] = plan.note
    result["sessions"].append(
        {
            "first_epoch": result["epochs_done"] + 1,
            "commit": _commit(),
            "jit_compile": jit_compile,
            **environment(),
            "keras_lab": keras_lab.__version__,
        }
    )
    first = result["epochs_done"] + 1
    log(_first_line(plan, data, first, epochs))

    parts = {
        name: Part(part.x, recipe.task.targets(part.y))
        for name in PARTS
        for part in [getattr(data, name)]
    }
    began = time.monotonic()
    for epoch in range(first, epochs + 1):
        rate = recipe.learning_rate(scheme, epoch)
        record = _train_epoch(model, parts, plan.seed, epoch, rate, recipe)
        record.update(_scales(model))
        for name, value in record.items():
            # What a run began without has no value in its first epochs.
            values = result["history"].setdefault(name, [None] * (epoch - 1))
            values.append(value)
        result["epochs_done"] = epoch
        result["selected"] = select(result["history"], recipe.task.measure)
        result["alpha"] = {
            weight.alpha.path: weight.alpha.numpy().tolist()
            for weight in weights_of(model.variables)
        }
        gradient = recurrent_gradient(model, parts["validation"])
        if gradient:
            result["recurrent_gradient"] = gradient
        checkpoints.save(path, model, result)
        elapsed = time.monotonic() - began
        left = elapsed / (epoch - first + 1) * (epochs - epoch)
        log(_progress_line(plan, recipe, record, epoch, epochs, left))
    log(_last_line(plan, recipe, result, path))
    return result


def _train_epoch(model, parts, seed, epoch, rate, recipe):
    """Trains and evaluates; returns the numbers of the epoch by name."""
    began = time.monotonic()
    model.optimizer.learning_rate = rate
    order = epoch_order(len(parts["train"].y), seed, epoch)
    whole = len(order) // recipe.batch * recipe.batch
    batches = Batches(parts["train"], order[:whole], recipe.batch)
    history = model.fit(
        batches, shuffle=False, verbose=0, callbacks=[StepsLeft(epoch)]
    ).history
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
        loss = record[f"{name}_loss"] = _finite(values["loss"])
        if "categorical_accuracy" in values:
            error = round(100 * (1 - values["categorical_accuracy"]), 4)
            # What is NaN counts as some class or other.
            record[f"{name}_error"] = None if loss is None else error
    record["train_seconds"] = round(trained - began, 2)
    record["seconds"] = round(time.monotonic() - began, 2)
    return record


def _scales(model):
    """The mean α of each binary weight, by its name in the logs."""
    return {
        part.quantity("alpha"): _finite(part.select_alpha(alpha).mean())
        for part in named_parts(model)
        for alpha in [part.weight.alpha.numpy()]
    }


class StepsLeft(keras.callbacks.Callback):
    """In a terminal, a line that says how far an epoch is."""

    def __init__(self, epoch: int):
        super().__init__()
        self.epoch = epoch
        self.shown = self.began = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        now = time.monotonic()
        if now - self.shown > 1 and sys.stderr.isatty():
            self.shown = now
            done, steps = batch + 1, self.params["steps"]
            left = duration((now - self.began) * (steps / done - 1))
            line = f"epoch {self.epoch}: step {done}/{steps}, {left} left"
            print(f"\r{line}\x1b[K\r", end="", file=sys.stderr, flush=True)


def _finite(value):
    """JSON knows neither NaN nor infinity: they are null."""
    return float(value) if math.isfinite(value) else None


def _differences(before, now):
    """What of two descriptions is not the same."""
    flat = [{**d, **d["files"], "files": None} for d in (before, now)]
    return ", ".join(
        f"{name} was {flat[0].get(name)} and is {flat[1].get(name)}"
        for name in sorted({*flat[0], *flat[1]})
        if flat[0].get(name) != flat[1].get(name)
    )


def _first_line(plan, data, first, epochs):
    sizes = ", ".join(f"{len(getattr(data, p).y):,} {p}" for p in PARTS)
    departures = "".join(f"; {text}" for text in data.departures)
    length = f"epochs: {epochs}"
    if first > 1:
        length = f"goes on at epoch {first} of {epochs}"
    return f"{plan}   {length}   examples: {sizes}{departures}"


def _progress_line(plan, recipe, record, epoch, epochs, left):
    numbers = "   ".join(
        f"{part} {_show(record[f'{part}_{recipe.task.measure}'], recipe)}"
        for part in PARTS
    )
    return (
        f"{plan}   epoch {epoch}/{epochs}   {numbers}   "
        f"{record['seconds']:.0f} s   {duration(left)} left"
    )


def _last_line(plan, recipe, result, path):
    chosen = result["selected"]
    if chosen is None:
        return f"{plan}   diverged   {path}"
    test = _show(chosen[f"test_{recipe.task.measure}"], recipe)
    return (
        f"{plan}   test {test} at epoch {chosen['epoch']}, the best on the "
        f"validation part   {path}"
    )


def _show(value, recipe):
    """A value of the recipe's measure, for people to read."""
    if value is None:
        return "diverged"
    return f"{value:.3f}{'%' if recipe.task.measure == 'error' else ' nats'}"


def duration(seconds: float) -> str:
    """A time for people to read."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes / 60:.1f} h"


def _commit():
    """The commit that runs, `-dirty` if it was changed; `None` if unknown."""
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--dirty", "--tags"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
