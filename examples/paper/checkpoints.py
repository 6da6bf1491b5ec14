"""The two files of a run, and how it goes on from them.

The result is a JSON file for people and for `report.py`. The checkpoint beside
it holds every variable of the model and its optimizer, and the same result, so
that the two cannot disagree. Each is written as a whole or not at all.
"""

import json
import os
from pathlib import Path

import keras
import numpy as np

from examples.locks import InUse, lock
from examples.records import write_json
from keras_lab.files import replacing


class RunError(Exception):
    """A run cannot start: what is there does not fit."""


class Finished(RunError):
    """The result of a run is there."""


def previous(
    path: Path,
    configuration: dict,
    epochs: int,
    option: str = "--results-dir",
) -> dict | None:
    """The result to go on from, or `None` if there is nothing yet.

    From now on the result is this process's.

    Args:
        path: Of the result.
        configuration: What the result must have been made with.
        epochs: How many are wanted.
        option: By which the program names the folder of results.

    Raises:
        Finished: If they are done.
        RunError: If the result cannot be continued, or not be written.
    """
    try:
        lock(path)
    except InUse as error:
        raise RunError(str(error)) from None
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error}") from error
    checkpoint = _checkpoint(path)
    written = _read_result(path) if path.is_file() else None
    kept = _read_checkpoint(checkpoint) if checkpoint.is_file() else None
    # The last session may have ended between the two files.
    behind = kept and (
        written is None or written["epochs_done"] < kept["epochs_done"]
    )
    result = kept if behind else written
    if result is None:
        return None
    for name, value in configuration.items():
        if result.get(name) != value:
            raise RunError(
                f"{path} was made with {name}={result.get(name)!r}, not "
                f"{value!r}. Delete it and its checkpoint to start anew, or "
                f"name another {option}."
            )
    done = result["epochs_done"]
    if behind:
        write_json(path, result)
    if done >= epochs:
        raise Finished(
            f"{path} is finished and is not overwritten: {done} epochs are "
            f"done, {epochs} were asked for. For another run name another "
            f"--seed or {option}."
        )
    if kept is None or kept["epochs_done"] < done:
        why = "is not there" if kept is None else "is older"
        raise RunError(
            f"{path} has {done} of {epochs} epochs, but its checkpoint "
            f"{checkpoint.name} {why}: it cannot be continued. Delete it to "
            "start anew."
        )
    return result


def save(path: Path, model: keras.Model, result: dict) -> None:
    """Writes the checkpoint and the result."""
    checkpoint = _checkpoint(path)
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    arrays = {str(n): v.numpy() for n, v in enumerate(_variables(model))}
    with replacing(checkpoint) as partial, open(partial, "wb") as file:
        np.savez(file, result=json.dumps(result), **arrays)
        file.flush()
        os.fsync(file.fileno())
    write_json(path, result)


def restore(path: Path, model: keras.Model) -> None:
    """Gives a model and its optimizer the checkpoint's variables."""
    checkpoint = _checkpoint(path)
    arrays = _read_arrays(checkpoint)
    del arrays["result"]
    variables = _variables(model)
    if len(arrays) != len(variables):
        raise RunError(
            f"{checkpoint} holds {len(arrays)} variables, not the "
            f"{len(variables)} of this network and its optimizer."
        )
    for number, variable in enumerate(variables):
        variable.assign(arrays[str(number)])


def _checkpoint(path):
    return path.with_suffix(".checkpoint.npz")


def _read_result(path):
    try:
        result = json.loads(path.read_text())
        if not isinstance(result["epochs_done"], int):
            raise TypeError(f"epochs_done is {result['epochs_done']!r}")
    except (ValueError, TypeError, KeyError) as error:
        raise RunError(
            f"{path} is not a result ({type(error).__name__}: {error}). "
            "Delete it to start anew."
        ) from error
    return result


def _read_checkpoint(checkpoint):
    return json.loads(_read_arrays(checkpoint, ["result"])["result"].item())


def _read_arrays(checkpoint, names=None):
    """Arrays of a checkpoint by name; all of them, if no names are given."""
    try:
        with np.load(checkpoint) as arrays:
            return {name: arrays[name] for name in names or arrays.files}
    except Exception as error:  # A broken archive can raise anything.
        raise RunError(
            f"{checkpoint} cannot be read ({type(error).__name__}: {error}). "
            "Delete it and the result to start anew."
        ) from error


def _variables(model):
    return [*model.variables, *model.optimizer.variables]
