"""The versions of operators that read integer weights.

A runtime refuses an operator of a higher version than it knows. So the version
must be high enough that no runtime silently computes something else, and no
higher, so that older runtimes take the file too.
"""

from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.graph.weights import WEIGHTED_OPERATORS

INTEGERS = ("INT8", "INT4", "INT2")
# The lowest versions that know float data with int8 weights, which have one
# scale, or one per channel.
HYBRID = {
    "FULLY_CONNECTED": (9, 12),
    "CONV_2D": (2, 5),
    "DEPTHWISE_CONV_2D": (4, 6),
    "TRANSPOSE_CONV": (2, 2),
    "DEQUANTIZE": (2, 5),
}


def set_versions(model: FlatModel) -> None:
    """Raises the versions of operators to what their weights need."""
    for subgraph in model.subgraphs:
        for operator in subgraph.operators:
            name = model.operator_name(operator)
            if name not in HYBRID:
                continue
            weights = weights_of(model, subgraph, operator)
            if model.type_name(weights) in INTEGERS:
                several = has_several_scales(weights)
                model.require_version(operator, HYBRID[name][several])


def weights_of(model: FlatModel, subgraph, operator):
    """The tensor that an operator of `HYBRID` has as weights."""
    weighted = WEIGHTED_OPERATORS.get(model.operator_name(operator))
    position = 0 if weighted is None else weighted.weights
    return subgraph.tensors[inputs_of(operator)[position]]


def has_several_scales(tensor) -> bool:
    """Whether the integers of a tensor have more than one scale."""
    parameters = tensor.quantization
    scales = None if parameters is None else parameters.scale
    return scales is not None and len(scales) > 1
