"""Keeps a file to one process."""

import atexit
import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["InUse", "lock", "locked"]

# The open files of the locks that this process has, by their paths.
_LOCKS = {}


class InUse(Exception):
    """Another process is at work on a file."""


def lock(path: Path) -> None:
    """Keeps a file to this process, until it ends.

    Raises:
        InUse: If another process has it.
    """
    path = Path(path).resolve()
    marker = path.with_name(f".{path.name}.lock")
    if marker in _LOCKS:
        return
    marker.parent.mkdir(parents=True, exist_ok=True)
    file = marker.open("a+")
    try:
        # The system frees it, however the process ends.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        raise InUse(f"Process {file.read()} is at work on {path}.") from None
    if not _is(file, marker):
        # Who had it has just removed it.
        file.close()
        lock(path)
        return
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    _LOCKS[marker] = file
    atexit.register(_unlock, marker)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps a file to this process as long as the context lasts."""
    lock(path)
    try:
        yield
    finally:
        path = Path(path).resolve()
        _unlock(path.with_name(f".{path.name}.lock"))


def _is(file, path):
    """Whether an open file is the one that has that path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _unlock(marker):
    file = _LOCKS.pop(marker, None)
    if file is not None:
        marker.unlink(missing_ok=True)
        file.close()
