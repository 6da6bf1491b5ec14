"""The two files of a run, and how a run continues from them.

The result is a JSON file for people and for `report.py`. The checkpoint beside
it holds every variable of the model and its optimizer, and the same result, so
that the two cannot disagree. Each is written as a whole or not at all.
"""

# `keras.callbacks.BackupAndRestore` is not used: it belongs to one call of
# `fit`, deletes its backup at the end, so that a finished run cannot be made
# longer, and stores the weights apart from the numbers that belong to them.

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import filelock
import keras
import numpy as np

from examples.environment import write_json
from keras_lab.files import replacing


class RunError(Exception):
    """A run cannot start, because of the files that are there."""


class Finished(RunError):
    """The result of a run is there already."""


@contextlib.contextmanager
def kept(path: Path) -> Iterator[None]:
    """Keeps other processes away from a result.

    Raises RunError if another process works on it, or if it cannot be written.
    """
    lock = filelock.FileLock(path.with_name(f".{path.name}.lock"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except filelock.Timeout:
        raise RunError(
            f"Another process works on {path}. Wait for it, or stop it."
        ) from None
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error}") from error
    try:
        yield
    finally:
        lock.release()


def previous(path: Path, configuration: dict, epochs: int) -> dict | None:
    """The result that a run continues, or `None` if there is none.

    Args:
        path: The path of the result.
        configuration: What the result must have been made with.
        epochs: The number of epochs at the end of the run.

    Raises:
        Finished: If the epochs are done.
        RunError: If the result cannot be continued.
    """
    checkpoint = _checkpoint(path)
    elsewhere = "For another run choose another --seed or --results-dir"

    def check(result):
        for name, value in configuration.items():
            if result.get(name) != value:
                raise RunError(
                    f"{path} was made with {name}={result.get(name)!r}, not "
                    f"{value!r}. {elsewhere}, or delete {path.name} and "
                    f"{checkpoint.name} to start again."
                )

    def check_unfinished(result):
        if result["epochs_done"] >= epochs:
            raise Finished(
                f"{path} is finished and is not overwritten (epochs done: "
                f"{result['epochs_done']}, asked for: {epochs}). {elsewhere}."
            )

    written = None
    if path.exists():
        written = _read_result(path)
        check(written)
        check_unfinished(written)
    if not checkpoint.exists():
        if written is None:
            return None
        raise RunError(
            f"{path} has {written['epochs_done']} of {epochs} epochs, and it "
            f"cannot be continued without {checkpoint.name}. {elsewhere}, or "
            f"delete {path.name} to start again."
        )
    with _opened(checkpoint) as arrays:
        saved = json.loads(arrays["result"].item())
    if written is None or written["epochs_done"] < saved["epochs_done"]:
        # The last session ended after it wrote the first of the two files.
        check(saved)
        _write_result(path, saved)
        check_unfinished(saved)
        return saved
    if written.get("history") != saved["history"]:
        raise RunError(
            f"{path} and {checkpoint.name} belong to different runs and cannot "
            f"be continued. {elsewhere}, or delete both to start again."
        )
    return {**saved, **written}


def save(path: Path, model: keras.Model, result: dict) -> None:
    """Writes the checkpoint, then the result.

    Raises RunError if they cannot be written.
    """
    checkpoint = _checkpoint(path)
    arrays = {str(n): v.numpy() for n, v in enumerate(_variables(model))}
    with _writing(checkpoint):
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        with replacing(checkpoint) as partial, open(partial, "wb") as file:
            np.savez(file, result=json.dumps(result), **arrays)
            file.flush()
            os.fsync(file.fileno())
    _write_result(path, result)


def restore(path: Path, model: keras.Model) -> None:
    """Gives a model and its optimizer the variables of the checkpoint."""
    checkpoint = _checkpoint(path)
    with _opened(checkpoint) as file:
        arrays = {name: file[name] for name in file.files if name != "result"}
    variables = _variables(model)
    if len(arrays) != len(variables):
        raise RunError(
            f"{checkpoint} holds {len(arrays)} variables, and this network and "
            f"its optimizer have {len(variables)}."
        )
    for number, variable in enumerate(variables):
        array = arrays[str(number)]
        if array.shape != tuple(variable.shape):
            raise RunError(
                f"{checkpoint} holds {variable.path} with the shape "
                f"{array.shape}, not {tuple(variable.shape)}."
            )
        variable.assign(array)


def _checkpoint(path):
    return path.with_suffix(".checkpoint.npz")


def _variables(model):
    return [*model.variables, *model.optimizer.variables]


def _write_result(path, result):
    with _writing(path):
        write_json(path, result)


@contextlib.contextmanager
def _writing(path):
    try:
        yield
    except OSError as error:
        raise RunError(
            f"{path} cannot be written: {error}. The same command continues "
            "from the last epoch that was saved."
        ) from error


def _read_result(path):
    try:
        result = json.loads(path.read_text())
        if type(result["epochs_done"]) is not int:
            raise TypeError(f"epochs_done is {result['epochs_done']!r}")
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise RunError(
            f"{path} is not a result ({type(error).__name__}: {error}). Delete "
            "it: the run then continues from its checkpoint, or starts again "
            "if there is none."
        ) from error
    return result


@contextlib.contextmanager
def _opened(checkpoint):
    try:
        with np.load(checkpoint) as arrays:
            yield arrays
    except (OSError, MemoryError) as error:
        raise RunError(f"{checkpoint} cannot be read: {error}") from error
    except Exception as error:  # A damaged archive can raise anything.
        raise RunError(
            f"{checkpoint} cannot be read ({type(error).__name__}: {error}). "
            "Delete it and the result to start again."
        ) from error
