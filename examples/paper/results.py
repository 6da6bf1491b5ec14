"""The result of a run: its two files, and what it measures.

The result is a JSON file for people and for `report.py`. The checkpoint beside
it holds every variable of the model and its optimizer, and the same result, so
that the two cannot disagree. Each is written as a whole or not at all.
"""

# `keras.callbacks.BackupAndRestore` deletes its backup at the end, so that a
# finished run cannot be made longer, and stores weights without the numbers.

import base64
import contextlib
import json
import math
import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import keras_lab
from examples.environment import write_json
from examples.paper.data import Part
from examples.paper.recipes import RATES, RECIPES, WHY, Plan, Recipe
from examples.paper.schemes import ALL_SCHEMES
from keras_lab.files import replacing

# The bins of log10 |g|: four per order of magnitude, over all orders that
# float32 has. Gradients that explode use them all.
LOWEST, HIGHEST, BINS = -45, 39, 336
EXAMPLES = 100
START_AGAIN = (
    "Delete the result and its checkpoint to start again, or choose another "
    "--results-dir."
)


class RunError(Exception):
    """A run cannot start or go on, because of its files."""


class Finished(RunError):
    """The result of a run is there already."""


def previous(path: Path, plan: Plan) -> dict | None:
    """The result that a run continues, or `None` if there is none.

    Raises Finished if it has as many epochs already, and RunError if it has
    another configuration or cannot be continued.
    """
    checkpoint, found = _checkpoint(path), []
    if path.exists():
        with _reading(path):
            found.append(json.loads(path.read_text()))
    if checkpoint.exists():
        with _reading(checkpoint), np.load(checkpoint) as arrays:
            found.append(json.loads(arrays["result"].item()))
    if not found:
        return None
    result = max(found, key=lambda content: content["epochs_done"])
    if other := _other_setting(result, plan):
        raise RunError(f"{path} was made with {other}. {START_AGAIN}")
    if result != found[0] or not path.exists():
        # The last session ended after it wrote the first of the two files.
        write_json(path, result)
    if result["epochs_done"] >= plan.epochs:
        raise Finished(
            f"{path} is finished and is not overwritten (epochs done: "
            f"{result['epochs_done']}, asked for: {plan.epochs})."
        )
    if not checkpoint.exists():
        raise RunError(
            f"{path} has {result['epochs_done']} of {plan.epochs} epochs, and "
            f"it cannot be continued without {checkpoint.name}. {START_AGAIN}"
        )
    if result["history"] != found[-1]["history"]:
        raise RunError(
            f"{path} and {checkpoint.name} belong to different runs. "
            f"{START_AGAIN}"
        )
    return result


def _other_setting(result, plan):
    """A setting in which a result differs from a plan, in words; or `None`."""
    for name, value in plan.configuration().items():
        if result.get(name) != value:
            return f"{name}={result.get(name)!r}, not {value!r}"
    return None


def save(path: Path, model: keras.Model, result: dict) -> None:
    """Writes the checkpoint, then the result."""
    arrays = {str(n): v.numpy() for n, v in enumerate(_variables(model))}
    with replacing(_checkpoint(path)) as partial, open(partial, "wb") as file:
        np.savez(file, result=json.dumps(result), **arrays)
        file.flush()
        os.fsync(file.fileno())
    write_json(path, result)


def restore(path: Path, model: keras.Model) -> None:
    """Gives a model and its optimizer the variables of the checkpoint."""
    with _reading(_checkpoint(path)) as checkpoint, np.load(checkpoint) as file:
        arrays = [file[str(n)] for n in range(len(file.files) - 1)]
        for variable, array in zip(_variables(model), arrays, strict=True):
            variable.assign(array)


def _checkpoint(path):
    return path.with_suffix(".checkpoint.npz")


def _variables(model):
    return [*model.variables, *model.optimizer.variables]


@contextlib.contextmanager
def _reading(path):
    try:
        yield path
    except Exception as error:  # A damaged file can raise anything.
        raise RunError(
            f"{path} cannot be read ({type(error).__name__}: {error}). "
            f"{START_AGAIN}"
        ) from error


# Measurements.


