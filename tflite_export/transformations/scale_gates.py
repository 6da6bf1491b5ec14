"""The scales of a few blocks of rows, multiplied with the products instead.

Each gate of a recurrent kernel has an α of its own. As quantization that is a
scale and a zero point for each row, twelve bytes, thousands of times the same
few numbers. Here the weights are ±1, and their products are multiplied by α.
"""

import numpy as np

from tflite_export.find import BinaryConstant
from tflite_export.flatbuffer import FlatModel, inputs_of
from tflite_export.tflite_schema import shape_of

__all__ = ["blocks_of", "can_scale_outputs", "scale_outputs"]

MOST_BLOCKS = 4


def blocks_of(constant: BinaryConstant) -> np.ndarray | None:
    """The scales of equally large blocks of rows, `None` if there are many."""
    scales = constant.scales
    if constant.operator != "FULLY_CONNECTED" or constant.is_uniform:
        return None
    for count in range(2, MOST_BLOCKS + 1):
        if len(scales) % count:
            continue
        blocks = scales.reshape(count, -1)
        if np.all(blocks == blocks[:, :1]) and np.all(blocks > 0):
            return blocks[:, 0]
    return None


def can_scale_outputs(
    model: FlatModel, subgraph, operator, scales: np.ndarray
) -> bool:
    """Whether the bias of a FULLY_CONNECTED can be divided by the scales."""
    for bias in inputs_of(operator)[2:]:
        if bias < 0:
            continue
        value = model.constant(subgraph.tensors[bias])
        with np.errstate(over="ignore"):
            if value is None or not np.all(np.isfinite(value / scales)):
                return False
    return True


def scale_outputs(
    model: FlatModel, subgraph, operator, scales: np.ndarray, tensor: int
) -> None:
    """Multiplies the outputs of a FULLY_CONNECTED, whose weights become ±1.

    Args:
        model: The model to change.
        subgraph: Where the operator is.
        operator: The operator.
        scales: A scale a row.
        tensor: The tensor with the scales, in that subgraph.
    """
    inputs = inputs_of(operator)
    if len(inputs) > 2 and inputs[2] >= 0:
        bias = subgraph.tensors[inputs[2]]
        value = model.constant(bias) / scales
        operator.inputs[2] = model.add_constant(subgraph, bias.name, value)
        model.release(subgraph, inputs[2])
    (output,) = operator.outputs.tolist()
    shape = shape_of(subgraph.tensors[output])
    products = model.add_tensor(subgraph, "products", shape, "FLOAT32")
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
