"""Files written whole or not at all, and models loaded with clear errors."""

import contextlib
import os
import re
import shutil
import uuid
import zipfile
import zlib
from pathlib import Path

__all__ = [
    "check_folder",
    "check_target",
    "load_model",
    "replacing",
    "target_problem",
]


@contextlib.contextmanager
def replacing(path):
    """A path to write to; at the end the file takes the place of `path`.

    Where the body fails, what was at `path` stays as it was. A link stays a
    link, and a file keeps its permissions.
    """
    path = Path(os.path.realpath(path))
    # Not made from the name, which may be as long as a name can be.
    partial = path.with_name(f".{uuid.uuid4().hex}.partial")
    try:
        yield partial
        if path.exists():
            shutil.copymode(path, partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def check_target(argument: str, path, suffixes=()) -> Path:
    """The path of a file that can be written, or an error that says why not.

    Args:
        argument: What the user calls the path.
        path: The path.
        suffixes: The endings that it may have; any, where there are none.
    """
    path = _as_path(argument, path)
    problem = target_problem(path, suffixes)
    if problem:
        raise ValueError(
            f"`{argument}` {problem}. Received: {argument}='{path}'"
        )
    return path


def target_problem(path: Path, suffixes=()) -> str | None:
    """Why a file cannot be written at a path, or `None`."""
    if suffixes and path.suffix.lower() not in suffixes:
        one_of = "one of " if len(suffixes) > 1 else ""
        return f"must end in {one_of}{', '.join(suffixes)}"
    try:
        # Where a link leads to is where the file is written.
        path = Path(os.path.realpath(path))
        if path.is_dir():
            return "is a directory"
        if path.exists() and not path.is_file():
            return "is something else than a file"
        if not path.parent.is_dir():
            return "is in a directory that does not exist"
        if not os.access(path.parent, os.W_OK):
            return "is in a directory without write access"
        if path.exists() and not os.access(path, os.W_OK):
            return "is a file without write access"
    except (OSError, ValueError) as error:
        # Too long a name, a null character, ...
        return f"is no path of a file ({error})"
    return None


def check_folder(argument: str, path) -> Path:
    """The path of a folder that is there or can be made."""
    path = _as_path(argument, path)
    if path.exists() and not path.is_dir():
        raise ValueError(
            f"`{argument}` must be a folder, and it is a file. "
            f"Received: {argument}='{path}'"
        )
    return path


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
    """The model in a `.keras` or `.h5` file, not compiled."""
    import keras

    path = Path(path)
    if path.suffix not in (".keras", ".h5"):
        raise ValueError(
            f"A model's file ends in .keras or .h5. Received: '{path}'"
        )
    if path.is_dir():
        raise IsADirectoryError(f"It is a directory. Received: '{path}'")
    if not path.is_file():
        raise FileNotFoundError(f"There is no such file. Received: '{path}'")
    if path.suffix == ".keras" and not zipfile.is_zipfile(path):
        # Keras would say that it is not there.
        raise ValueError(
            f"Keras cannot load '{path}': the file is damaged, or not a model"
        )
    try:
        return keras.models.load_model(path, compile=False)
    except PROBLEMS as error:
        problem = _problem(error) or type(error).__name__
        raise ValueError(f"Keras cannot load '{path}': {problem}") from error


def _problem(error):
    """What Keras says, in a line; of a class that it does not know, which."""
    text = str(error).strip()
    unknown = re.search(r"Could not locate (class|function) '(\w+)'", text)
    if unknown:
        return (
            f"the {unknown[1]} '{unknown[2]}' is not one of Keras or "
            "keras_lab: load the model in Python with `custom_objects`"
        )
    return text.split("\n")[0]
