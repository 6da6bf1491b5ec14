"""Padding "same" as an operator of its own, where a runtime gets it wrong.

If the stride is longer than the kernel, a convolution skips inputs, and "same"
would pad by a negative number. XNNPACK in TensorFlow 2.21 then silently
computes something else, unless the kernel is 1×1.
"""

from tflite_export.flatbuffer.model import FlatModel
from tflite_export.flatbuffer.schema import schema
from tflite_export.graph.convolution import has_fixed_size, missing, padding
from tflite_export.graph.replacement import Replacement

__all__ = ["apply", "can_apply"]

CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")


def can_apply(model: FlatModel, subgraph, operator) -> bool:
    """Whether it is a convolution with padding "same" that skips inputs."""
    if model.operator_name(operator) not in CONVOLUTIONS:
        return False
    new = Replacement(model, subgraph, operator)
    sizes = _sizes(new)
    return (
        operator.builtinOptions.padding == schema.Padding.SAME
        and model.type_name(subgraph.tensors[new.data]) == "FLOAT32"
        and has_fixed_size(subgraph, operator)
        and min(missing(operator, axis, *sizes[axis]) for axis in (0, 1)) < 0
    )


def apply(model: FlatModel, subgraph, operator) -> None:
    """Lets PAD do the padding."""
    new = Replacement(model, subgraph, operator)
    sizes = _sizes(new)
    zeros = [padding(operator, axis, *sizes[axis]) for axis in (0, 1)]
    operator.builtinOptions.padding = schema.Padding.VALID
    operator.inputs[0] = new.pad(new.data, *zeros)
    position = subgraph.operators.index(operator)
    subgraph.operators[position:position] = new.operators


def _sizes(new):
    """Lengths of data, kernel and output, along the rows and the columns."""
    shapes = (new.shape(t)[1:3] for t in (new.data, new.weights, new.output))
    return list(zip(*shapes))
