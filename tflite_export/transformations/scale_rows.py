"""The scales of rows, multiplied with the products instead of the weights.

As quantization a scale for each row takes twelve bytes: it has a zero point.
Here the weights are ±1, and their products are multiplied by the scales. Those
of the gates of a recurrent kernel are stored once a gate.
"""

import numpy as np

from tflite_export.find import BinaryConstant
from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.flatbuffer.schema import shape_of

__all__ = ["blocks_of", "can_scale_outputs", "scale_outputs"]

MOST_BLOCKS = 4


def blocks_of(scales: np.ndarray) -> np.ndarray | None:
    """The scales of equally large blocks of rows, `None` if there are many."""
    for count in range(2, MOST_BLOCKS + 1):
        if len(scales) % count:
            continue
        blocks = scales.reshape(count, -1)
        if np.all(blocks == blocks[:, :1]):
            return blocks[:, 0]
    return None


def can_scale_outputs(
    model: FlatModel, subgraph, operator, constant: BinaryConstant
) -> bool:
    """Whether it is a dense layer whose bias can be divided by the scales."""
    scales = constant.scales
    if (
        model.operator_name(operator) != "FULLY_CONNECTED"
        or constant.is_uniform
        or np.any(scales <= 0)
    ):
        return False
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
