"""Several operators in the place of a convolution or a dense layer."""

import numpy as np

from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.flatbuffer.schema import open_shape_of, schema, shape_of


class Replacement:
    """Writes the operators that replace a convolution or a dense layer.

    Shapes are written for the batch size that the file has. The operators work
    for any other batch size too.
    """

    def __init__(self, model: FlatModel, subgraph, operator):
        self.model, self.subgraph, self.operator = model, subgraph, operator
        # The runtime refuses a convolution without a bias; a dense layer may
        # have none.
        self.data, self.weights, *bias = inputs_of(operator)
        self.bias = bias[0] if bias else -1
        (self.output,) = operator.outputs.tolist()
        self.batch = self.shape(self.data)[0]

    def shape(self, tensor: int) -> tuple:
        return shape_of(self.subgraph.tensors[tensor])

    # The geometry of a convolution along its rows (axis 0) or columns (axis 1).

    def steps(self, axis: int) -> tuple[int, int]:
        """Stride and dilation."""
        options = self.operator.builtinOptions
        if axis == 0:
            return options.strideH, options.dilationHFactor
        return options.strideW, options.dilationWFactor

    def missing(self, axis: int) -> int:
        """How many more inputs the outputs need than there are.

        The number is negative if the convolution skips some of the inputs.
        """
        size, taps, output = (
            self.shape(tensor)[1 + axis]
            for tensor in (self.data, self.weights, self.output)
        )
        stride, dilation = self.steps(axis)
        return (output - 1) * stride + (taps - 1) * dilation + 1 - size

    def padding(self, axis: int) -> tuple[int, int]:
        """How many zeros come before and after the data."""
        is_same = self.operator.builtinOptions.padding == schema.Padding.SAME
        total = max(self.missing(axis), 0) if is_same else 0
        return total // 2, total - total // 2

    def taps(self, data: int, axis: int) -> int:
        """What each tap of the kernel multiplies, side by side as channels."""
        stride, dilation = self.steps(axis)
        count = self.shape(self.weights)[1 + axis]
        span = (self.shape(self.output)[1 + axis] - 1) * stride + 1
        parts = [
            self.slice(data, {1 + axis: range(first, first + span, stride)})
            for first in range(0, count * dilation, dilation)
        ]
        return self.concatenate(parts, 3)

    # Operators.

    def constant(self, value) -> int:
        return self.model.small_constant(self.subgraph, value)

    def add(self, name, inputs, shape, *integers, **options) -> int:
        """Adds an operator in front of the old one; returns its output.

        `integers` are more inputs, as integer constants.
        """
        more = [self.constant(np.array(value, np.int32)) for value in integers]
        place = self.subgraph, self.subgraph.operators.index(self.operator)
        return self.model.insert(*place, name, inputs + more, shape, **options)

    def reshape(self, tensor, shape, axis=0) -> int:
        """Reshapes; the length of `axis` depends on the batch size."""
        sizes = list(shape)
        sizes[axis] = -1
        return self.add("RESHAPE", [tensor], shape, sizes)

    def pad(self, data, rows, columns) -> int:
        """Adds zeros before and after the rows and columns."""
        zeros = np.array([(0, 0), rows, columns, (0, 0)], np.int32)
        if not zeros.any():
            return data
        shape = np.array(self.shape(data)) + zeros.sum(axis=1)
        return self.add("PAD", [data], tuple(shape.tolist()), zeros)

    def slice(self, data, ranges: dict[int, range], batch_axis=0) -> int:
        """A part of a tensor with four axes: a range for each axis given."""
        shape = list(self.shape(data))
        begin, end, strides = [0] * 4, list(shape), [1] * 4
        for axis, chosen in ranges.items():
            begin[axis], end[axis] = chosen[0], chosen[-1] + 1
            strides[axis] = chosen.step
            shape[axis] = len(chosen)
        if tuple(shape) == self.shape(data):
            return data
        # The masks keep the whole batch, whatever its size.
        masks = dict.fromkeys(("beginMask", "endMask"), 1 << batch_axis)
        parts = begin, end, strides
        return self.add("STRIDED_SLICE", [data], tuple(shape), *parts, **masks)

    def concatenate(self, parts, axis) -> int:
        """Joins parts along an axis."""
        if len(parts) == 1:
            return parts[0]
        shape = list(self.shape(parts[0]))
        shape[axis] = sum(self.shape(part)[axis] for part in parts)
        return self.add("CONCATENATION", parts, tuple(shape), axis=axis)

    def weights_times_rows(self, matrix, rows, channels) -> int:
        """Each row of a matrix multiplied by the weights: [rows, channels].

        The runtime copies the second matrix of a product at each inference, so
        the weights come first.
        """
        shape = (channels, rows)
        product = self.add(
            "BATCH_MATMUL", [self.weights, matrix], shape, adjY=True
        )
        return self.add("TRANSPOSE", [product], (rows, channels), [1, 0])

    def finish(self, tensor) -> None:
        """Replaces the old operator by one that adds the bias."""
        activation = self.operator.builtinOptions.fusedActivationFunction
        if self.bias < 0:
            self.bias = self.constant(np.zeros(1, np.float32))
        last = self.model.operator(
            "ADD",
            [tensor, self.bias],
            [self.output],
            fusedActivationFunction=activation,
        )
        position = self.subgraph.operators.index(self.operator)
        self.subgraph.operators[position] = last


def has_fixed_size(subgraph, operator) -> bool:
    """Whether all sizes of the data but the batch size are known."""
    tensor = subgraph.tensors[inputs_of(operator)[0]]
    return min(open_shape_of(tensor)[1:]) > 0


def is_grouped(model: FlatModel, subgraph, operator) -> bool:
    """Whether the channels of a CONV_2D are convolved in groups."""
    if model.operator_name(operator) != "CONV_2D":
        return False
    data, weights = (subgraph.tensors[i] for i in inputs_of(operator)[:2])
    return shape_of(data)[-1] != shape_of(weights)[-1]


def can_be_matmul(model: FlatModel, subgraph, operator) -> bool:
    """Whether it is a CONV_2D of a known size with one group."""
    return (
        model.operator_name(operator) == "CONV_2D"
        and has_fixed_size(subgraph, operator)
        and not is_grouped(model, subgraph, operator)
    )
