"""A container: any TFLite file, lossless, with one bit per ±1 weight.

A weight of ±1 fills 8, 4 or 2 bits of a TFLite file, because the format has no
narrower type. The container stores such stretches of the file as sign bits and
deflates the rest. Nothing is parsed: a stretch is found by its bytes, so
`expand` gives back every file exactly, whatever it holds.
"""

import os
import zlib
from pathlib import Path

import numpy as np

from tflite_export.errors import InvalidModelError
from tflite_export.expanders.tflz import (
    BYTE_TABLES,
    HEADER,
    MAGIC,
    MAX_RANGES,
    RANGE,
    VERSION,
    ContainerError,
    expand,
)

# A range costs 12 bytes in the table. Deflate, too, comes close to one bit per
# weight, so a short stretch is better left to it.
SHORTEST = 256
# How many pieces of a stretch tell whether it repeats itself, and their size.
SAMPLES, SAMPLE = 4, 1 << 14
# Level 9 takes 30 times longer than 6 for some data, and saves little.
SMALL_REST = 1 << 20
LARGEST = (1 << 32) - 1
LARGEST_MODEL = (1 << 31) - 1  # A flatbuffer cannot be larger.


def read_file(path) -> bytes:
    """The bytes of a `.tflite` or `.tflz` file, given its path or its bytes."""
    if isinstance(path, (bytes, bytearray, memoryview)):
        return bytes(path)
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            "Expected the path of a .tflite or .tflz file, or its bytes. "
            f"Received: {path!r} of type {type(path).__name__}"
        )
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"The path is a directory. Received: '{path}'")
    if not path.is_file():
        raise FileNotFoundError(f"There is no such file. Received: '{path}'")
    return path.read_bytes()


def read_content(path) -> bytes:
    """The bytes of a `.tflite` file, expanded if they are in a container.

    Raises InvalidModelError if the container is damaged.
    """
    stored = read_file(path)
    if not is_shrunk(stored):
        return stored
    try:
        return expand(stored, LARGEST_MODEL)
    except ContainerError as error:
        raise InvalidModelError(str(error)) from error


def is_shrunk(content: bytes) -> bool:
    """Returns whether the content begins as a container does."""
    return bytes(content[: len(MAGIC)]) == MAGIC


def shrink(content: bytes) -> bytes:
    """Returns a container of the file, with one bit per weight of ±1.

    Args:
        content: A `.tflite` file, or any other bytes. INT8, INT4 and INT2
            weights of ±1 become bits. Everything else is deflated.

    Returns:
        The container. `expand` gives back the same file, byte for byte.

    Raises:
        ValueError: If `content` has 4 GiB or more, or gaps.
    """
    if not isinstance(content, bytes | bytearray | memoryview):
        raise TypeError(
            "`content` must be the bytes of a file. Received: "
            f"{content!r:.60} of type {type(content).__name__}"
        )
    view = memoryview(content)
    if not view.c_contiguous:
        raise ValueError(
            "`content` must be contiguous: take `bytes` of it. Received: a "
            f"memoryview with strides={view.strides}"
        )
    if view.nbytes > LARGEST:
        raise ValueError(
            f"`content` must be smaller than 4 GiB. Received: {view.nbytes} "
            "bytes"
        )
    data = np.frombuffer(content, np.uint8)
    ranges = _find_ranges(data)
    kept = np.ones(len(data), bool)
    for offset, length, _ in ranges:
        kept[offset : offset + length] = False
    rest = data[kept].tobytes()
    rest = zlib.compress(rest, 9 if len(rest) <= SMALL_REST else 6)
    bits = [_sign_bits(data[o : o + n], count) for o, n, count in ranges]
    table = b"".join(RANGE.pack(*entry) for entry in ranges)
    header = HEADER.pack(
        MAGIC,
        VERSION,
        len(data),
        zlib.crc32(content),
        len(ranges),
        len(rest),
        zlib.crc32(rest),
        0,
    )[:-4]
    header += zlib.crc32(header + table).to_bytes(4, "little")
    return b"".join([header, table, rest, *bits])


def _find_ranges(data):
    """Finds the stretches of ±1: sorted (offset, length, weights per byte)."""
    free = np.ones(len(data), bool)
    found = []
    # INT8 first: its bytes 0x01 and 0xFF need the fewest bits per byte.
    for per_byte, rows in BYTE_TABLES.items():
        is_pair = np.zeros(256, bool)
        is_pair[rows] = True
        for start, stop in _runs(is_pair[data] & free):
            if _deflates_better(data[start:stop], per_byte):
                continue
            found.append((start, stop - start, per_byte))
            free[start:stop] = False
    found.sort(key=lambda entry: -entry[1])
    return sorted(found[:MAX_RANGES])


def _runs(mask):
    """The (start, stop) of each long run of True."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    starts, stops = edges[::2], edges[1::2]
    long = stops - starts >= SHORTEST
    return zip(starts[long].tolist(), stops[long].tolist())


def _deflates_better(stretch, per_byte):
    """Whether the stretch repeats itself, as all equal weights do."""
    sample, part = stretch, len(stretch) // SAMPLES
    if part > SAMPLE:
        # From the middle of each part: the ends may differ from the rest.
        starts = part * np.arange(SAMPLES) + (part - SAMPLE) // 2
        sample = stretch[starts[:, None] + np.arange(SAMPLE)]
    return 8 * len(zlib.compress(sample.tobytes(), 1)) < sample.size * per_byte


def _sign_bits(stretch, per_byte):
    """The signs, first weight in the lowest bit; a set bit is +1."""
    width = 8 // per_byte
    shifts = np.arange(per_byte, dtype=np.uint8) * width
    # +1 is 0…01 and -1 is 1…11: the second bit tells them apart.
    negative = (stretch[:, None] >> shifts + 1) & 1
    return np.packbits(negative.reshape(-1) == 0, bitorder="little").tobytes()
