"""A data set in memory, and its files: where they are and come from."""

import dataclasses
import hashlib
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np


class DataError(Exception):
    """A file of a data set is missing or damaged, or is another file."""


class Part(NamedTuple):
    """Inputs and what to predict from them, one row per example."""

    x: np.ndarray
    y: np.ndarray


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Three parts that share no example.

    Args:
        train: The part to train on.
        validation: The part to choose an epoch by.
        test: The part to report on.
        classes: The number of classes in `y`.
        files: The SHA-256 of each file, or of the arrays in it, by name.
        vocabulary: For a text, the bytes that occur, ordered by class.
        departures: How it differs from the data set in the paper.
    """

    train: Part
    validation: Part
    test: Part
    classes: int
    files: dict[str, str]
    vocabulary: bytes | None = None
    departures: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Source:
    """A file of a data set.

    Args:
        path: Where it is, below the data folder.
        urls: Its addresses, the official one first.
        check: What a download must be: `"sha256:<digest>"`, `"md5:<digest>"`,
            or `"bytes:<size>"` if no digest is published.
        archive: Whether the address gives a `.tar.gz` file whose top folder is
            the folder of `path`.
    """

    path: str
    urls: tuple[str, ...]
    check: str
    archive: bool = False


def data_folder(folder: str | os.PathLike | None = None) -> Path:
    """The folder of all data sets.

    It is the argument if there is one, then the environment variable
    `KERAS_LAB_DATA`, then `datasets` in the Keras home.
    """
    folder = folder or os.environ.get("KERAS_LAB_DATA")
    if not folder:
        home = os.environ.get("KERAS_HOME") or Path.home() / ".keras"
        return Path(home) / "datasets"
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise DataError(
            "The data folder does not exist. Create it, or choose another with "
            f"--data-dir or KERAS_LAB_DATA. Received: {folder}"
        )
    return folder


def locate(source: Source, folder: Path, optional: bool = False) -> Path | None:
    """The path of a file, which is downloaded if it is missing.

    Args:
        source: The file.
        folder: The data folder.
        optional: If true, a missing file is not downloaded, and the result is
            `None`.
    """
    path = folder / source.path
    if path.is_file():
        return path
    if optional:
        return None
    failures = []
    for url in source.urls:
        try:
            _download(source, url, path)
            return path
        except Exception as error:  # `get_file` raises Exception itself.
            failures.append(f"  {url}: {error}")
    raise DataError(
        f"{path} is missing and could not be downloaded:\n"
        + "\n".join(failures)
        + "\nPut the file there yourself, or choose a folder that has it with "
        "--data-dir or KERAS_LAB_DATA."
    )


def _download(source, url, path):
    """Downloads a file; only one that passes the check gets its name."""
    kind, _, expected = source.check.partition(":")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        downloaded = keras.utils.get_file(
            "download.tar.gz" if source.archive else "download",
            url,
            cache_dir=scratch,
            cache_subdir="",
            extract=source.archive,
            **{} if kind == "bytes" else {"file_hash": expected},
        )
        if not source.archive:
            if not is_official(source, downloaded):
                raise DataError(f"it does not have {expected} bytes")
            os.replace(downloaded, path)
            return
        top = Path(downloaded) / path.parent.name
        if not (top / path.name).is_file():
            raise DataError(f"the archive has no {top.name}/{path.name}")
        for file in top.iterdir():
            if not (path.parent / file.name).exists():
                os.replace(file, path.parent / file.name)


def is_official(source: Source, path: str | os.PathLike) -> bool:
    """Whether a file is the one that the official address gives."""
    kind, _, expected = source.check.partition(":")
    if kind == "bytes":
        return Path(path).stat().st_size == int(expected)
    return _digest(path, kind) == expected


def digests(paths: list[Path]) -> dict[str, str]:
    """The SHA-256 of each file, by the file's name."""
    return {path.name: _digest(path, "sha256") for path in paths}


def _digest(path, algorithm):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def content_digest(*arrays: np.ndarray) -> str:
    """The SHA-256 of the values in some arrays.

    It stays the same if a file is compressed or dated differently.
    """
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array))
    return found.hexdigest()
