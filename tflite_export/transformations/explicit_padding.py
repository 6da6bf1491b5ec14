"""Padding "same" as an operator of its own, where a runtime gets it wrong.

A stride longer than the kernel skips inputs, and "same" then pads by less than
nothing. XNNPACK in TensorFlow 2.21 silently computes something else for such a
convolution, unless its kernel is 1×1.
"""

from tflite_export.flatbuffer.model import FlatModel
from tflite_export.flatbuffer.schema import schema
from tflite_export.transformations.convolution import (
    has_fixed_size,
    missing,
    padding,
)
from tflite_export.transformations.replacement import Replacement

__all__ = ["pad_explicitly"]

CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")


def pad_explicitly(model: FlatModel) -> None:
    """Has PAD do the padding of convolutions that skip inputs."""
    for subgraph in model.subgraphs:
        for operator in list(subgraph.operators):
            if model.operator_name(operator) in CONVOLUTIONS:
                _pad(model, subgraph, operator)


def _pad(model, subgraph, operator):
    new = Replacement(model, subgraph, operator)
    sizes = list(
        zip(*(new.shape(t)[1:3] for t in (new.data, new.weights, new.output)))
    )
    options = operator.builtinOptions
    if (
        options.padding != schema.Padding.SAME
        or model.type_name(subgraph.tensors[new.data]) != "FLOAT32"
        or not has_fixed_size(subgraph, operator)
        or min(missing(operator, axis, *sizes[axis]) for axis in (0, 1)) >= 0
    ):
        return
    zeros = [padding(operator, axis, *sizes[axis]) for axis in (0, 1)]
    options.padding = schema.Padding.VALID
    operator.inputs[0] = new.pad(new.data, *zeros)
    position = subgraph.operators.index(operator)
    subgraph.operators[position:position] = new.operators
