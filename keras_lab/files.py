"""Files that are written whole or not at all, and models that are loaded."""

import contextlib
import os
import re
import shutil
import uuid
import zipfile
import zlib
from pathlib import Path

import keras

__all__ = [
    "check_target",
    "load_model",
    "replacing",
    "target_problem",
]

FIGURE_SUFFIXES = (".png", ".pdf", ".svg")


@contextlib.contextmanager
def replacing(path):
    """Yields a path to write to; at the end that file replaces `path`.

    If the body raises an error, the old file stays. A link stays a link, and a
    file keeps its permissions.

    Args:
        path: The path of the file to write or replace.

    Example:

    >>> with keras_lab.files.replacing("model.json") as partial:
    ...     partial.write_text(text)
    """
    path = Path(os.path.realpath(path))
    # Not derived from the name, which may already have the greatest length.
    partial = path.with_name(f".{uuid.uuid4().hex}.partial")
    try:
        yield partial
        if path.exists():
            shutil.copymode(path, partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def check_target(argument: str, path, suffixes=()) -> Path:
    """Returns `path` as a `Path`. Raises ValueError if it cannot be written.

    Args:
        argument: The name of the argument, for the error message.
        path: The path.
        suffixes: The suffixes that it may have. Any suffix if empty.
    """
    path = _as_path(argument, path)
    problem = target_problem(path, suffixes)
    if problem:
        raise ValueError(
            f"`{argument}` {problem}. Received: {argument}='{path}'"
        )
    return path


def target_problem(path: Path, suffixes=()) -> str | None:
    """Returns why a file cannot be written at a path, or `None` if it can."""
    if suffixes and path.suffix.lower() not in suffixes:
        one_of = "one of " if len(suffixes) > 1 else ""
        return f"must end in {one_of}{', '.join(suffixes)}"
    try:
        # The file is written where a link points to.
        path = Path(os.path.realpath(path))
        if path.is_dir():
            return "is a directory"
        if path.exists() and not path.is_file():
            return "is not a regular file"
        if not path.parent.is_dir():
            return "is in a directory that does not exist"
        if not os.access(path.parent, os.W_OK):
            return "is in a directory without write access"
        if path.exists() and not os.access(path, os.W_OK):
            return "is a file without write access"
    except (OSError, ValueError) as error:
        # The name is too long, has a null character, ...
        return f"is not a valid path ({error})"
    return None


def _as_path(argument, path):
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            f"`{argument}` must be a path. Received: {argument}={path!r} of "
            f"type {type(path).__name__}"
        )
    return Path(path)


# What Keras raises, depending on which byte of a file is wrong.
PROBLEMS = (
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)


def load_model(path):
    """Loads the model in a `.keras` or `.h5` file, without compiling it.

    Raises FileNotFoundError if there is no such file, and ValueError, with the
    reason in one line, if Keras cannot load it.

    Args:
        path: The path of the file.
    """
    path = Path(path)
    if path.suffix not in (".keras", ".h5"):
        raise ValueError(
            f"A model file ends in .keras or .h5. Received: '{path}'"
        )
    if path.is_dir():
        raise IsADirectoryError(
            f"A model file is not a directory. Received: '{path}'"
        )
    if not path.is_file():
        raise FileNotFoundError(f"There is no such file. Received: '{path}'")
    if path.suffix == ".keras" and not zipfile.is_zipfile(path):
        # Keras would say that the file does not exist.
        raise ValueError(
            "Keras cannot load the file: it is damaged, or not a model. "
            f"Received: '{path}'"
        )
    try:
        return keras.models.load_model(path, compile=False)
    except PROBLEMS as error:
        problem = _problem(error) or type(error).__name__
        raise ValueError(
            f"Keras cannot load the file: {problem.rstrip('.')}. "
            f"Received: '{path}'"
        ) from error


def _problem(error):
    """The reason that Keras gives, in one line."""
    text = str(error).strip()
    unknown = re.search(r"Could not locate (class|function) '(\w+)'", text)
    if unknown:
        return (
            f"the {unknown[1]} '{unknown[2]}' is not one of Keras or "
            "keras_lab. Load the model in Python with `custom_objects`"
        )
    return text.split("\n")[0]
