"""Weights that are not binary, stored in 8 or 16 bits.

First and last layers, embeddings and biases are float32 by default. In int8, a
matrix becomes integers with one scale per channel. Where the format computes in
int8, the runtime multiplies them as they are ("dynamic range"). Everything else
becomes float16 or int8 behind a DEQUANTIZE, which the runtime runs once. Only
the bias of an operator with integer weights stays float32: with any other one
XNNPACK fails to load the file.
"""

import numpy as np

from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.flatbuffer.schema import schema, shape_of
from tflite_export.flatbuffer.serialize import quantization
from tflite_export.formats import Format, OtherWeights
from tflite_export.graph.replacement import is_grouped
from tflite_export.graph.signs import comes_from_sign, reaches_sign
from tflite_export.graph.site import CONSTANT_INT8
from tflite_export.graph.weights import (
    ALWAYS_PER_CHANNEL,
    FIRST_BIAS,
    INTEGERS,
    WEIGHTED_OPERATORS,
    reads_as_weights,
)
from tflite_export.runtimes import Runtime, weights_of
from tflite_export.transformations.int8_arithmetic import compute_in_int8

# The operator and the tensor that restore smaller ones take as many bytes.
FEWEST_NUMBERS = 256
LARGEST_INT8 = 127
# Their inputs are other subgraphs' inputs.
CONTROL = ("WHILE", "IF", "CALL_ONCE")


def store_other_weights(
    model: FlatModel,
    kind: OtherWeights,
    format: Format,
    runtime: Runtime,
    binary: set,
) -> None:
    """Stores the float constants of a model.

    Args:
        model: The model. It is changed.
        kind: How to store them.
        format: The format of the file. It decides on the arithmetic.
        runtime: The oldest runtime that must run the file.
        binary: The places of binary weights, which stay as they are. A place
            is the number of a subgraph and of a tensor in it.
    """
    if kind == OtherWeights.FLOAT32:
        return
    for number, subgraph in enumerate(model.subgraphs):
        folded = _folded_inputs(model, subgraph)
        found = [
            index
            for index, tensor in enumerate(subgraph.tensors)
            if (number, index) not in binary
            and index not in folded
            and index not in subgraph.outputs
            and model.type_name(tensor) == "FLOAT32"
            and np.prod(shape_of(tensor)) >= FEWEST_NUMBERS
            and model.is_constant(tensor)
        ]
        # Matrices first: the type of a bias depends on that of the weights.
        for index in sorted(found, key=lambda i: -_rank(subgraph, i)):
            _store(model, subgraph, index, kind, format, runtime)


def _folded_inputs(model, subgraph):
    """Constants that must stay as they are.

    What the runtime computes from constants alone, it computes once, unless a
    DEQUANTIZE is among the operators.
    """
    known = {
        index
        for index, tensor in enumerate(subgraph.tensors)
        if model.is_constant(tensor)
    }
    folded = set()
    for operator in subgraph.operators:
        inputs = {index for index in inputs_of(operator) if index >= 0}
        if inputs <= known:
            known.update(operator.outputs.tolist())
            folded |= inputs
        elif model.operator_name(operator) in CONTROL:
            folded |= inputs
    return folded


def _rank(subgraph, index):
    return len(shape_of(subgraph.tensors[index]))


def _store(model, subgraph, index, kind, format, runtime):
    users = model.consumers(subgraph, index)
    if not users or _is_bias_of_integers(model, subgraph, users, index):
        return
    is_matrix = _rank(subgraph, index) > 1
    near_signs = _is_near_signs(model, subgraph, users)
    if kind == OtherWeights.FLOAT16 or not is_matrix or near_signs:
        _store_float16(model, subgraph, index)
    elif _is_table(model, users, index):
        _quantize(model, subgraph, index, None)
        for user in users:
            _restore_rows(model, subgraph, user, index)
    else:
        in_int8 = not format.is_exact and _has_kernel(
            model, subgraph, users, index, runtime
        )
        axis = _channel_axis(model, users, index)
        if in_int8 and not _has_channels(model, users, runtime):
            axis = None
        largest = _largest(model.constant(subgraph.tensors[index]), axis)
        names = {model.operator_name(user) for user in users}
        if np.ptp(largest) == 0 and names.isdisjoint(ALWAYS_PER_CHANNEL):
            # Old runtimes take several scales that are all equal for zeros.
            axis = None
        _quantize(model, subgraph, index, axis)
        if not in_int8:
            _dequantize(model, subgraph, index)
            return
        for user in users:
            compute_in_int8(user)


