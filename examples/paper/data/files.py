"""A data set in memory, and its files: finding, downloading, reading them."""

import contextlib
import dataclasses
import gzip
import hashlib
import math
import os
import pickle
import shutil
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

    `files` has the SHA-256 of each file, or of the arrays in it. `vocabulary`
    has the bytes that occur in a text, ordered by class. `departures` says how
    the data set differs from that in the paper.
    """

    train: Part
    validation: Part
    test: Part
    classes: int
    files: dict[str, str]
    vocabulary: bytes | None = None
    departures: tuple[str, ...] = ()


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


def locate(
    folder: Path, name: str, url: str, file_hash: str | None = None
) -> Path:
    """The path of a file, which is downloaded if it is missing.

    Args:
        folder: The data folder.
        name: The path of the file below it.
        url: The address of the file, or of a `.tar.gz` file that holds `name`.
        file_hash: The MD5 or SHA-256 of what is downloaded, if it is known.
    """
    path = folder / name
    if path.is_file():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Only a complete file gets its name.
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            downloaded = keras.utils.get_file(
                Path(url).name,
                url,
                cache_dir=scratch,
                cache_subdir="",
                file_hash=file_hash,
            )
            if url.endswith(".tar.gz"):
                shutil.unpack_archive(downloaded, folder, filter="data")
            else:
                os.replace(downloaded, path)
    except Exception as error:  # `get_file` raises Exception itself.
        raise DataError(
            f"{path} is missing and could not be downloaded from {url}: "
            f"{error}. Put the file there yourself, or choose a folder that "
            "has it with --data-dir or KERAS_LAB_DATA."
        ) from error
    return path


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    """The digest of a file, in hexadecimal digits."""
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


def damaged(path: Path, problem: str) -> DataError:
    """The error for a file that cannot be used."""
    return DataError(
        f"{path} is not the expected file: {problem}. Replace it by the "
        "original, or delete it: all files but SVHN's extra are downloaded "
        "again."
    )


@contextlib.contextmanager
def _reading(path):
    try:
        yield
    except Exception as error:  # A damaged file can raise anything.
        raise damaged(path, f"{type(error).__name__}: {error}") from error


def read_idx(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """The bytes in a gzipped idx file, which must have this shape."""
    with _reading(path):
        content = gzip.decompress(path.read_bytes())
        # The header: two zeros, 8 for bytes, the rank, and the shape.
        header = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes()
        if not content.startswith(header):
            start = content[: len(header)].hex()
            raise ValueError(f"it starts with {start}, not {header.hex()}")
        return np.frombuffer(
            content, np.uint8, math.prod(shape), len(header)
        ).reshape(shape)


class _ArraysOnly(pickle.Unpickler):
    """Loads NumPy arrays and nothing else, because a pickle can run code."""

    allowed = {
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
    }

    def find_class(self, module, name):
        if (module, name) not in self.allowed:
            raise pickle.UnpicklingError(f"it uses {module}.{name}")
        return super().find_class(module, name)


def read_cifar_batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 32, 32, 3) and labels (n,) from a file of CIFAR-10."""
    with _reading(path):
        with open(path, "rb") as file:
            batch = _ArraysOnly(file, encoding="bytes").load()
        labels = np.array(batch[b"labels"], np.uint8)
        images = batch[b"data"].reshape(len(labels), 3, 32, 32)
        return np.ascontiguousarray(images.transpose(0, 2, 3, 1)), labels


def read_mat(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 32, 32, 3) and labels (n,) from a file of SVHN.

    The label of the digit 0 is 10 in the file and 0 here.
    """
    with _reading(path):
        from scipy.io import loadmat  # From the extra keras_lab[examples].

        content = loadmat(path)
        images, labels = content["X"], content["y"].ravel()
        images = images.transpose(3, 0, 1, 2)
        shape = (len(labels), 32, 32, 3)
        if images.shape != shape or images.dtype != np.uint8:
            raise ValueError(f"X is {images.dtype} {images.shape}, not {shape}")
        return np.ascontiguousarray(images), (labels % 10).astype(np.uint8)
