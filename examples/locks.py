"""Keeps a file to one process."""

import atexit
import fcntl
import os
from pathlib import Path

__all__ = ["InUse", "lock"]

# The locks of this process, by their paths. They end with it.
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
        raise InUse(
            f"Process {file.read()} is at work on {path}. Wait for it, or name "
            "another file."
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    _LOCKS[marker] = file
    atexit.register(marker.unlink, missing_ok=True)
