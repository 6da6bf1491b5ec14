"""Weights that are not binary, stored in 8 or 16 bits.

First and last layers, embeddings and biases are float32 by default. In int8, a
matrix becomes integers with one scale per channel. Where the format computes in
int8, the runtime multiplies them as they are ("dynamic range"). Everything else
becomes float16 or int8 behind a DEQUANTIZE, which the runtime runs once. Only
the bias of an operator with integer weights stays float32: with any other one
XNNPACK fails to load the file. In int8 it is rounded to bfloat16, so that a
container takes about two bytes per number.
"""

import numpy as np

from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.flatbuffer.schema import schema, shape_of
from tflite_export.flatbuffer.serialize import quantization
from tflite_export.formats import OtherWeights
from tflite_export.graph.dequantize import dequantize
from tflite_export.graph.replacement import is_grouped
from tflite_export.graph.signs import comes_from_sign, reaches_sign
from tflite_export.graph.weights import (
    ALWAYS_PER_CHANNEL,
    INTEGERS,
    WEIGHTED_OPERATORS,
    bias_of,
    reads_as_weights,
    weights_of,
)
from tflite_export.recipe import Recipe
from tflite_export.transformations.int8_arithmetic import compute_in_int8

# The operator and the tensor that restore smaller ones take as many bytes.
FEWEST_NUMBERS = 256
LARGEST_INT8 = 127
# All rows of a table share one scale. If one is this many times smaller than
# the largest, only the integers from -8 to 8 are left for it.
MOST_ROW_RATIO = 16
# Rounding to 16 bits costs 0.0005 at most, unless the numbers are so small that
# float16 has few bits for them, or none.
MOST_FLOAT16_ERROR = 1e-3
# Their inputs are other subgraphs' inputs.
CONTROL = ("WHILE", "IF", "CALL_ONCE")


def store_other_weights(model: FlatModel, recipe: Recipe, binary: set) -> None:
    """Stores the float constants of a model.

    The format decides on the arithmetic. The places of binary weights, which
    stay as they are, are pairs of a subgraph and a tensor in it.
    """
    if recipe.other_weights == OtherWeights.FLOAT32:
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
        found.sort(key=lambda index: -len(shape_of(subgraph.tensors[index])))
        for index in found:
            _Constant(model, subgraph, index).store(recipe)


def _folded_inputs(model, subgraph):
    """Constants that must stay as they are.

    What the runtime computes from constants alone, it computes once, unless a
    DEQUANTIZE is among the operators.
    """
    known, folded = model.computed_once(subgraph), set()
    for operator in subgraph.operators:
        inputs = {index for index in inputs_of(operator) if index >= 0}
        if inputs <= known or model.operator_name(operator) in CONTROL:
            folded |= inputs
    return folded


