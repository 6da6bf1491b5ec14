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

from examples.records import write_json


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

    Args:
        path: Of the result.
        configuration: What the result must have been made with.
        epochs: How many are wanted.
        option: By which the program names the folder of results.

    Raises:
        Finished: If they are done.
        RunError: If the result cannot be continued.
    """
    checkpoint = _checkpoint(path)
    if checkpoint.is_file():
        result = _read_checkpoint(checkpoint)
    elif path.is_file():
        result = json.loads(path.read_text())
    else:
        return None
    for name, value in configuration.items():
        if result.get(name) != value:
            raise RunError(
                f"{path} was made with {name}={result.get(name)!r}, not "
                f"{value!r}. Delete it and its checkpoint to start anew, or "
                f"name another {option}."
            )
    done = result["epochs_done"]
    if checkpoint.is_file():
        # The last session may have ended between the two files.
        write_json(path, result)
    if done >= epochs:
        raise Finished(
            f"{path} is finished and is not overwritten: {done} epochs are "
            f"done, {epochs} were asked for."
        )
    if not checkpoint.is_file():
        raise RunError(
            f"{path} has {done} of {epochs} epochs, but its checkpoint "
            f"{checkpoint.name} is not there: it cannot be continued. Delete "
            "it to start anew."
        )
    return result


def save(path: Path, model: keras.Model, result: dict) -> None:
    """Writes the checkpoint and the result."""
    checkpoint = _checkpoint(path)
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    arrays = {str(n): v.numpy() for n, v in enumerate(_variables(model))}
    partial = checkpoint.with_name(checkpoint.name + ".part")
    with open(partial, "wb") as file:
        np.savez(file, result=json.dumps(result), **arrays)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(checkpoint)
    write_json(path, result)


def restore(path: Path, model: keras.Model) -> None:
    """Gives a model and its optimizer the checkpoint's variables."""
    variables = _variables(model)
    with np.load(_checkpoint(path)) as arrays:
        if len(arrays.files) != len(variables) + 1:
            raise RunError(
                f"{_checkpoint(path)} holds {len(arrays.files) - 1} variables, "
                f"not the {len(variables)} of this network and its optimizer."
            )
        for number, variable in enumerate(variables):
            variable.assign(arrays[str(number)])


def _checkpoint(path):
    return path.with_suffix(".checkpoint.npz")


def _read_checkpoint(checkpoint):
    try:
        with np.load(checkpoint) as arrays:
            return json.loads(arrays["result"].item())
    except Exception as error:  # A broken archive can raise anything.
        raise RunError(
            f"{checkpoint} cannot be read ({type(error).__name__}: {error}). "
            "Delete it and the result to start anew."
        ) from error


def _variables(model):
    return [*model.variables, *model.optimizer.variables]
