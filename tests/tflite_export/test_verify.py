"""Damaged files end in a clear error: no crash, no hang."""

import random

import pytest

import tflite_export
from tests.tflite_export.support import exported
from tflite_export import InvalidModelError, NothingBinaryError
from tflite_export.verify import verify

FORMATS = ["packed", "fast", "float"]
READERS = [
    tflite_export.inspect,
    tflite_export.read_packed,
    tflite_export.pack,
]
MUTATIONS = 300


def check_reads_or_refuses(content):
    for reader in READERS:
        try:
            reader(content)
        except (InvalidModelError, NothingBinaryError) as error:
            assert str(error)


@pytest.mark.parametrize("format", FORMATS)
def test_a_good_file_passes(format):
    verify(exported("dense_folded").content(format))


@pytest.mark.parametrize("format", FORMATS)
def test_a_truncated_file_is_refused(format):
    content = exported("dense_folded").content(format)
    for length in [0, 1, 7, 8, 9, 100, *range(200, len(content), 997)]:
        with pytest.raises(InvalidModelError):
            tflite_export.inspect(content[:length])
        check_reads_or_refuses(content[:length])


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_with_wrong_bytes_is_read_or_refused(format):
    content = exported("dense_folded").content(format)
    rng = random.Random(1)
    for _ in range(MUTATIONS):
        damaged = bytearray(content)
        for _ in range(rng.choice([1, 3, 20])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        check_reads_or_refuses(bytes(damaged))


@pytest.mark.parametrize("format", FORMATS)
def test_a_wrong_offset_anywhere_in_the_structure_is_found(format):
    content = exported("dense").content(format)
    rng = random.Random(1)
    for position in range(0, len(content) - 4, 4 * 7):
        damaged = bytearray(content)
        damaged[position : position + 4] = rng.choice(
            [b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80"]
        )
        check_reads_or_refuses(bytes(damaged))


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"PK\x03\x04 a zip file", b"\x00" * 1000]
)
def test_something_else_is_named_as_such(content):
    for reader in READERS:
        with pytest.raises(InvalidModelError, match="Not a TFLite model"):
            reader(content)


def test_tables_that_refer_to_themselves_do_not_hang():
    # A root table whose every field points back at it.
    table = b"\x14\x00\x00\x00TFL3" + b"\x0c\x00\x08\x00" + b"\x04\x00" * 4
    table += b"\x0c\x00\x00\x00" + b"\x00" * 8
    with pytest.raises(InvalidModelError):
        tflite_export.inspect(table + b"\x00" * 64)
