"""Texts as bytes, in blocks that do not overlap."""

import dataclasses
import os
from pathlib import Path

import numpy as np

from examples.paper.data import files
from examples.paper.data.files import DataError, Dataset, Part, damaged

ADDRESS = "https://cs.stanford.edu/people/karpathy/char-rnn/"
WAR_AND_PEACE_SHA256 = (
    "fb66ba999dafe24017cdd59e04c56d385a9c8466993d374fd4c6f08b2142985e"
)


def war_and_peace(
    folder: str | os.PathLike | None = None,
    steps: int = 100,
    batch: int = 100,
    limit: int | None = None,
) -> Dataset:
    """Tolstoy's War and Peace: 3,258,246 bytes, 87 of them distinct.

    The arguments are those of `text_file`, with the data folder instead of the
    path; the parts have 80, 10 and 10 percent.
    """
    name = "warpeace_input.txt"
    path = _locate(folder, name, (3_258_246,), 87, WAR_AND_PEACE_SHA256)
    return text_file(path, steps, batch, limit, percent=(80, 10))


def linux_kernel(
    folder: str | os.PathLike | None = None, steps: int = 100, batch: int = 100
) -> Dataset:
    """C files of the Linux kernel: 6,206,996 bytes, 101 of them distinct.

    The arguments are those of `war_and_peace`; the parts have 90, 5 and 5
    percent. The original comes from a version before Linux 4.1; the same files
    of Linux 4.1-rc6 (6,208,197 bytes) are accepted too. The hash of the
    original is not known, so it is recognized by its length and its bytes.
    """
    sizes = (6_206_996, 6_208_197)
    path = _locate(folder, "linux_input.txt", sizes, 101)
    data = text_file(path, steps, batch, percent=(90, 5))
    if path.stat().st_size == sizes[0]:
        return data
    other = (
        "the files of Linux 4.1-rc6; the original has a slightly earlier "
        "version in another order"
    )
    return dataclasses.replace(data, departures=(other,))


def _locate(folder, name, sizes, symbols, sha256=None):
    folder = files.data_folder(folder)
    path = files.locate(folder, f"text/{name}", ADDRESS + name, sha256)
    content = path.read_bytes()
    found = (len(content), len(set(content)))
    if found[0] not in sizes or found[1] != symbols:
        raise damaged(
            path,
            f"it has {found[0]} bytes, {found[1]} of them distinct, not "
            f"{sizes[0]} and {symbols}",
        )
    return path


def text_file(
    path: str | os.PathLike,
    steps: int = 100,
    batch: int = 100,
    limit: int | None = None,
    percent: tuple[int, int] = (80, 10),
) -> Dataset:
    """A file as sequences of bytes, each with the bytes that follow.

    The file is cut into sequences of `steps` bytes, and the sequences into
    blocks of `batch`. The parts are whole blocks, in the file's order. A byte
    is represented by its rank among the bytes that occur.

    Args:
        path: The file.
        steps: Bytes per sequence.
        batch: Sequences per block.
        limit: How many bytes to use, from the beginning; all if `None`.
        percent: Shares of the training and the validation part; the rest is
            the test part.
    """
    if min(steps, batch) < 1:
        raise ValueError(
            "`steps` and `batch` must be positive. Received: "
            f"steps={steps}, batch={batch}"
        )
    path = Path(path)
    content = np.frombuffer(path.read_bytes()[:limit], np.uint8)
    # One byte more than the sequences have: the last one is only a target.
    blocks = (len(content) - 1) // (batch * steps)
    counts = [blocks * share // 100 for share in percent]
    if min(counts) < 1:
        raise DataError(
            f"{path} is too short for three parts of whole blocks of {batch} "
            f"sequences of {steps} bytes. Received: {len(content)} bytes"
        )
    vocabulary, ranks = np.unique(content, return_inverse=True)
    ranks = ranks.astype(np.uint8)
    used = blocks * batch * steps
    x = ranks[:used].reshape(-1, steps)
    y = ranks[1 : used + 1].reshape(-1, steps)
    ends = np.cumsum(counts) * batch
    return Dataset(
        *map(Part, np.split(x, ends), np.split(y, ends)),
        classes=len(vocabulary),
        files={path.name: files.file_digest(path)},
        vocabulary=vocabulary.tobytes(),
    )
