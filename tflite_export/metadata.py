"""What a file says about its binary weights, and how to read them back.

One entry of the model's metadata is JSON text that says for each weight where
its signs and its α are in the file. `docs/export.md` documents it.
"""

import dataclasses
import json
import zlib

import numpy as np

from tflite_export.container import read_content
from tflite_export.errors import InvalidModelError, damage_as_error
from tflite_export.flatbuffer.model import FlatModel, name_of
from tflite_export.flatbuffer.schema import schema
from tflite_export.formats import Format, Note, Storage
from tflite_export.graph.packed_bits import unpack_signs
from tflite_export.graph.weight_site import WeightSite

METADATA_NAME = "keras_lab.binary_weights"
VERSION = 4


@dataclasses.dataclass(frozen=True)
class PackedWeight:
    """A binary weight ŵ = α·signs, read from a file.

    Attributes:
        path: The path of the kernel in the Keras model, unique in the file: a
            key of `keras_lab.binary_weights(model)`. For a model that was not
            made with keras_lab, the name of the tensor.
        shape: The shape of the kernel in Keras.
        signs: int8 array of ±1 in that shape.
        alpha: float32 array of α, in the layer's shape: `()` for
            one per tensor. For a model that was not made with keras_lab, one
            per tensor or one per output channel.
    """

    path: str
    shape: tuple
    signs: np.ndarray
    alpha: np.ndarray


def read_packed(path) -> list[PackedWeight]:
    """The binary weights of a file that this package wrote.

    The signs and α are checked: each has a CRC-32 in the file, and the names of
    the tensors must be those of the paths.

    Args:
        path: The path of a `.tflite` or `.tflz` file, or its content as bytes.

    Returns:
        A list with one `PackedWeight` per kernel, in the order in which the
        file uses them.

    Raises:
        InvalidModelError: If the file is damaged, does not describe its binary
            weights, or describes them in another version of the metadata.

    Example:

    >>> for weight in tflite_export.read_packed("digits.tflite"):
    ...     print(weight.path, weight.shape, weight.alpha)
    """
    content = read_content(path)
    model = FlatModel(content)
    metadata = read_metadata(model)
    if metadata is None:
        raise InvalidModelError(
            "The model does not say where its binary weights are. Either "
            "tflite_export did not write it, or its format is 'float'. "
            f"Received: a model without the metadata '{METADATA_NAME}'"
        )
    return packed_weights(model, metadata)


def packed_weights(model: FlatModel, metadata: dict) -> list[PackedWeight]:
    """The binary weights of a model, given its metadata."""
    parts, owners = {}, {}
    with damage_as_error(f"metadata '{METADATA_NAME}'"):
        for entry in metadata["weights"]:
            # The first path with these signs. Others are twins.
            owner = owners.setdefault(tuple(entry["signs"]), entry["path"])
            _check_name(
                model, entry["signs"], owner, _suffix(entry["encoding"])
            )
            _check_name(model, entry["alpha"], entry["path"], "alpha")
            weight = _read_entry(model, entry)
            if _crc32(weight) != entry["crc32"]:
                raise ValueError(
                    f"the signs or α of '{weight.path}' have changed"
                )
            of_kernel = parts.setdefault(weight.path, {})
            of_kernel[entry["first_channel"]] = weight
        return [_joined(weights) for weights in parts.values()]


def _read_entry(model, entry):
    signs = _tensor(model, entry["signs"])
    shape = tuple(entry["stored_shape"])
    if entry["encoding"] == Storage.BITS:
        signs = unpack_signs(signs, shape)
    elif tuple(signs.shape) != shape:
        raise ValueError(f"signs of shape {signs.shape}, not {shape}")
    signs = np.where(signs > 0, np.int8(1), np.int8(-1))
    flip = [slice(None)] * len(shape)
    flip[entry["channel_axis"]] = _from_hex(entry["flipped"])
    signs[tuple(flip)] *= -1
    signs = signs.transpose(entry["keras_axes"])
    return PackedWeight(
        entry["path"],
        tuple(entry["shape"]),
        np.ascontiguousarray(signs.reshape(entry["shape"])),
        _tensor(model, entry["alpha"]).reshape(entry["alpha_shape"]).copy(),
    )


def _check_name(model, place, owner, ending):
    subgraph, number = place
    name = name_of(model.subgraphs[subgraph].tensors[number])
    if name != f"{owner}/{ending}":
        raise ValueError(f"it refers to '{name}', not to '{owner}/{ending}'")


def _crc32(weight):
    """The checksum of signs as int8 and α as float32, in Keras' order."""
    signs = np.ascontiguousarray(weight.signs, np.int8).tobytes()
    alpha = np.ascontiguousarray(weight.alpha, "<f4").tobytes()
    return zlib.crc32(signs + alpha)


def _suffix(encoding):
    """The end of the name of a tensor with signs."""
    return "sign_bits" if encoding == Storage.BITS else "signs"


def _joined(parts):
    """Joins the parts of a kernel, ordered by first channel."""
    weights = [parts[first] for first in sorted(parts)]
    signs = np.concatenate([weight.signs for weight in weights], axis=-1)
    return dataclasses.replace(weights[0], shape=signs.shape, signs=signs)


