"""Damages the bytes of a file, as disks, networks and attackers do."""

import io
import struct
import zipfile
import zlib

from tflite_export.expanders.tflz import HEADER, RANGE

NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 1 << 30, (1 << 32) - 1)


def flip_bits(rng, content, others):
    for _ in range(rng.choice((1, 1, 2, 20))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def change_bytes(rng, content, others):
    for _ in range(rng.choice((1, 3, 20))):
        content[rng.randrange(len(content))] = rng.randrange(256)


def change_numbers(rng, content, others):
    for _ in range(rng.choice((1, 2))):
        at = rng.randrange(0, len(content), 4)
        (number,) = struct.unpack_from("<I", content.ljust(at + 4, b"\0"), at)
        near = (number + rng.choice((-4, -1, 1, 4))) & 0xFFFFFFFF
        number = rng.choice((*NUMBERS, near, len(content)))
        content[at : at + 4] = struct.pack("<I", number)


def truncate(rng, content, others):
    del content[rng.randrange(len(content)) :]


def remove(rng, content, others):
    at = rng.randrange(len(content))
    del content[at : at + _size(rng)]


def repeat(rng, content, others):
    at = rng.randrange(len(content))
    content[at:at] = content[at : at + _size(rng)]


def fill(rng, content, others):
    at, size = rng.randrange(len(content)), _size(rng)
    content[at : at + size] = bytes([rng.randrange(256)]) * size


def splice(rng, content, others):
    other = rng.choice(others)
    content[rng.randrange(len(content)) :] = other[rng.randrange(len(other)) :]


def _size(rng):
    return int(2 ** rng.uniform(0, 12))


KINDS = (
    flip_bits,
    change_bytes,
    change_numbers,
    truncate,
    remove,
    repeat,
    fill,
    splice,
)


def damaged(rng, content: bytes, others) -> bytes:
    """Returns the content with one to three kinds of damage.

    `rng` is a `random.Random`. `others` are the bytes of other files, to splice
    with.
    """
    content = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if content:
            rng.choice(KINDS)(rng, content, others)
    return bytes(content)


def damaged_container(rng, content: bytes, others) -> bytes:
    """Damages a container and makes its checksums right again."""
    content = bytearray(damaged(rng, content, others))
    if len(content) < HEADER.size:
        return bytes(content)
    fields = list(HEADER.unpack_from(content))
    end = HEADER.size + min(fields[4], len(content)) * RANGE.size
    fields[6] = zlib.crc32(content[end : end + fields[5]])
    head = HEADER.pack(*fields)[:-4]
    fields[7] = zlib.crc32(head + content[HEADER.size : end])
    content[: HEADER.size] = HEADER.pack(*fields)
    return bytes(content)


def damaged_archive(rng, content: bytes, others) -> bytes:
    """Damages a file inside a `.keras` archive, whose checksums stay right."""
    source, target = zipfile.ZipFile(io.BytesIO(content)), io.BytesIO()
    names = source.namelist()
    files = {name: source.read(name) for name in names}
    chosen = rng.choice([name for name in names if name.endswith(".json")])
    files[chosen] = damaged(rng, files[chosen], [files[chosen]])
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return target.getvalue()