def finite(value: float) -> float | None:
    """The number, or `None`: JSON has neither NaN nor infinity."""
    return float(value) if math.isfinite(value) else None


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


def scales(model: keras.Model) -> dict[str, float | None]:
    """The α of each binary weight, or of each gate, and α / mean|w|, by name.

    The names of α are those of `keras_lab.callbacks.BinaryMonitor`, such as
    `dense_1/alpha` and `lstm/recurrent_alpha_i`; the ratio is `dense_1/ratio`.
    If there is one α per channel, it is their mean.
    """
    found = {}
    for path, weight in keras_lab.binary_weights(model).items():
        name = path.removesuffix(weight.latent.name) + weight.alpha.name
        size = np.abs(weight.latent.numpy()).reshape(weight.shape)
        gates, axes = [""], None
        if len(weight.shape) == 3:
            gates, axes = ["_i", "_f", "_c", "_o"], (0, 2)
        alphas = weight.alpha.numpy().reshape(len(gates), -1).mean(axis=1)
        ratios = alphas / size.mean(axes, dtype=np.float64)
        for gate, alpha, ratio in zip(gates, alphas, ratios):
            found[name + gate] = finite(alpha)
            found[name.replace("alpha", "ratio") + gate] = finite(ratio)
    return found


def rows(model: keras.Model, part: Part) -> dict[str, list] | None:
    """How large the weights of each byte are, and their curvature.

    For each row of the input kernel: how often the byte occurs in `part`, and
    the means of |w| and of d, up to a factor. `None` if there is no LSTM.
    """
    weight = keras_lab.binary_weights(model).get("lstm/kernel")
    if weight is None:
        return None
    curvature = model.optimizer.curvature(weight.latent, learning_rate=1)

    def means(values):
        values = np.abs(values.numpy()).mean(axis=1)
        return [float(f"{value:.6g}") for value in values]

    count = np.bincount(part.x.ravel(), minlength=weight.shape[0])
    return {
        "count": count.tolist(),
        "weight": means(weight.latent),
        "curvature": means(curvature),
    }


def hits(model: keras.Model, part: Part, batch: int) -> str:
    """Whether each prediction is right: one bit per example, in base64."""
    right = model.predict(part.x, batch, verbose=0).argmax(axis=1)
    right = right == part.y.argmax(axis=1)
    return base64.b64encode(np.packbits(right)).decode()


def recurrent_gradient(model: keras.Model, part: Part) -> np.ndarray | None:
    """∂ℓ/∂ŵ of the hidden-to-hidden weights (Figure 2), as one vector.

    ℓ is the mean loss of the first hundred sequences of `part`. `None` for a
    network without recurrent weights.
    """
    weights = [
        weight.value
        for weight in model.trainable_variables
        if weight.name == "recurrent_kernel"
    ]
    if not weights:
        return None
    x, y = part.x[:EXAMPLES], part.y[:EXAMPLES]
    with tf.GradientTape() as tape:
        loss = model.compute_loss(x, y, model(x, training=True))
    gradients = tape.gradient(loss, weights)
    return np.concatenate([np.ravel(gradient) for gradient in gradients])


def histogram(gradient: np.ndarray) -> dict:
    """The number of entries in each bin of log10|g|, and outside the bins."""
    size = np.abs(gradient[np.isfinite(gradient)]).astype(np.float64)
    with np.errstate(divide="ignore"):
        magnitude = np.log10(size)
    counts, _ = np.histogram(magnitude, BINS, (LOWEST, HIGHEST))
    return {
        "log10_range": [LOWEST, HIGHEST],
        "counts": counts.tolist(),
        "below": int((magnitude < LOWEST).sum()),
        "above": int((magnitude > HIGHEST).sum()),
        "not_finite": int((~np.isfinite(gradient)).sum()),
        "rms": float(np.sqrt(np.mean(size**2))) if size.size else None,
    }


# Results that are read again.


def format_size(name: str, size: int) -> str:
    """A size in words: "128 cells"."""
    words = {"cells": "{} cells", "steps": "{} time steps"}
    return words.get(name, name + " {}").format(size)


