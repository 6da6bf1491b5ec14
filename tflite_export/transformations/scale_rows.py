"""The products of rows multiplied by the scales, instead of the weights.

A scale per row takes twelve bytes as quantization, because it has a zero point.
So the weights are ±1, and the products are multiplied by the scales. The gates
of a recurrent kernel have one scale each, which is stored once per gate.
"""

import dataclasses

import numpy as np

from tflite_export.flatbuffer.schema import shape_of
from tflite_export.graph.weight_site import WeightSite
from tflite_export.graph.weights import bias_of
from tflite_export.transformations import dense_as_matmul, int8_arithmetic

MOST_BLOCKS = 4


def can_apply(site: WeightSite) -> bool:
    """Whether the rows of dense layers differ in scale.

    The weights must be unpacked, or be those of an old runtime, which knows one
    scale per dense layer only.
    """
    if not site.format.is_packed and site.runtime.has_channels_of_dense:
        return False
    return (
        site.arithmetic in (int8_arithmetic, dense_as_matmul)
        and not site.constant.is_uniform
        and site.can_scale_rows
    )


def apply(site: WeightSite) -> None:
    """Multiplies the outputs of the operators by the scales."""
    scales = site.stored.scales
    blocks = _blocks(scales)
    if blocks is None:
        tensor = site.model.small_constant(site.subgraph, scales)
    else:
        tensor = _repeat(site, blocks)
    for user in site.users:
        _scale_outputs(site.model, site.subgraph, user, scales, tensor)
    site.stored = dataclasses.replace(site.stored, scales=np.ones_like(scales))


def _blocks(scales):
    """The scales of equally large blocks of rows, or `None`."""
    for count in range(2, MOST_BLOCKS + 1):
        if len(scales) % count:
            continue
        blocks = scales.reshape(count, -1)
        if np.all(blocks == blocks[:, :1]):
            return blocks[:, 0]
    return None


def _repeat(site, blocks):
    """One scale per row, given one per block of rows."""
    unpacker, rows = site.unpacker, len(site.stored.scales)
    copies = (1, rows // len(blocks))
    inputs = [unpacker.constant(blocks[:, None]), unpacker.integers(copies)]
    output = (len(blocks), copies[1]), "FLOAT32"
    tensor = unpacker.reshape(unpacker.add("TILE", inputs, *output), (rows,))
    return unpacker.into_subgraph(tensor, site.stored.subgraph)


def _scale_outputs(model, subgraph, operator, scales, tensor):
    """Divides the bias by the scales, and multiplies the outputs.

    `tensor` holds the scales in this subgraph.
    """
    for bias in bias_of(operator):
        old = subgraph.tensors[bias]
        value = model.constant(old) / scales
        operator.inputs[2] = model.add_constant(subgraph, old.name, value)
        model.release(subgraph, bias)
    (output,) = operator.outputs.tolist()
    shape = shape_of(subgraph.tensors[output])
    products = model.add_tensor(subgraph, None, shape, "FLOAT32")
    operator.outputs = np.array([products], np.int32)
    options = operator.builtinOptions
    scaled = model.operator(
        "MUL",
        [products, tensor],
        [output],
        fusedActivationFunction=options.fusedActivationFunction,
    )
    options.fusedActivationFunction = 0
    position = subgraph.operators.index(operator)
    subgraph.operators.insert(position + 1, scaled)
