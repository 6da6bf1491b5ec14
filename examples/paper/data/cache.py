"""Preprocessed arrays on disk, so that a long preprocessing runs only once."""

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

# Raise it whenever a preprocessing function changes its result.
VERSION = 4


def cached(
    folder: Path,
    name: str,
    sources: Mapping[str, str],
    make: Callable[[], dict[str, np.ndarray]],
) -> dict[str, np.ndarray]:
    """The arrays that `make` returns, read from disk if they are there.

    They are stored in `preprocessed/<name>-<hash>` of the data folder and are
    mapped into memory, so they may be larger than it. If they are damaged they
    are made again; if they cannot be stored, they are made each time.

    Args:
        folder: The data folder.
        name: The name of the arrays, with everything that `make` depends on
            apart from the sources.
        sources: The digests of the files that `make` reads.
        make: A function that returns arrays by name.
    """
    key = json.dumps([VERSION, name, sources], sort_keys=True)
    key = hashlib.sha256(key.encode()).hexdigest()[:16]
    entry = folder / "preprocessed" / f"{name}-{key}"
    if entry.is_dir():
        try:
            return _read(entry)
        except (OSError, ValueError, EOFError) as error:
            _log(f"damaged, made again: {entry} ({error})")
            shutil.rmtree(entry, ignore_errors=True)
    _log(f"preprocessing {name}, only once")
    arrays = make()
    try:
        _write(entry, arrays)
        return _read(entry)
    except (OSError, ValueError) as error:
        _log(f"the result was not stored: {error}")
        return arrays


def _read(entry):
    names = json.loads((entry / "names.json").read_text())
    return {name: np.load(entry / f"{name}.npy", "r") for name in names}


def _write(entry, arrays):
    """Writes all arrays or none: the folder gets its name at the end."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=entry.parent) as scratch:
        partial = Path(scratch) / entry.name
        partial.mkdir()
        for name, array in arrays.items():
            np.save(partial / f"{name}.npy", array)
        (partial / "names.json").write_text(json.dumps(list(arrays)))
        if not entry.exists():  # Another process may have been faster.
            os.replace(partial, entry)


def _log(line):
    print(line, file=sys.stderr, flush=True)