class Run:
    """A result of `train.py`, finished or not; `content` is the file's.

    What the content has is an attribute, too: `run.seed`.
    """

    def __init__(self, content: Mapping):
        self.content = content
        self.recipe = RECIPES[content["recipe"]].following(content["follow"])
        self.measure = self.recipe.task.measure
        self.title = ALL_SCHEMES[content["scheme"]].title

    def __getattr__(self, name):
        return self.content[name]

    def selected(self, epochs: int | None = None) -> dict | None:
        """The best epoch on the validation part, among the first `epochs`."""
        history = {name: v[:epochs] for name, v in self.history.items()}
        return select(history, self.measure)

    def score(self, epochs: int | None = None) -> float | None:
        """The test measure there; `None` if the run diverged."""
        best = self.selected(epochs)
        return best and best[f"test_{self.measure}"]

    def right(self) -> np.ndarray:
        """Whether each test example was right, at the best epoch."""
        bits = np.frombuffer(base64.b64decode(self.hits), np.uint8)
        return np.unpackbits(bits, count=self.data["test"]).astype(bool)

    def differences(self, paper: Recipe, sizes: Mapping, epochs: int) -> list:
        """How it differs from a run in the paper, if `epochs` of it count."""
        found = [
            f"{format_size(name, self.sizes[name])} instead of {size}"
            for name, size in {**paper.sizes, **sizes}.items()
            if self.sizes[name] != size
        ]
        for part, count in (paper.examples or {}).items():
            kind = "training" if part == "train" else part
            if self.data[part] != count:
                found.append(
                    f"{self.data[part]:,} {kind} images instead of {count:,}"
                )
        found += self.content.get("departures", [])
        if self.recipe.decay != paper.decay:
            found.append("the schedule compressed in proportion")
        if epochs < paper.epochs:
            found.append(f"{epochs} of the paper's {paper.epochs} epochs")
        return found


def load(folder: Path, name: str = "") -> list[Run]:
    """The results in a folder, of the experiments whose name starts so.

    Raises RunError if a file is not a result of today's recipes.
    """
    runs = []
    for path in folder.glob(f"{name}*/*.json"):
        try:
            run = Run(json.loads(path.read_text()))
            plan = Plan(
                run.recipe,
                run.scheme,
                run.seed,
                run.sizes,
                rate=run.learning_rate,
            )
            if other := _other_setting(run.content, plan):
                raise ValueError(f"it has {other}")
            if plan.path(folder) != path:
                raise ValueError(f"it is the result of {plan}")
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{path} is not a result of train.py: "
                f"{type(error).__name__}: {error}"
            ) from error
        runs.append(run)
    schemes = list(ALL_SCHEMES)
    return sorted(
        runs,
        key=lambda run: (run.experiment, schemes.index(run.scheme), run.seed),
    )


def tuned(runs: list[Run], scheme: str) -> dict[int, Run]:
    """The finished runs of `WHY` at the best learning rate, by seed.

    The best rate has the lowest validation loss with seed 1. Before all `RATES`
    have that run there is none.
    """
    found = [
        run
        for run in runs
        if (run.recipe.name, run.scheme) == (WHY, scheme)
        and run.sizes == run.recipe.sizes
        and run.epochs_done >= run.recipe.epochs
    ]
    losses = {}
    for run in found:
        if run.seed == 1:
            best = run.selected() or {"validation_loss": math.inf}
            losses[run.learning_rate] = best["validation_loss"]
    if not losses.keys() >= set(RATES):
        return {}
    rate = min(losses, key=losses.get)
    return {run.seed: run for run in found if run.learning_rate == rate}


def scale_ratios(runs: list[Run], scheme: str, seed: int) -> dict | None:
    """The ratios of a scheme with a `ratio_of`, for each latent weight.

    It is LAB's α / mean|w| for each gate: the mean over the epochs of the run
    with the same seed. `None` until that is there; empty for other schemes.
    """
    if not (source := ALL_SCHEMES[scheme].ratio_of):
        return {}
    run = tuned(runs, source).get(seed)
    return run and {
        f"{kind}kernel": [
            statistics.fmean(run.history[f"lstm/{kind}ratio_{gate}"])
            for gate in "ifco"
        ]
        for kind in ("", "recurrent_")
    }
