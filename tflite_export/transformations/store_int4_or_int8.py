"""Weights stored as constants of the runtime's own types INT4 and INT8.

±1 fits into both, with the scale of a channel as quantization. Nothing has to
be unpacked: XNNPACK takes such constants as they are. For float arithmetic the
runtime converts the constant once.
"""

from tflite_export.flatbuffer.schema import pack_low_bits, schema
from tflite_export.flatbuffer.serialize import quantization
from tflite_export.formats import Format, Storage
from tflite_export.graph.dequantize import dequantize
from tflite_export.graph.weight_site import WeightSite


def can_apply(site: WeightSite) -> bool:
    """Whether the format is `"fast"`."""
    return site.format == Format.FAST


def apply(site: WeightSite) -> None:
    """Stores the constant in its own place."""
    weight = site.stored
    data, site.storage = weight.signs, Storage.INT8
    # Only this operator has INT4 kernels, and XNNPACK's takes an even number
    # of inputs.
    if (
        site.int8
        and weight.operator == "FULLY_CONNECTED"
        and weight.signs.shape[-1] % 2 == 0
        and site.runtime.has_int4
    ):
        data, site.storage = pack_low_bits(data, 4), Storage.INT4
    tensor = site.subgraph.tensors[weight.tensor]
    tensor.type = getattr(schema.TensorType, site.storage.upper())
    tensor.buffer = site.model.add_buffer(data)
    is_int4 = site.storage == Storage.INT4
    scales = weight.scales if is_int4 else weight.fewest_scales
    if not site.int8 and weight.is_uniform:
        scales = weight.scales[:1]  # A DEQUANTIZE needs no more.
    tensor.quantization = quantization(scales, weight.axis)
    if not site.int8:
        dequantize(site.model, site.subgraph, weight.tensor)