def _is_bias_of_integers(model, subgraph, users, index):
    return any(
        model.operator_name(user) in WEIGHTED_OPERATORS
        and index in inputs_of(user)[FIRST_BIAS:]
        and model.type_name(weights_of(model, subgraph, user)) in INTEGERS
        for user in users
    )


def _store_float16(model, subgraph, index):
    tensor = subgraph.tensors[index]
    with np.errstate(over="ignore"):
        halves = model.constant(tensor).astype(np.float16)
    if np.all(np.isfinite(halves)):
        tensor.type = schema.TensorType.FLOAT16
        tensor.buffer = model.add_buffer(halves)
        _dequantize(model, subgraph, index)


def _is_table(model, users, index):
    """Whether all that is done is to look up rows, as an embedding does."""
    return all(
        model.operator_name(user) == "GATHER"
        and inputs_of(user)[0] == index
        and inputs_of(user).count(index) == 1
        for user in users
    )


def _channel_axis(model, users, index):
    """The axis of channels, or `None` if the operators have none in common."""
    axes = {
        WEIGHTED_OPERATORS[model.operator_name(user)].axis
        if reads_as_weights(model, user, index)
        else None
        for user in users
    }
    return axes.pop() if len(axes) == 1 else None


def _is_near_signs(model, subgraph, users):
    """Whether a rounding error may become a wrong sign."""
    return any(
        reaches_sign(model, subgraph, int(user.outputs[0]))
        or comes_from_sign(model, subgraph, inputs_of(user)[0])
        for user in users
    )


def _has_channels(model, users, runtime):
    """Whether the runtime takes a scale per channel."""
    names = map(model.operator_name, users)
    return runtime.has_channels_of_dense or "FULLY_CONNECTED" not in names


def _has_kernel(model, subgraph, users, index, runtime):
    """Whether all operators multiply float data by int8 weights."""
    names = set(CONSTANT_INT8)
    if not runtime.has_channels_of_dense:
        names.remove("TRANSPOSE_CONV")
    return all(
        model.operator_name(user) in names
        and reads_as_weights(model, user, index)
        and not is_grouped(model, subgraph, user)
        for user in users
    )


def _quantize(model, subgraph, index, axis):
    """Stores int8 with one scale per channel along an axis, or one scale."""
    tensor = subgraph.tensors[index]
    value = model.constant(tensor)
    largest = _largest(value, axis)
    parameters = quantization(largest.reshape(-1) / LARGEST_INT8, axis or 0)
    scales = parameters.scale.reshape(largest.shape)
    tensor.type = schema.TensorType.INT8
    tensor.buffer = model.add_buffer(np.rint(value / scales).astype(np.int8))
    tensor.quantization = parameters


def _largest(value, axis):
    """The largest absolute number per channel; in all, without an axis."""
    axis = axis if axis is None else axis % value.ndim
    others = tuple(i for i in range(value.ndim) if i != axis)
    return np.abs(value).max(axis=others, keepdims=True)


def _dequantize(model, subgraph, index):
    """Makes the operators that read a constant read it as float32."""
    users = model.consumers(subgraph, index)
    shape = shape_of(subgraph.tensors[index])
    floats = model.insert(
        subgraph, 0, "DEQUANTIZE", [index], None, shape, "FLOAT32"
    )
    for user in users:
        user.inputs[user.inputs == index] = floats


def _restore_rows(model, subgraph, gather, table):
    """Makes GATHER look up integers, and converts its result to float32."""
    (output,) = gather.outputs.tolist()
    tensor = subgraph.tensors[output]
    rows = model.add_tensor(
        subgraph,
        None,
        shape_of(tensor),
        "INT8",
        subgraph.tensors[table].quantization,
    )
    subgraph.tensors[rows].shapeSignature = tensor.shapeSignature
    gather.outputs = np.array([rows], np.int32)
    model.require_version(gather, 2)
    position = subgraph.operators.index(gather) + 1
    step = model.operator("DEQUANTIZE", [rows], [output])
    subgraph.operators.insert(position, step)
