"""Damaged files end in a clear error. `tests/fuzz` tries many more."""

import json
import zlib

import numpy as np
import pytest

import tflite_export
from tests.tflite_export.support import change_sign_bits, exported
from tflite_export import InvalidModelError
from tflite_export.flatbuffer.model import FlatModel, name_of
from tflite_export.metadata import METADATA_NAME, as_text

READERS = [tflite_export.inspect, tflite_export.read_packed, tflite_export.pack]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "content", [b"", b"hello", b"PK\x03\x04 a zip file", b"\x00" * 1000]
)
def test_something_else_is_named_as_such(content, reader):
    with pytest.raises(InvalidModelError, match="Not a TFLite model"):
        reader(content)


def test_tables_that_refer_to_themselves_do_not_hang():
    # A root table whose every field points back at it.
    table = b"\x14\x00\x00\x00TFL3" + b"\x0c\x00\x08\x00" + b"\x04\x00" * 4
    table += b"\x0c\x00\x00\x00" + b"\x00" * 8
    with pytest.raises(InvalidModelError):
        tflite_export.inspect(table + b"\x00" * 64)


def with_metadata(change):
    """A packed file with other metadata."""
    model = FlatModel(exported("dense").content("packed"))
    name = METADATA_NAME.encode()
    (entry,) = (e for e in model.model.metadata if e.name == name)
    buffer = model.model.buffers[entry.buffer]
    text = change(bytes(buffer.data))
    buffer.data = np.frombuffer(text, np.uint8)
    return model.to_bytes()


def with_checksum(content):
    """The text of metadata, with the checksum that belongs to it."""
    if content["crc32"] != "x":
        del content["crc32"]
        content["crc32"] = zlib.crc32(as_text(content))
    return as_text(content)


def check_refused(content, match):
    for reader in (tflite_export.inspect, tflite_export.read_packed):
        with pytest.raises(InvalidModelError, match=match):
            reader(content)


@pytest.mark.parametrize(
    ("key", "value", "match"),
    [
        *(
            (key, value, "Damaged metadata")
            for key, value in [
                *(("path", value) for value in (5, "\x1b[2J", "\ud800")),
                ("arithmetic", 3),
                ("operator", None),
                *(("note", value) for value in ("a text", -1, 1000)),
                *(("float_bytes", value) for value in ("x", -1, 10**400)),
                ("format", 3),
                ("weights", [3]),
                ("not_packed", [3]),
                ("shape", [-1, 12]),
                ("stored_shape", [10**18, 20]),
                ("keras_axes", [0, 0]),
                ("first_channel", "x"),
                ("channel_axis", 7),
                ("flipped", "zz"),
                *(("signs", value) for value in ([0.0, 3.0], [0, 10**6])),
                ("alpha_shape", [2]),
                ("encoding", "bits2"),
                ("crc32", "x"),
            ]
        ),
        # What fits in kind is not believed either.
        ("alpha", [0, 0], "refers to '.*', not to '.*/alpha'"),
        ("keras_axes", [0, 1], "signs or α of .* have changed"),
        ("path", "other/kernel", "refers to '.*', not to 'other/"),
        # Versions 1 to 3 were written before the first release.
        *(
            ("version", n, f"reads .* version 4.* of version {n}")
            for n in (3, 5)
        ),
    ],
)
def test_metadata_that_do_not_fit_are_refused(key, value, match):
    def change(text):
        content = json.loads(text)
        part = content if key in content else content["weights"][0]
        assert key in part
        part[key] = value
        return with_checksum(content)

    check_refused(with_metadata(change), match)


def test_metadata_that_nest_too_deeply_are_refused():
    content = with_metadata(lambda text: b"[" * 200_000)
    check_refused(content, "Damaged metadata")


@pytest.mark.parametrize(
    ("key", "value"), [("shape", [12, 20]), ("first_channel", 1)]
)
def test_changed_metadata_are_refused(key, value):
    def changed(text):
        content = json.loads(text)
        assert content["weights"][0][key] != value
        content["weights"][0][key] = value
        return json.dumps(content).encode()

    check_refused(with_metadata(changed), "they have changed")


def negative_sign_bits(model):
    change_sign_bits(model, lambda words: -1 - words)


def a_flipped_sign(model):
    change_sign_bits(model, lambda words: np.append(words[0] ^ 1, words[1:]))


def a_tensor_of_impossible_size(model):
    shape = np.full(40, 1 << 30, np.int32)
    model.subgraphs[0].tensors[0].shape = shape


def another_alpha(model):
    tensors = model.subgraphs[0].tensors
    (alpha,) = (t for t in tensors if name_of(t).endswith("/kernel/alpha"))
    alpha.buffer = model.add_buffer(2 * model.constant(alpha))


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (negative_sign_bits, "INT16"),
        (a_tensor_of_impossible_size, "than any memory"),
        (a_flipped_sign, "signs or α of '.*/kernel' have changed"),
        (another_alpha, "signs or α of '.*/kernel' have changed"),
    ],
)
def test_a_forged_tensor_is_refused(damage, match):
    model = FlatModel(exported("dense").content("packed"))
    damage(model)
    check_refused(model.to_bytes(), match)
