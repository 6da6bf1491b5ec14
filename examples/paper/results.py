"""The results of runs: written by `train.py`, and read again.

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

from examples.environment import write_json
from examples.paper.recipes import RATES, RECIPES, WHY, Plan
from examples.paper.schemes import ALL_SCHEMES
from keras_lab.files import replacing

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


# Results that are read again.


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

    @property
    def full_protocol(self) -> bool:
        """Whether it has the data and the epochs of its recipe."""
        wanted = self.recipe.examples or {}
        return (
            all(self.data[part] == count for part, count in wanted.items())
            and not self.content.get("departures")
            and self.epochs_done >= self.recipe.epochs
        )


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


def by_seed(runs: list[Run], experiment: str, scheme: str) -> dict[int, Run]:
    """The runs of an experiment and a scheme, by seed."""
    wanted = (experiment, scheme)
    return {r.seed: r for r in runs if (r.experiment, r.scheme) == wanted}


def tuned(runs: list[Run], scheme: str) -> dict[int, Run]:
    """The finished runs of `WHY` at the best learning rate, by seed.

    The best rate has the lowest validation loss with seed 1. Before all `RATES`
    have that run there is none.
    """
    lowest, best = math.inf, {}
    for rate in RATES:
        experiment = Plan(RECIPES[WHY], scheme, rate=rate).experiment
        found = {
            seed: run
            for seed, run in by_seed(runs, experiment, scheme).items()
            if run.epochs_done >= run.recipe.epochs
        }
        if 1 not in found:
            return {}
        selected = found[1].selected() or {"validation_loss": math.inf}
        if not best or selected["validation_loss"] < lowest:
            lowest, best = selected["validation_loss"], found
    return best


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
