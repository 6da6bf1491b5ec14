"""Padding "same" as an operator of its own, where a runtime gets it wrong.

If the stride is longer than the kernel, a convolution skips inputs, and "same"
would pad by a negative number. XNNPACK in TensorFlow 2.21 then silently
computes something else, unless the kernel is 1×1.
"""

from tflite_export.flatbuffer.model import FlatModel
from tflite_export.flatbuffer.schema import schema
from tflite_export.graph.replacement import Replacement, has_fixed_size

CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")


def can_apply(model: FlatModel, subgraph, operator) -> bool:
    """Whether it is a convolution with padding "same" that skips inputs."""
    if model.operator_name(operator) not in CONVOLUTIONS:
        return False
    new = Replacement(model, subgraph, operator)
    return (
        operator.builtinOptions.padding == schema.Padding.SAME
        and model.type_name(subgraph.tensors[new.data]) == "FLOAT32"
        and has_fixed_size(subgraph, operator)
        and min(new.missing(0), new.missing(1)) < 0
    )


def apply(model: FlatModel, subgraph, operator) -> None:
    """Pads with a PAD operator instead."""
    new = Replacement(model, subgraph, operator)
    operator.inputs[0] = new.pad(new.data, new.padding(0), new.padding(1))
    operator.builtinOptions.padding = schema.Padding.VALID
