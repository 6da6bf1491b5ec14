"""Sign activations as {0, 1}, which int8 arithmetic represents exactly.

With x = 2z − 1 an operator's W·x + b becomes (2W)·z + (b − W·1). W·1 is the sum
of a channel's weights; where a convolution pads its inputs, of those weights
that do not fall on the padding, and so a map: few different rows and columns of
it are stored, and the runtime spreads them out when it allocates the model.
"""

import numpy as np

from tflite_export.find import BinaryConstant, data_input
from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.flatbuffer.schema import schema, shape_of
from tflite_export.transformations.convolution import (
    has_fixed_size,
    is_grouped,
    padding,
    steps,
)

__all__ = [
    "can_encode",
    "comes_from_sign",
    "encode_sign_inputs",
    "is_sign",
    "reaches_sign",
]

BIAS_INPUT = 2
# Operators that move their inputs about, or fill up with zeros.
MOVES = (
    "EXPAND_DIMS",
    "MAX_POOL_2D",
    "PAD",
    "RESHAPE",
    "SPACE_TO_BATCH_ND",
    "SQUEEZE",
    "TRANSPOSE",
)


def is_sign(model: FlatModel, subgraph, tensor: int):
    """x, if a tensor is sign(x) with sign(0) = +1; else `None`.

    That is SELECT_V2(EQUAL(x, 0), 1, SIGN(x)), as `keras_lab.freeze` has it.
    """
    select = model.producer(subgraph, tensor)
    if select is None or model.operator_name(select) != "SELECT_V2":
        return None
    condition, one, other = inputs_of(select)
    equal = model.producer(subgraph, condition)
    sign = model.producer(subgraph, other)
    if equal is None or model.operator_name(equal) != "EQUAL":
        return None
    if sign is None or model.operator_name(sign) != "SIGN":
        return None
    x, zero = inputs_of(equal)
    for index, expected in ((zero, 0), (one, 1)):
        value = model.constant(subgraph.tensors[index])
        if value is None or not np.all(value == expected):
            return None
    return x if inputs_of(sign) == [x] else None


def comes_from_sign(model: FlatModel, subgraph, tensor: int) -> bool:
    """Whether a tensor holds signs, moved about or padded."""
    for _ in subgraph.operators:
        if is_sign(model, subgraph, tensor) is not None:
            return True
        operator = model.producer(subgraph, tensor)
        if operator is None or model.operator_name(operator) not in MOVES:
            return False
        tensor = inputs_of(operator)[0]
    return False


def reaches_sign(model: FlatModel, subgraph, tensor: int, stop) -> bool:
    """Whether a tensor gets to a SIGN before it gets to other weights.

    Args:
        model: The model.
        subgraph: The tensor's subgraph.
        tensor: The tensor.
        stop: The names of operators with weights.
    """
    seen, open_ = set(), [tensor]
    while open_:
        for operator in model.consumers(subgraph, open_.pop()):
            name = model.operator_name(operator)
            if name == "SIGN" or (
                name == "WHILE" and _takes_signs(model, operator)
            ):
                return True
            if name not in stop and id(operator) not in seen:
                seen.add(id(operator))
                open_ += operator.outputs.tolist()
    return False


def _takes_signs(model, loop):
    body = model.subgraphs[loop.builtinOptions.bodySubgraphIndex]
    return any(model.operator_name(part) == "SIGN" for part in body.operators)


def can_encode(model: FlatModel, subgraph, operator) -> bool:
    """Whether an operator's data are signs, and the sums W·1 are known."""
    name = model.operator_name(operator)
    data = inputs_of(operator)[data_input(name)]
    if is_sign(model, subgraph, data) is None:
        return False
    if name == "FULLY_CONNECTED":
        return True
    if name not in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        return False
    grouped = is_grouped(model, subgraph, operator)
    return has_fixed_size(subgraph, operator) and not grouped


def encode_sign_inputs(
    model: FlatModel, constant: BinaryConstant, operator
) -> None:
    """Gives an operator z for its input sign(x).

    Its weights must become twice as large then.

    Args:
        model: The model to change.
        constant: The operator's weights.
        operator: An operator for which `can_encode`.
    """
    subgraph = model.subgraphs[constant.subgraph]
    name = model.operator_name(operator)
    position = data_input(name)
    x = is_sign(model, subgraph, int(operator.inputs[position]))
    z = _step(model, subgraph, x, operator)
    operator.inputs[position] = z
    aligned = np.moveaxis(constant.signs, constant.axis, -1)
    weights = aligned.astype(np.float64) * constant.scales
    if name == "FULLY_CONNECTED":
        sums = weights.sum(axis=0)[None, None]
        rows = columns = np.zeros(1, np.int32)
    else:
        weights = weights.sum(axis=2 if name == "CONV_2D" else 0)
        if name == "DEPTHWISE_CONV_2D":
            weights = weights.reshape(*constant.signs.shape[1:])
        sums, rows, columns = _spatial_sums(model, subgraph, operator, weights)
    if sums.shape[:2] == (1, 1):
        _add_to_bias(model, subgraph, operator, -sums[0, 0])
    else:
        _add_map(model, subgraph, operator, -sums, rows, columns)


