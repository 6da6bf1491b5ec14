"""Readers of the original formats. Each raises DataError for a bad file."""

import contextlib
import gzip
import math
import pickle
from pathlib import Path

import numpy as np

from examples.paper.data.files import DataError, content_digest


def damaged(path: Path, problem: object) -> DataError:
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
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise DataError(
            f"{path} is a MATLAB file, which needs SciPy. Run: "
            'pip install "keras_lab[datasets]"'
        ) from error
    with _reading(path):
        content = loadmat(path)
        images, labels = content["X"], content["y"].ravel()
        images = images.transpose(3, 0, 1, 2)
        shape = (len(labels), 32, 32, 3)
        if images.shape != shape or images.dtype != np.uint8:
            raise ValueError(f"X is {images.dtype} {images.shape}, not {shape}")
        if not set(labels) <= set(range(1, 11)):
            raise ValueError("y has other labels than 1 to 10")
        return np.ascontiguousarray(images), (labels % 10).astype(np.uint8)
