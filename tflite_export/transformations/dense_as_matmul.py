"""A dense layer on many rows as a matrix product, for unpacked weights.

The runtime multiplies computed weights row by row, in one thread. XNNPACK,
which runs all the rest, takes only constants as weights of a dense layer, but
it can multiply any two float matrices.
"""

import math

from tflite_export.flatbuffer.model import FlatModel
from tflite_export.graph.replacement import Replacement, has_fixed_size
from tflite_export.graph.weight_site import WeightSite

# From how many rows on the product is faster than the runtime's own operator,
# in int8 and in float. Measured with 128 to 2048 inputs.
FEWEST_ROWS_INT8, FEWEST_ROWS_FLOAT = 16, 2


def can_apply(site: WeightSite) -> bool:
    """Whether dense layers multiply unpacked weights by enough rows."""
    fewest = FEWEST_ROWS_FLOAT if site.why_not_int8 else FEWEST_ROWS_INT8
    return site.format.is_packed and site.every_user(_has_rows, fewest)


def apply(site: WeightSite) -> None:
    """Replaces the dense layers by products."""
    for user in site.users:
        _replace(Replacement(site.model, site.subgraph, user))


def _has_rows(model: FlatModel, subgraph, operator, fewest):
    if model.operator_name(operator) != "FULLY_CONNECTED":
        return False
    rows, _ = _sizes(Replacement(model, subgraph, operator))
    return has_fixed_size(subgraph, operator) and rows >= fewest


def _replace(new):
    rows, inputs = _sizes(new)
    output = new.shape(new.output)
    matrix = new.reshape(new.data, (rows, inputs))
    product = new.weights_times_rows(matrix, rows, output[-1])
    new.finish(new.reshape(product, output))


def _sizes(new):
    """The number of rows at the file's batch size, and their length."""
    inputs = new.shape(new.weights)[1]
    return math.prod(new.shape(new.data)) // inputs, inputs
