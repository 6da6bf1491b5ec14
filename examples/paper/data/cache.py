"""Preprocessed arrays on disk, so that a long preprocessing runs once."""

import hashlib
import json
import os
import shutil
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np

from examples.paper.data.files import digests

__all__ = ["cached"]

# To be raised whenever a preprocessing function gives other numbers, or an
# entry has other files.
VERSION = 3


def cached(
    folder: Path,
    name: str,
    sources: list[Path],
    make: Callable[[], dict[str, np.ndarray]],
) -> dict[str, np.ndarray]:
    """What `make` returns, from disk where it was made before.

    The arrays are in `preprocessed/<name>-<hash>` of the data folder, where the
    hash is that of the sources' content: another file is another entry. They
    are mapped to memory, not read, so they may be larger than it. Where the
    folder cannot be written to, the arrays are made anew each time, and where
    what it holds is damaged, too.

    Args:
        folder: The data folder.
        name: What the arrays are, with all that `make` depends on besides the
            sources.
        sources: The files that `make` reads.
        make: A function that returns arrays by name.
    """
    key = json.dumps([VERSION, name, digests(sources)], sort_keys=True)
    key = hashlib.sha256(key.encode()).hexdigest()[:16]
    entry = folder / "preprocessed" / f"{name}-{key}"
    arrays = None
    if entry.is_dir():
        try:
            arrays = _read(entry)
        except DAMAGED as error:
            print(f"damaged: {entry} ({error})", file=sys.stderr, flush=True)
            shutil.rmtree(entry, ignore_errors=True)
    if arrays is None:
        print(f"preprocessing {name}, once", file=sys.stderr, flush=True)
        arrays = make()
        try:
            _write(entry, arrays)
            arrays = _read(entry)
        except DAMAGED as error:
            print(f"not kept: {error}", file=sys.stderr, flush=True)
    return arrays


# Written last: type and shape of each array by its name.
CONTENTS = "contents.json"
# What reading and writing an entry may raise.
DAMAGED = (OSError, ValueError, EOFError)


def _read(entry):
    """The arrays of an entry; an error if it is damaged."""
    contents = json.loads((entry / CONTENTS).read_text())
    if not (contents and isinstance(contents, dict)):
        raise ValueError(f"its {CONTENTS} holds {contents!r}")
    arrays = {
        name: np.load(entry / f"{name}.npy", mmap_mode="r") for name in contents
    }
    if (found := _describe(arrays)) != contents:
        raise ValueError(f"it holds {found}, not {contents}")
    return arrays


def _describe(arrays):
    return {n: [str(a.dtype), list(a.shape)] for n, a in arrays.items()}


def _write(entry, arrays):
    """Writes all arrays or none."""
    partial = entry.with_name(f".{entry.name}.{uuid.uuid4().hex}.part")
    partial.mkdir(parents=True)
    try:
        for name, array in arrays.items():
            with open(partial / f"{name}.npy", "wb") as file:
                np.save(file, array)
                file.flush()
                os.fsync(file.fileno())
        (partial / CONTENTS).write_text(json.dumps(_describe(arrays)))
        if not entry.is_dir():  # Another process may have been faster.
            os.replace(partial, entry)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
