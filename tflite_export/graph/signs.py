"""Sign activations in a graph: where they are, and where they lead."""

import numpy as np

from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.graph.replacement import has_fixed_size, is_grouped
from tflite_export.graph.weights import WEIGHTED_OPERATORS, bias_of, data_of

# Operators that move their inputs to other places, or pad them with zeros.
MOVES = (
    "EXPAND_DIMS",
    "MAX_POOL_2D",
    "PAD",
    "RESHAPE",
    "SPACE_TO_BATCH_ND",
    "SQUEEZE",
    "TRANSPOSE",
)


def sign_argument(model: FlatModel, subgraph, tensor: int) -> int | None:
    """x if the tensor is sign(x) with sign(0) = +1, else `None`.

    The pattern is SELECT_V2(EQUAL(x, 0), 1, SIGN(x)): `keras_lab.freeze` writes
    the sign so.
    """
    select = model.producer(subgraph, tensor, "SELECT_V2")
    if select is None:
        return None
    condition, one, other = inputs_of(select)
    equal = model.producer(subgraph, condition, "EQUAL")
    sign = model.producer(subgraph, other, "SIGN")
    if equal is None or sign is None:
        return None
    x, zero = inputs_of(equal)
    for index, expected in ((zero, 0), (one, 1)):
        value = model.constant(subgraph.tensors[index])
        if value is None or not np.all(value == expected):
            return None
    return x if inputs_of(sign) == [x] else None


def comes_from_sign(model: FlatModel, subgraph, tensor: int) -> bool:
    """Whether a tensor holds signs, perhaps moved or padded."""
    for _ in subgraph.operators:
        if sign_argument(model, subgraph, tensor) is not None:
            return True
        operator = model.producer(subgraph, tensor, *MOVES)
        if operator is None:
            return False
        tensor = inputs_of(operator)[0]
    return False


def reaches_sign(
    model: FlatModel, subgraph, tensor: int, ends=lambda operator: False
) -> bool:
    """Whether a SIGN depends on a tensor with no other weights in between.

    Does not look behind an operator for which `ends(operator)` is true.
    """
    seen, open_ = set(), [tensor]
    while open_:
        for operator in model.consumers(subgraph, open_.pop()):
            name = model.operator_name(operator)
            parts = [operator]
            if name == "WHILE":
                body = operator.builtinOptions.bodySubgraphIndex
                parts = model.subgraphs[body].operators
            if "SIGN" in map(model.operator_name, parts):
                return True
            if (
                name not in WEIGHTED_OPERATORS
                and id(operator) not in seen
                and not ends(operator)
            ):
                seen.add(id(operator))
                open_ += operator.outputs.tolist()
    return False


def may_tie(model: FlatModel, subgraph, operator) -> bool:
    """Whether signs are taken of an operator's sums of ±α, which may be zero.

    Not if a number other than zero is added to each sum in between, such as the
    offset of a batch norm.
    """

    def is_number(tensor):
        value = model.constant(subgraph.tensors[tensor])
        return value is not None and np.all(value)

    def ends(operator):
        is_sum = model.operator_name(operator) in ("ADD", "SUB")
        return is_sum and any(map(is_number, inputs_of(operator)))

    if any(map(is_number, bias_of(operator))):
        return False
    return reaches_sign(model, subgraph, int(operator.outputs[0]), ends)


def can_encode(model: FlatModel, subgraph, operator) -> bool:
    """Whether `sign_inputs` can encode the data of an operator as {0, 1}.

    The data must be signs, and the sums over the weights must be known.
    """
    name = model.operator_name(operator)
    if sign_argument(model, subgraph, data_of(model, operator)) is None:
        return False
    if name == "FULLY_CONNECTED":
        return True
    if name not in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        return False
    grouped = is_grouped(model, subgraph, operator)
    return has_fixed_size(subgraph, operator) and not grouped