def _step(model, subgraph, x, operator):
    """Adds the operators of z = 1 where x ≥ 0 and 0 elsewhere."""
    shape = shape_of(subgraph.tensors[x])
    condition = model.add_tensor(subgraph, "is_positive", shape, "BOOL")
    z = model.add_tensor(subgraph, "zero_or_one", shape, "FLOAT32")
    signature = subgraph.tensors[x].shapeSignature
    for index in (condition, z):
        subgraph.tensors[index].shapeSignature = signature
    zero, one = (
        model.add_constant(subgraph, name, np.float32(value))
        for name, value in (("zero", 0), ("one", 1))
    )
    position = subgraph.operators.index(operator)
    subgraph.operators[position:position] = [
        model.operator("GREATER_EQUAL", [x, zero], [condition]),
        model.operator("SELECT_V2", [condition, one, zero], [z]),
    ]
    return z


def _spatial_sums(model, subgraph, operator, weights):
    """Sums over the taps that fall on data: [rows, columns, channels].

    Returns the different rows and columns of the map, and for each row and
    column of the output which of them it is.
    """
    data = shape_of(subgraph.tensors[int(operator.inputs[0])])[1:3]
    output = shape_of(subgraph.tensors[int(operator.outputs[0])])[1:3]
    on_data = []
    for axis in (0, 1):
        taps = weights.shape[axis]
        stride, dilation = steps(operator, axis)
        before, _ = padding(operator, axis, data[axis], taps, output[axis])
        places = np.arange(output[axis])[:, None] * stride - before
        places = places + np.arange(taps) * dilation
        on_data.append((places >= 0) & (places < data[axis]))
    (rows, which_row), (columns, which_column) = (
        np.unique(valid, axis=0, return_inverse=True) for valid in on_data
    )
    sums = np.einsum("rh,cw,hwo->rco", rows, columns, weights)
    return (
        sums,
        which_row.reshape(-1).astype(np.int32),
        which_column.reshape(-1).astype(np.int32),
    )


def _add_to_bias(model, subgraph, operator, addition):
    inputs = inputs_of(operator)
    bias = np.zeros(len(addition))
    if len(inputs) > BIAS_INPUT and inputs[BIAS_INPUT] >= 0:
        bias = model.constant(subgraph.tensors[inputs[BIAS_INPUT]])
    value = (bias.astype(np.float64) + addition).astype(np.float32)
    index = model.add_constant(subgraph, "bias", value)
    operator.inputs = np.array([*inputs[:BIAS_INPUT], index], np.int32)


def _add_map(model, subgraph, operator, addition, rows, columns):
    """Adds a map to the outputs, before the fused activation."""
    (output,) = operator.outputs.tolist()
    shape = shape_of(subgraph.tensors[output])
    small = addition.astype(np.float32)[None]
    table = model.add_constant(subgraph, "border_sums", small)
    tall = model.add_tensor(
        subgraph,
        "border_sums/rows",
        (1, len(rows), *small.shape[2:]),
        "FLOAT32",
    )
    full = model.add_tensor(
        subgraph, "border_sums/map", (1, *shape[1:]), "FLOAT32"
    )
    product = model.add_tensor(subgraph, "without_border", shape, "FLOAT32")
    subgraph.tensors[product].shapeSignature = subgraph.tensors[
        output
    ].shapeSignature
    operator.outputs = np.array([product], np.int32)
    options = operator.builtinOptions
    activation = options.fusedActivationFunction
    options.fusedActivationFunction = schema.ActivationFunctionType.NONE
    position = subgraph.operators.index(operator) + 1
    row_index = model.add_constant(subgraph, "rows", rows)
    column_index = model.add_constant(subgraph, "columns", columns)
    subgraph.operators[position:position] = [
        model.operator("GATHER", [table, row_index], [tall], axis=1),
        model.operator("GATHER", [tall, column_index], [full], axis=2),
        model.operator(
            "ADD",
            [product, full],
            [output],
            fusedActivationFunction=activation,
        ),
    ]
