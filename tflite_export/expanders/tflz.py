"""Expands a container (`docs/container.md`). Needs only NumPy."""

import io
import struct
import zlib

import numpy as np

MAGIC, VERSION = b"TFLZ", 1
# Magic, version, size and CRC, ranges, size and CRC of the rest, CRC of these.
HEADER = struct.Struct("<4sIIIIIII")
RANGE = struct.Struct("<III")  # Offset, length, weights per byte.
MAX_RANGES, CHUNK, MAX_DEFLATE = 16_384, 1 << 14, 1032


def _byte_table(per_byte):
    """For each byte of sign bits, the bytes of the file that it stands for."""
    width = 8 // per_byte
    bits = np.arange(256)[:, None, None] >> np.arange(8).reshape(width, -1) & 1
    codes = np.where(bits, 1, (1 << width) - 1)  # +1 and -1 in `width` bits.
    return (codes << np.arange(0, 8, width)).sum(axis=2).astype(np.uint8)


BYTE_TABLES = {per_byte: _byte_table(per_byte) for per_byte in (1, 2, 4)}


class ContainerError(ValueError):
    """Not a container, or one that is damaged or too large."""


def expand(source, limit: int = 1 << 30) -> bytes:
    """Returns the file that was shrunk, byte for byte.

    Args:
        source: The container as bytes, or a binary stream to read it from.
        limit: The largest expanded size to accept, in bytes.

    Raises:
        ContainerError: If it is not a complete container, or larger than
            `limit`.
    """
    in_memory = not hasattr(source, "read") or isinstance(source, io.TextIOBase)
    try:
        found = memoryview(source).nbytes if in_memory else None
        stream = io.BytesIO(source) if in_memory else source  # Without a copy.
        limit = min(limit, 1 << 32)
    except (BufferError, TypeError) as e:
        got = f"Received: {source!r:.60}, limit={limit!r:.20}"
        raise TypeError(f"Expected bytes or a stream and a limit. {got}") from e
    header = _read(stream, HEADER.size)
    magic, version, size, crc, count, *rest, table_crc = HEADER.unpack(header)
    _require(magic == MAGIC, "it does not begin with 'TFLZ'", "Not a container")
    _require(version == VERSION, f"{version}", "Unknown container version")
    _require(count <= MAX_RANGES, f"it lists {count} ranges")
    table = _read(stream, count * RANGE.size)
    _require(zlib.crc32(header[:-4] + table) == table_crc, "wrong header CRC")
    _require(size <= limit, f"{size} bytes, over {limit}", "File too large")
    ranges = np.frombuffer(table, "<u4").reshape(-1, 3)
    end, missing, whole = 0, size, HEADER.size + len(table) + rest[0]
    for offset, length, per_byte in map(np.ndarray.tolist, ranges):
        _require(per_byte in BYTE_TABLES, f"unknown encoding {per_byte}")
        _require(end <= offset < offset + length <= size, "wrong ranges")
        end, missing = offset + length, missing - length
        whole += (length * per_byte + 7) // 8
    _require(missing <= MAX_DEFLATE * rest[0], "its size is impossible")
    _require(found in (None, whole), f"it should have {whole} bytes")
    output = io.BytesIO(bytes(size))  # Its `getvalue` makes no copy.
    try:
        _inflate(stream, output, ranges, size, missing, *rest)
    except zlib.error as error:
        raise ContainerError(f"Damaged container: {error}") from error
    for offset, length, per_byte in map(np.ndarray.tolist, ranges):
        output.seek(offset)
        _expand_range(stream, output, length, per_byte)
    _require(not stream.read(1), "bytes follow its end")
    _require(zlib.crc32(output.getbuffer()) == crc, "wrong CRC")
    return output.getvalue()


def _inflate(stream, output, ranges, size, missing, unread, crc):
    """Inflates the rest of the file into the gaps between the ranges."""
    inflater, seen = zlib.decompressobj(), 0
    starts = np.append(0, ranges[:, 0] + ranges[:, 1].astype(int))
    stops = np.append(ranges[:, 0], size + 1)  # To notice more.
    for start, stop in map(np.ndarray.tolist, np.stack([starts, stops], 1)):
        output.seek(start)
        while output.tell() < stop and not inflater.eof:
            if not (chunk := inflater.unconsumed_tail):
                chunk = _read(stream, min(CHUNK, unread))
                unread, seen = unread - len(chunk), zlib.crc32(chunk, seen)
            data = inflater.decompress(chunk, min(CHUNK, stop - output.tell()))
            _require(chunk or data, "its deflated rest ends too early")
            missing -= output.write(data)
    whole = missing == unread == len(inflater.unused_data) == 0
    _require(whole and seen == crc, "its deflated rest is damaged")


def _expand_range(stream, output, length, per_byte):
    """Expands sign bits to weights of ±1."""
    rows = BYTE_TABLES[per_byte]
    while length > 0:
        bits = _read(stream, min(CHUNK, -(-length // rows.shape[1])))
        weights = rows.take(np.frombuffer(bits, np.uint8), axis=0).reshape(-1)
        output.write(weights[:length])
        unused = max(len(weights) - length, 0) * per_byte
        _require(bits[-1] >> 8 - unused == 0, "unused bits are set")
        length -= len(weights)


def _read(stream, count):
    content = b""
    while len(content) < count and (part := stream.read(count - len(content))):
        content += part
    _require(len(content) == count, "it is truncated")
    return content


def _require(condition, problem, kind="Damaged container"):
    if not condition:
        raise ContainerError(f"{kind}: {problem}")
