"""Weights as constants of the runtime's own low-bit types.

±1 fits into INT8 and INT4, with the scale of a channel as quantization. Nothing
has to be unpacked: XNNPACK takes such constants as they are.
"""

from tflite_export.flatbuffer.schema import pack_low_bits, schema
from tflite_export.flatbuffer.serialize import quantization
from tflite_export.formats import Format, Storage
from tflite_export.graph.site import Site

__all__ = ["apply", "can_apply"]


def can_apply(site: Site) -> bool:
    """Whether the format is `"fast"`."""
    return site.format == Format.FAST


def apply(site: Site) -> None:
    """Stores the constant as INT4 or INT8 in its own place."""
    weight = site.stored
    site.storage = _storage(site)
    type_name = site.storage.upper()
    data = weight.signs
    if site.storage == Storage.INT4:
        data = pack_low_bits(data, 4)
    tensor = site.subgraph.tensors[weight.tensor]
    tensor.type = getattr(schema.TensorType, type_name)
    tensor.buffer = site.model.add_buffer(data)
    tensor.quantization = quantization(weight.scales, weight.axis)


def _storage(site):
    # Only this operator has INT4 kernels, and XNNPACK's takes an even number
    # of inputs.
    is_dense = site.stored.operator == "FULLY_CONNECTED"
    is_even = site.stored.signs.shape[-1] % 2 == 0
    return Storage.INT4 if site.int8 and is_dense and is_even else Storage.INT8
