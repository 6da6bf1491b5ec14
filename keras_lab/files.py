"""Files that are there whole, or not at all."""

import contextlib
import os
from pathlib import Path

__all__ = ["check_target", "replacing"]


@contextlib.contextmanager
def replacing(path):
    """A path to write to; at the end the file takes the place of `path`.

    Where the body fails, what was at `path` stays as it was.
    """
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
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
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            f"`{argument}` must be a path. Received: {argument}={path!r} of "
            f"type {type(path).__name__}"
        )
    path = Path(path)
    problem = None
    if path.is_dir():
        problem = "is a directory, not a file"
    elif suffixes and path.suffix.lower() not in suffixes:
        problem = f"must end in one of {', '.join(suffixes)}"
    elif not path.parent.is_dir():
        problem = "is in a directory that does not exist"
    elif not os.access(path.parent, os.W_OK):
        problem = "is in a directory without write access"
    if problem:
        raise ValueError(
            f"`{argument}` {problem}. Received: {argument}='{path}'"
        )
    return path
