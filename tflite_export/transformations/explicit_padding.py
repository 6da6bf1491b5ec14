"""Padding "same" as an operator of its own, where a runtime gets it wrong.

A stride longer than the kernel skips inputs, and "same" then pads by less than
nothing. XNNPACK in TensorFlow 2.21 silently computes something else for such a
convolution, unless its kernel is 1×1.
"""

import numpy as np

from tflite_export.flatbuffer import FlatModel, inputs_of
from tflite_export.tflite_schema import schema, shape_of
from tflite_export.transformations.convolution import (
    has_fixed_size,
    missing,
    padding,
)

__all__ = ["pad_explicitly"]

CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")


def pad_explicitly(model: FlatModel) -> None:
    """Has PAD do the padding of convolutions that skip inputs."""
    for subgraph in model.subgraphs:
        for operator in list(subgraph.operators):
            if model.operator_name(operator) in CONVOLUTIONS:
                _pad(model, subgraph, operator)


def _pad(model, subgraph, operator):
    data, weights = (subgraph.tensors[i] for i in inputs_of(operator)[:2])
    output = subgraph.tensors[int(operator.outputs[0])]
    sizes = list(
        zip(shape_of(data)[1:3], shape_of(weights)[1:3], shape_of(output)[1:3])
    )
    options = operator.builtinOptions
    if (
        options.padding != schema.Padding.SAME
        or model.type_name(data) != "FLOAT32"
        or not has_fixed_size(subgraph, operator)
        or min(missing(operator, axis, *sizes[axis]) for axis in (0, 1)) >= 0
    ):
        return
    zeros = np.array(
        [
            (0, 0),
            *(padding(operator, axis, *sizes[axis]) for axis in (0, 1)),
            (0, 0),
        ],
        np.int32,
    )
    options.padding = schema.Padding.VALID
    if not zeros.any():
        return
    shape = np.array(shape_of(data)) + zeros.sum(axis=1)
    padded = model.add_tensor(
        subgraph, "padded", tuple(shape.tolist()), "FLOAT32"
    )
    pad = model.operator(
        "PAD",
        [inputs_of(operator)[0], model.small_constant(subgraph, zeros)],
        [padded],
    )
    operator.inputs[0] = padded
    subgraph.operators.insert(subgraph.operators.index(operator), pad)
