"""Expands a shrunk TFLite file. Needs NumPy; see `docs/container.md`."""

import io
import struct
import zlib

import numpy as np

MAGIC, VERSION = b"TFLZ", 1
# Magic, version, expanded size, CRC-32 of the expanded file, number of ranges,
# size and CRC-32 of the deflated rest; CRC-32 of all before it and the ranges.
HEADER = struct.Struct("<4sIIIIIII")
RANGE = struct.Struct("<III")  # Offset, length, weights per byte.
MAX_RANGES, CHUNK = 16_384, 1 << 16


class ContainerError(ValueError):
    """The content is not a whole, undamaged container."""


def _byte_table(weights_per_byte):
    """For each byte of sign bits, the bytes of the file that it stands for."""
    width = 8 // weights_per_byte
    bits = np.arange(256)[:, None] >> np.arange(8) & 1
    codes = np.where(bits, 1, (1 << width) - 1)  # +1 and -1 in `width` bits
    codes = codes.reshape(256, -1, weights_per_byte)
    return (codes << np.arange(0, 8, width)).sum(axis=2).astype(np.uint8)


BYTE_TABLES = {count: _byte_table(count) for count in (1, 2, 4)}


def expand(source, limit: int = 1 << 30) -> bytes:
    """Returns the file that was shrunk, byte for byte.

    Args:
        source: The container as bytes, or a binary stream to read it from.
        limit: The largest expanded size to accept, in bytes.

    Raises:
        ContainerError: If the container is damaged, truncated, of an unknown
            version, or expands to more than `limit` bytes.
    """
    stream = source if hasattr(source, "read") else io.BytesIO(source)
    header = _read(stream, HEADER.size)
    magic, version, size, crc, count, *rest, header_crc = HEADER.unpack(header)
    _require(magic == MAGIC, "it does not begin with 'TFLZ'")
    _require(version == VERSION, f"unknown version {version}")
    _require(count <= MAX_RANGES, f"it lists {count} ranges")
    table = _read(stream, count * RANGE.size)
    _require(zlib.crc32(header[:-4] + table) == header_crc, "wrong header CRC")
    _require(size <= limit, f"it expands to {size} bytes, over {limit}")
    ranges, gaps, end = list(RANGE.iter_unpack(table)), [], 0
    for offset, length, per_byte in ranges:
        _require(per_byte in BYTE_TABLES, f"unknown encoding {per_byte}")
        _require(end <= offset < offset + length <= size, "wrong ranges")
        gaps.append((end, offset))
        end = offset + length
    gaps.append((end, size))
    missing = sum(stop - start for start, stop in gaps)
    # No deflated stream expands by more than a factor of 1032.
    _require(missing <= 1032 * rest[0], "its size is impossible")

    buffer = io.BytesIO(bytes(size))  # gives its value without a copy
    with buffer.getbuffer() as view:
        output = np.frombuffer(view, np.uint8)
        _fill(output, gaps, _inflate(stream, missing, *rest))
        for offset, length, per_byte in ranges:
            _expand(stream, output[offset : offset + length], per_byte)
        _require(not stream.read(1), "bytes follow its end")
        _require(zlib.crc32(output) == crc, "wrong CRC")
        del output
    return buffer.getvalue()


def _inflate(stream, missing, unread, crc):
    """Yields the inflated rest in chunks."""
    inflater, seen = zlib.decompressobj(), 0
    while not inflater.eof:
        if not (chunk := inflater.unconsumed_tail):
            chunk = _read(stream, min(CHUNK, unread))
            unread, seen = unread - len(chunk), zlib.crc32(chunk, seen)
        try:
            data = inflater.decompress(chunk, CHUNK)
        except zlib.error as error:
            raise ContainerError(f"Damaged container: {error}") from error
        missing -= len(data)
        _require(missing >= 0 and (chunk or data), "wrong length of the rest")
        yield data
    whole = missing == unread == len(inflater.unused_data) == 0
    _require(whole and seen == crc, "its deflated rest is damaged")


def _fill(output, gaps, chunks):
    gaps, (start, stop) = iter(gaps), (0, 0)
    for data in chunks:
        while data:
            while start == stop:
                start, stop = next(gaps)
            used, data = data[: stop - start], data[stop - start :]
            output[start : start + len(used)] = np.frombuffer(used, np.uint8)
            start += len(used)


def _expand(stream, output, per_byte):
    rows = BYTE_TABLES[per_byte]
    step = CHUNK * rows.shape[1]
    for part in (output[i : i + step] for i in range(0, len(output), step)):
        bits = _read(stream, -(-len(part) // rows.shape[1]))
        part[:] = rows[np.frombuffer(bits, np.uint8)].reshape(-1)[: len(part)]
        used = len(part) * per_byte % 8
        _require(not used or bits[-1] >> used == 0, "unused bits are set")


def _read(stream, count):
    content = stream.read(count)
    _require(len(content) == count, "it is truncated")
    return content


def _require(condition, problem):
    if not condition:
        raise ContainerError(f"Damaged container: {problem}")
