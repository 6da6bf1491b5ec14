"""Files to shrink, and containers that every expander must refuse."""

import zlib

import numpy as np

from tflite_export.expanders.tflz import BYTE_TABLES, HEADER, MAX_RANGES, RANGE

LIMIT = 1 << 26  # What the tests accept as the expanded size.


def weights(rng, length, per_byte):
    """`length` bytes of random ±1, with `per_byte` of them in each byte."""
    return rng.choice(np.unique(BYTE_TABLES[per_byte]), length).tobytes()


def floats(rng, count):
    return rng.normal(size=count).astype(np.float32).tobytes()


def files():
    """Contents of every kind, by name."""
    rng = np.random.default_rng(1)
    found = {
        "empty": b"",
        "one_byte": b"\x01",
        "text": b"nothing binary",
        "floats": floats(rng, 1000),
        "noise": rng.bytes(100_000),
        "zeros": bytes(1_000_000),
        "equal_weights": b"\xff" * 100_000,
        "all_encodings": b"".join(
            weights(rng, length, per_byte) + floats(rng, 3)
            for per_byte in (4, 1, 2, 1)
            for length in (300, 301, 4099)
        ),
        "neighbours": b"".join(weights(rng, 999, n) for n in (1, 2, 4, 2, 1)),
        "chunks": weights(rng, 1_100_003, 1)
        + floats(rng, 50_000)
        + weights(rng, 600_001, 2)
        + weights(rng, 300_001, 4),
    }
    for per_byte in BYTE_TABLES:
        for start in range(9):
            for length in (256, 257, 259, 263):
                found[f"{per_byte}_{start}_{length}"] = (
                    bytes(start) + weights(rng, length, per_byte) + bytes(3)
                )
    return found


def container(file, ranges, signs, **changes):
    """A container of a file with right CRCs, and `changes` in its header.

    A range is its offset, its length and the weights per byte; `signs` are the
    bits of all of them.
    """
    kept, end = b"", 0
    for offset, length, _ in ranges:
        kept, end = kept + file[end:offset], offset + length
    rest = changes.get("rest", zlib.compress(kept + file[end:], 9))
    table = b"".join(RANGE.pack(*entry) for entry in ranges)
    header = HEADER.pack(
        b"TFLZ",
        changes.get("version", 1),
        changes.get("size", len(file)),
        changes.get("crc", zlib.crc32(file)),
        changes.get("count", len(ranges)),
        changes.get("rest_size", len(rest)),
        zlib.crc32(rest),
        0,
    )[:-4]
    crc = zlib.crc32(header + table).to_bytes(4, "little")
    return header + crc + table + rest + signs


# Nine weights of ±1 in INT8, and five bytes of INT4, between other bytes.
SMALL_FILE = (
    b"head\x01\xff\xff\x01\x01\xff\x01\x01\xff--\x11\xf1\x1f\xff\x11end"
)
SMALL_RANGES = [(4, 9, 1), (15, 5, 2)]
SMALL_SIGNS = bytes([0b11011001, 0b0, 0b00100111, 0b11])


def small():
    return container(SMALL_FILE, SMALL_RANGES, SMALL_SIGNS)


def damaged():
    """Damaged versions of a small container: each bit, each length."""
    whole = small()
    for i in range(len(whole)):
        for change in (*(1 << bit for bit in range(8)), 0xFF):
            content = bytearray(whole)
            content[i] ^= change
            yield f"byte {i} ^ {change}", bytes(content)
        yield f"{i} bytes", whole[:i]
    yield "a byte more", whole + b"\0"
    yield "twice", whole + whole


def forged():
    """Containers with right CRCs that no writer makes, bombs among them."""
    file, ranges, signs = SMALL_FILE, SMALL_RANGES, SMALL_SIGNS
    rest = zlib.compress(b"head--end", 9)

    def forge(name, ranges=ranges, signs=signs, **changes):
        return name, container(file, ranges, signs, **changes)

    yield forge("version 2", version=2)
    yield forge("wrong CRC of the file", crc=1)
    yield forge("expands to 4 GiB", size=(1 << 32) - 1)
    yield forge("expands to more than the limit", size=LIMIT + 1)
    yield forge("expands more than deflate can", size=LIMIT)
    yield forge("4 billion ranges", count=(1 << 32) - 1)
    yield forge("too many ranges", [(0, 1, 1)] * (MAX_RANGES + 1))
    yield forge("fewer ranges than it says", count=MAX_RANGES)
    yield forge("a huge range", [(0, LIMIT, 4)], b"", size=LIMIT)
    yield forge("ends after the file", [(4, 9, 1), (20, 5, 2)])
    yield forge("overflows 32 bits", [(4, 9, 1), (20, (1 << 32) - 10, 2)])
    yield forge("begins after the file", [(4, 9, 1), (1 << 31, 5, 2)])
    yield forge("overlap", [(4, 9, 1), (12, 5, 2)])
    yield forge("wrong order", [(15, 5, 2), (4, 9, 1)])
    yield forge("empty range", [(4, 0, 1), (15, 5, 2)])
    for per_byte in (0, 3, 5, 8, 1 << 31):
        yield forge(f"encoding {per_byte}", [(4, 9, 1), (15, 5, per_byte)])
    yield forge("signs missing", signs=signs[:-1])
    yield forge("signs too many", signs=signs + b"\0")
    yield forge("unused bit of INT8", signs=b"\xd9\x02" + signs[2:])
    yield forge("unused bit of INT4", signs=signs[:-1] + b"\x07")
    yield forge("rest too short", rest=zlib.compress(b"head--en"))
    yield forge("rest too long", rest=zlib.compress(b"head--end!"))
    yield forge("rest is a bomb", rest=zlib.compress(bytes(50_000_000)))
    yield forge("rest without its checksum", rest=rest[:-4])
    yield forge("rest is empty", rest=b"")
    yield forge("rest is not deflated", rest=b"head--end")
    yield forge("rest longer than it says", rest_size=len(rest) - 1)
    yield forge("rest shorter than it says", rest_size=len(rest) + 1)
    yield forge("rest of 4 GiB", rest_size=(1 << 32) - 1)
