"""A dense layer on many rows as a matrix product, for unpacked weights.

The runtime multiplies weights that are computed row by row, with one thread.
XNNPACK, which runs all the rest, wants constants for a dense layer, but
multiplies any two float matrices.
"""

import math

from tflite_export.flatbuffer.model import FlatModel
from tflite_export.transformations.convolution import has_fixed_size
from tflite_export.transformations.replacement import Replacement

__all__ = ["can_be_matmul", "dense_as_matmul"]

# How many rows it takes until the product is faster than the runtime's own
# operator, in int8 and in float. Measured with 128 to 2048 inputs.
FEWEST_ROWS_INT8, FEWEST_ROWS_FLOAT = 16, 2


def can_be_matmul(model: FlatModel, subgraph, operator, int8: bool) -> bool:
    """Whether a dense layer multiplies enough rows, for any batch size.

    Args:
        model: The model.
        subgraph: Where the operator is.
        operator: An operator of any kind.
        int8: Whether it would compute in int8 otherwise.
    """
    if model.operator_name(operator) != "FULLY_CONNECTED":
        return False
    rows, _ = _sizes(Replacement(model, subgraph, operator))
    fewest = FEWEST_ROWS_INT8 if int8 else FEWEST_ROWS_FLOAT
    return has_fixed_size(subgraph, operator) and rows >= fewest


def dense_as_matmul(model: FlatModel, subgraph, operator) -> None:
    """Replaces a dense layer by operators for any weights."""
    new = Replacement(model, subgraph, operator)
    rows, inputs = _sizes(new)
    output = new.shape(new.output)
    matrix = new.reshape(new.data, (rows, inputs))
    # The second matrix is copied at each inference: not the weights.
    product = new.add(
        "BATCH_MATMUL", [new.weights, matrix], (output[-1], rows), adjY=True
    )
    product = new.add("TRANSPOSE", [product], (rows, output[-1]), [1, 0])
    new.finish(new.reshape(product, output))


def _sizes(new):
    """How many vectors there are, of the batch size in the file; how long."""
    inputs = new.shape(new.weights)[1]
    return math.prod(new.shape(new.data)) // inputs, inputs
