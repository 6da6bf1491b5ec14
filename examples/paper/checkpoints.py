"""The two files of a run, and how it goes on from them.

The result is a JSON file for people and for `report.py`. The checkpoint beside
it holds every variable of the model and its optimizer, and the same result, so
that the two cannot disagree. Each is written as a whole or not at all.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np

from examples.locks import InUse, locked
from examples.records import write_json
from keras_lab.files import replacing


class RunError(Exception):
    """A run cannot start: what is there does not fit."""


class Finished(RunError):
    """The result of a run is there."""


@contextlib.contextmanager
def kept(path: Path) -> Iterator[None]:
    """Keeps a result to this process as long as the context lasts.

    Raises:
        RunError: If another process has it, or if it cannot be written.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(path))
        except InUse as error:
            raise RunError(f"{error} Wait for it.") from None
        except OSError as error:
            raise RunError(f"{path} cannot be written: {error}") from error
        yield


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
    anew = f"delete {path.name} and {checkpoint.name} to start anew"
    elsewhere = f"For another run name another --seed or {option}"

    def check(result):
        for name, value in configuration.items():
            if result.get(name) != value:
                raise RunError(
                    f"{path} was made with {name}={result.get(name)!r}, not "
                    f"{value!r}. For another run name another {option}, or "
                    f"{anew}."
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
            f"{path} has {written['epochs_done']} of {epochs} epochs, but its "
            f"checkpoint {checkpoint.name} is not there: it cannot be "
            f"continued. {elsewhere}, or delete {path.name} to start anew."
        )
    saved = _read_checkpoint(checkpoint)
    if written is None or written["epochs_done"] < saved["epochs_done"]:
        # The last session ended between the two files.
        check(saved)
        _write_result(path, saved)
        check_unfinished(saved)
        return saved
    if written.get("history") != saved["history"]:
        raise RunError(
            f"{path} and {checkpoint.name} are not of the same run: it cannot "
            f"be continued. {elsewhere}, or {anew}."
        )
    return {**saved, **written}


def save(path: Path, model: keras.Model, result: dict) -> None:
    """Writes the checkpoint and the result.

    Raises:
        RunError: If they cannot be written.
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
        array = arrays[str(number)]
        if array.shape != tuple(variable.shape):
            raise RunError(
                f"{checkpoint} holds {variable.path} with the shape "
                f"{array.shape}, not {tuple(variable.shape)}."
            )
        variable.assign(array)


def _checkpoint(path):
    return path.with_suffix(".checkpoint.npz")


def _write_result(path, result):
    with _writing(path):
        write_json(path, result)


@contextlib.contextmanager
def _writing(path):
    try:
        yield
    except OSError as error:
        raise RunError(
            f"{path} cannot be written: {error}. The same command goes on from "
            "the last epoch that was kept, if there is one."
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
            f"{path} is not a result ({type(error).__name__}: {error}). "
            "Delete it: the run then goes on from its checkpoint, or starts "
            "anew where there is none."
        ) from error
    return result


def _read_checkpoint(checkpoint):
    """The result that a checkpoint holds."""
    with _opened(checkpoint) as arrays:
        return json.loads(arrays["result"].item())


def _read_arrays(checkpoint):
    """All arrays of a checkpoint by name."""
    with _opened(checkpoint) as arrays:
        return {name: arrays[name] for name in arrays.files}


@contextlib.contextmanager
def _opened(checkpoint):
    try:
        with np.load(checkpoint) as arrays:
            yield arrays
    except (OSError, MemoryError) as error:
        raise RunError(f"{checkpoint} cannot be read: {error}") from error
    except Exception as error:  # A broken archive can raise anything.
        raise RunError(
            f"{checkpoint} cannot be read ({type(error).__name__}: {error}). "
            "Delete it and the result to start anew."
        ) from error


def _variables(model):
    return [*model.variables, *model.optimizer.variables]
