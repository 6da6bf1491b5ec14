"""Readers of the original formats, which check everything they read."""

import gzip
import math
import pickle
import struct
import zlib
from pathlib import Path

import numpy as np

from examples.paper.data.files import DataError, content_digest

UINT8 = 0x08


def damaged(path: Path, problem: object) -> DataError:
    """The error for a file that cannot be used."""
    return DataError(
        f"{path} is not the expected file: {problem}. Replace it by the "
        "original, or delete it: all files but SVHN's extra are downloaded "
        "again."
    )


def check_content(path: Path, expected: str | None, *arrays: np.ndarray):
    """Raises DataError if a well-formed file holds unexpected values.

    Args:
        path: The file.
        expected: The beginning of the arrays' `content_digest`; `None` if it
            is not known.
        *arrays: The arrays in the file.
    """
    found = content_digest(*arrays)
    if expected is not None and not found.startswith(expected):
        raise damaged(
            path, f"its content has the SHA-256 {found}, not {expected}…"
        )


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """The array of unsigned bytes in a gzipped idx file."""
    try:
        with gzip.open(path) as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(path, error) from error
    header = 4 + 4 * dimensions
    magic = bytes([0, 0, UINT8, dimensions])
    if content[:4] != magic or len(content) < header:
        raise damaged(
            path,
            f"its first bytes are {content[:header].hex()}, not those of an "
            f"idx file of bytes in {dimensions} dimensions",
        )
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    if len(content) - header != math.prod(shape):
        raise damaged(
            path,
            f"its header says {shape} and {len(content) - header} bytes follow",
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


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
    try:
        with open(path, "rb") as file:
            batch = _ArraysOnly(file, encoding="bytes").load()
        images, labels = batch[b"data"], batch[b"labels"]
    except Exception as error:  # A broken pickle can raise anything.
        raise damaged(path, f"{type(error).__name__}: {error}") from error
    labels = np.asarray(labels)
    if (
        not isinstance(images, np.ndarray)
        or images.dtype != np.uint8
        or images.shape != (len(labels), 3072)
        or labels.min(initial=0) < 0
        or labels.max(initial=0) > 9
    ):
        raise damaged(path, "it does not hold images of 3072 bytes and labels")
    images = images.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), labels.astype(np.uint8)


def read_mat(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 32, 32, 3) and labels (n,) from a file of SVHN.

    The label of the digit 0 is 10 in the file and 0 here.
    """
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise DataError(
            f"{path} is a MATLAB file, which needs SciPy. Run: "
            'pip install "keras_lab[datasets]"'
        ) from error
    try:
        content = loadmat(path)
        images, labels = content["X"], content["y"].ravel()
    except Exception as error:  # A broken file can raise anything.
        raise damaged(path, f"{type(error).__name__}: {error}") from error
    if (
        images.dtype != np.uint8
        or images.shape != (32, 32, 3, len(labels))
        or labels.min(initial=1) < 1
        or labels.max(initial=1) > 10
    ):
        raise damaged(
            path,
            f"it holds X {images.dtype} {images.shape} and y {labels.shape}, "
            "not 32x32x3 images and labels 1 to 10",
        )
    images = np.ascontiguousarray(images.transpose(3, 0, 1, 2))
    return images, (labels % 10).astype(np.uint8)