def _tensor(model, place):
    subgraph, number = place
    value = model.constant(model.subgraphs[subgraph].tensors[number])
    if value is None:
        raise ValueError(f"tensor {number} holds no data")
    return value


def read_metadata(model: FlatModel) -> dict | None:
    """The metadata about binary weights, or `None` if there is none."""
    for entry in model.model.metadata or []:
        if entry.name == METADATA_NAME.encode():
            data = model.model.buffers[entry.buffer].data
            with damage_as_error(f"metadata '{METADATA_NAME}'"):
                return _checked(json.loads(bytes(np.asarray(data, np.uint8))))
    return None


def _checked(content):
    """The content of metadata, with notes as texts, if it is all right."""
    version = content["version"]
    if version != VERSION:
        raise InvalidModelError(
            f"This keras_lab reads metadata of version {VERSION}. Read the "
            "file with the keras_lab that wrote it, or export the model again. "
            f"Received: '{METADATA_NAME}' of version {version!r:.60}"
        )
    _check(content, HEAD)
    others = {key: content[key] for key in content if key != "crc32"}
    if content["crc32"] != zlib.crc32(as_text(others)):
        raise ValueError("they have changed")
    for weight in content["weights"]:
        _check(weight, ENTRY)
        weight["note"] = str(list(Note)[weight["note"]])
    return content


def as_text(content: dict) -> bytes:
    """The JSON text that the checksum covers."""
    return json.dumps(content, separators=(",", ":")).encode()


def _is_text(value):
    return isinstance(value, str) and value.isprintable()


def _is_number(value):
    return type(value) is int and 0 <= value < 1 << 62


def _is_list(of):
    return lambda value: isinstance(value, list) and all(map(of, value))


# What the value of each key must be.
HEAD = {
    "format": _is_text,
    "float_bytes": _is_number,
    "weights": _is_list(lambda entry: isinstance(entry, dict)),
    "not_packed": _is_list(_is_text),
}
TEXTS = ("path", "operator", "arithmetic", "encoding", "flipped")
NUMBERS = ("first_channel", "channel_axis", "note", "crc32")
LISTS = ("shape", "signs", "stored_shape", "keras_axes", "alpha", "alpha_shape")
ENTRY = {
    **dict.fromkeys(TEXTS, _is_text),
    **dict.fromkeys(NUMBERS, _is_number),
    **dict.fromkeys(LISTS, _is_list(_is_number)),
}


def _check(content, kinds):
    for key, is_valid in kinds.items():
        if not is_valid(content[key]):
            raise ValueError(f"'{key}' is {content[key]!r:.60}")


def write_metadata(
    model: FlatModel,
    format: Format,
    float_bytes: int,
    sites: list[WeightSite],
    not_packed: list[str],
) -> None:
    """Writes a description of the weights into a model, after all steps.

    `float_bytes` is the size of the file with float32 weights, `not_packed` are
    the paths of binary kernels that are stored as float32.
    """
    content = {
        "version": VERSION,
        "format": str(format),
        "float_bytes": float_bytes,
        "weights": [
            _entry(model, site, kernel)
            for site in sites
            for kernel in (site.constant.kernel, *site.constant.twins)
        ],
        "not_packed": not_packed,
    }
    entry = schema.MetadataT()
    entry.name = METADATA_NAME
    text = as_text({**content, "crc32": zlib.crc32(as_text(content))})
    entry.buffer = model.add_buffer(np.frombuffer(text, np.uint8))
    model.model.metadata = [*(model.model.metadata or []), entry]


def _entry(model, site, kernel):
    stored = site.stored
    path = stored.path if kernel is None else kernel.path
    subgraph, number = site.place
    if kernel is site.constant.kernel:
        name = f"{path}/{_suffix(site.storage)}"
        model.subgraphs[subgraph].tensors[number].name = name
    alpha = _alpha(site.constant, kernel)
    main = model.subgraphs[0]
    tensor = model.add_constant(main, f"{path}/alpha", alpha.reshape(-1))
    entry = {
        "path": path,
        "operator": stored.operator,
        "arithmetic": "int8" if site.int8 else "float32",
        "note": list(Note).index(site.note),
        "shape": list(stored.shape),
        "first_channel": 0 if kernel is None else kernel.first_channel,
        "encoding": str(site.storage),
        "signs": [subgraph, number],
        "stored_shape": list(stored.signs.shape),
        "keras_axes": list(stored.to_keras),
        "channel_axis": stored.axis,
        "flipped": _as_hex(stored.flipped),
        "alpha": [0, tensor],
        "alpha_shape": list(alpha.shape),
    }
    return {**entry, "crc32": _crc32(_read_entry(model, entry))}


def _as_hex(channels):
    """A set of channels as bits, the first channel in the lowest bit."""
    bits = np.zeros(max(channels, default=-1) + 1, np.uint8)
    bits[channels] = 1
    return np.packbits(bits, bitorder="little").tobytes().hex()


def _from_hex(text):
    """The channels that `_as_hex` wrote."""
    data = np.frombuffer(bytes.fromhex(text), np.uint8)
    return np.flatnonzero(np.unpackbits(data, bitorder="little"))


def _alpha(constant, kernel):
    if kernel is not None:
        return np.asarray(kernel.alpha, np.float32)
    return constant.scales[0] if constant.is_uniform else constant.scales
