"""Weights stored as sign bits, unpacked when the model is allocated.

For int8 arithmetic the bits become ±1, with the scale as quantization. For
float arithmetic a second GATHER looks up −s or +s. See `graph/packed_bits.py`.
"""

import numpy as np

from tflite_export.flatbuffer.serialize import quantization
from tflite_export.formats import Storage
from tflite_export.graph.packed_bits import BITS, SIGNS
from tflite_export.graph.weight_site import WeightSite
from tflite_export.transformations import conv_as_winograd


def can_apply(site: WeightSite) -> bool:
    """Whether weights are stored as bits and no other step unpacks them."""
    return site.format.is_packed and site.arithmetic is not conv_as_winograd


def apply(site: WeightSite) -> None:
    """Replaces the constant by its bits and the operators that unpack them."""
    weight, unpacker = site.stored, site.unpacker
    if not site.int8 and not weight.is_uniform:
        site.stored = weight.with_channels_first()
    bits = unpacker.store_signs(site.stored)
    if site.int8:
        shape = weight.signs.shape
        tensor = unpacker.digits(bits, SIGNS, shape)
    else:
        tensor = _floats(unpacker, bits, site.stored)
    if site.stored.axis != weight.axis:
        tensor = _move_channels(unpacker, tensor, weight)
    tensor = unpacker.into_subgraph(tensor, weight.subgraph)
    if site.int8:
        site.subgraph.tensors[tensor].quantization = quantization(
            weight.fewest_scales, weight.axis
        )
    for operator in site.subgraph.operators:
        operator.inputs[operator.inputs == weight.tensor] = tensor
    site.subgraph.tensors[weight.tensor].buffer = 0
    site.place = 0, bits
    site.storage = Storage.BITS


def _floats(unpacker, bits, weight):
    """−s and +s, looked up by the bit. Several scales need channels first."""
    shape = weight.signs.shape
    digits = unpacker.digits(bits, BITS, shape)
    values = np.stack([-weight.scales, weight.scales], axis=-1)
    batched = 0 if weight.is_uniform else 1
    table = unpacker.constant(values if batched else values[0])
    options = {"version": 6, "axis": batched, "batchDims": batched}
    return unpacker.add("GATHER", [table, digits], shape, "FLOAT32", **options)


def _move_channels(unpacker, tensor, weight):
    """Moves the channels from the front to where the operator has them."""
    order = np.insert(np.arange(1, weight.signs.ndim), weight.axis, 0)
    output = weight.signs.shape, "FLOAT32"
    inputs = [tensor, unpacker.integers(order)]
    return unpacker.add("TRANSPOSE", inputs, *output, version=4)