class _Constant:
    """A float constant and the operators that read it."""

    def __init__(self, model, subgraph, index):
        self.model, self.subgraph, self.index = model, subgraph, index
        self.tensor = subgraph.tensors[index]
        self.value = model.constant(self.tensor)
        self.users = model.consumers(subgraph, index)
        self.names = {model.operator_name(user) for user in self.users}

    def store(self, recipe):
        kind = recipe.other_weights
        if not self.users:
            return
        if self._is_bias_of_integers():
            if kind == OtherWeights.INT8 and not self._is_near_signs():
                self._round_to_bfloat16()
            return
        is_table = self._is_table()
        if (
            kind == OtherWeights.FLOAT16
            or self.value.ndim == 1
            or self._is_near_signs()
            or (is_table and self._has_unequal_rows())
        ):
            self._store_float16()
        elif is_table:
            self._quantize(None)
            for user in self.users:
                _restore_rows(self.model, self.subgraph, user, self.index)
        else:
            self._store_int8(recipe.format, recipe.runtime)

    def _is_bias_of_integers(self):
        return any(
            self.model.operator_name(user) in WEIGHTED_OPERATORS
            and self.index in bias_of(user)
            and self.model.type_name(
                weights_of(self.model, self.subgraph, user)
            )
            in INTEGERS
            for user in self.users
        )

    def _is_near_signs(self):
        """Whether a rounding error may become a wrong sign."""
        graph = self.model, self.subgraph
        return any(
            reaches_sign(*graph, int(user.outputs[0]))
            or comes_from_sign(*graph, inputs_of(user)[0])
            for user in self.users
        )

    def _is_table(self):
        """Whether all that is done is to look up rows, as an embedding does."""
        return self.names == {"GATHER"} and self._is_read_as_weights()

    def _has_unequal_rows(self):
        rows = np.abs(self.value).reshape(len(self.value), -1).max(axis=1)
        rows = rows[rows > 0]
        return len(rows) > 0 and MOST_ROW_RATIO * rows.min() < rows.max()

    def _is_read_as_weights(self):
        return all(
            reads_as_weights(self.model, user, self.index)
            for user in self.users
        )

    def _round_to_bfloat16(self):
        bits = self.value.copy().view(np.uint32)
        rounded = (bits + 0x8000 & 0xFFFF0000).view(np.float32)
        if np.all(np.isfinite(rounded)):
            self.tensor.buffer = self.model.add_buffer(rounded)

    def _store_float16(self):
        with np.errstate(over="ignore"):
            halves = self.value.astype(np.float16)
        value = self.value.astype(np.float64)  # Whose squares are not zero.
        error = np.linalg.norm(halves - value)
        if error <= MOST_FLOAT16_ERROR * np.linalg.norm(value):
            self.tensor.type = schema.TensorType.FLOAT16
            self.tensor.buffer = self.model.add_buffer(halves)
            dequantize(self.model, self.subgraph, self.index)

    def _store_int8(self, format, runtime):
        in_int8 = not format.is_exact and self._has_kernel(runtime)
        axis = self._channel_axis()
        is_dense = "FULLY_CONNECTED" in self.names
        if in_int8 and is_dense and not runtime.has_channels_of_dense:
            axis = None
        is_equal = np.ptp(_largest(self.value, axis)) == 0
        if is_equal and self.names.isdisjoint(ALWAYS_PER_CHANNEL):
            # Old runtimes return zeros for several scales that are all equal.
            axis = None
        self._quantize(axis)
        if not in_int8:
            dequantize(self.model, self.subgraph, self.index)
            return
        for user in self.users:
            compute_in_int8(user)

    def _has_kernel(self, runtime):
        """Whether all operators multiply float data by int8 weights."""
        grouped = (
            is_grouped(self.model, self.subgraph, user) for user in self.users
        )
        is_known = self.names <= runtime.int8_operators
        return is_known and self._is_read_as_weights() and not any(grouped)

    def _channel_axis(self):
        """The axis of channels; `None` if the operators have none in common."""
        axes = {
            WEIGHTED_OPERATORS[self.model.operator_name(user)].axis
            if reads_as_weights(self.model, user, self.index)
            else None
            for user in self.users
        }
        return axes.pop() if len(axes) == 1 else None

    def _quantize(self, axis):
        """Stores int8 with a scale per channel along an axis, or one scale."""
        largest = _largest(self.value, axis)
        parameters = quantization(largest.reshape(-1) / LARGEST_INT8, axis or 0)
        scales = parameters.scale.reshape(largest.shape)
        integers = np.rint(self.value / scales).astype(np.int8)
        self.tensor.type = schema.TensorType.INT8
        self.tensor.buffer = self.model.add_buffer(integers)
        self.tensor.quantization = parameters


def _largest(value, axis):
    """The largest absolute number per channel; in all, without an axis."""
    axis = axis if axis is None else axis % value.ndim
    others = tuple(i for i in range(value.ndim) if i != axis)
    return np.abs(value).max(axis=others, keepdims=True)


def _restore_rows(model, subgraph, gather, table):
    """Makes GATHER look up integers, and converts its result to float32."""
    (output,) = gather.outputs.tolist()
    scale = subgraph.tensors[table].quantization
    rows = model.add_tensor_like(subgraph, output, "INT8", scale)
    gather.outputs = np.array([rows], np.int32)
    model.require_version(gather, 2)
    position = subgraph.operators.index(gather) + 1
    step = model.operator("DEQUANTIZE", [rows], [output])
    subgraph.operators.insert(position, step)
