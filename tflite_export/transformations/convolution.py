"""What several transformations ask about a convolution, and do with it."""

import numpy as np

from tflite_export.flatbuffer import FlatModel, inputs_of
from tflite_export.tflite_schema import schema, shape_of

__all__ = [
    "Replacement",
    "has_fixed_size",
    "is_grouped",
    "padding",
    "places",
    "steps",
]


def has_fixed_size(subgraph, operator) -> bool:
    """Whether height, width and channels of the data are known."""
    tensor = subgraph.tensors[inputs_of(operator)[0]]
    sizes = tensor.shapeSignature
    return min((shape_of(tensor) if sizes is None else sizes)[1:]) > 0


def is_grouped(model: FlatModel, subgraph, operator) -> bool:
    """Whether the channels of a CONV_2D are convolved in groups."""
    if model.operator_name(operator) != "CONV_2D":
        return False
    data, weights = (subgraph.tensors[i] for i in inputs_of(operator)[:2])
    return shape_of(data)[-1] != shape_of(weights)[-1]


def steps(operator, axis: int) -> tuple[int, int]:
    """Stride and dilation along rows (0) or columns (1)."""
    options = operator.builtinOptions
    return (
        (options.strideH, options.dilationHFactor),
        (options.strideW, options.dilationWFactor),
    )[axis]


def padding(
    operator, axis: int, size: int, taps: int, output: int
) -> tuple[int, int]:
    """How many zeros come before and after the data along an axis.

    Args:
        operator: The convolution.
        axis: Rows (0) or columns (1).
        size: How many the data has of them.
        taps: How many the kernel has.
        output: How many the output has.
    """
    stride, dilation = steps(operator, axis)
    total = (output - 1) * stride + (taps - 1) * dilation + 1 - size
    if operator.builtinOptions.padding != schema.Padding.SAME or total <= 0:
        return 0, 0
    return total // 2, total - total // 2


def places(operator, axis: int, tap: int, output: int) -> range:
    """Which of the padded data a tap of the kernel is multiplied with."""
    stride, dilation = steps(operator, axis)
    first = tap * dilation
    return range(first, first + (output - 1) * stride + 1, stride)


class Replacement:
    """Operators that take the place of a convolution.

    Shapes are those for the batch size that the file has; nothing depends on
    it, so that another one works as well.

    Args:
        model: The model to change.
        subgraph: Where the convolution is.
        operator: The convolution.
    """

    def __init__(self, model: FlatModel, subgraph, operator):
        self.model, self.subgraph, self.operator = model, subgraph, operator
        self.operators = []
        # The runtime refuses a convolution without a bias.
        self.data, self.weights, self.bias = inputs_of(operator)
        (self.output,) = operator.outputs.tolist()
        self.batch = self.shape(self.data)[0]

    def shape(self, tensor: int) -> tuple:
        return shape_of(self.subgraph.tensors[tensor])

    def constant(self, value) -> int:
        return self.model.small_constant(self.subgraph, value)

    def add(self, name, inputs, shape, *integers, **options) -> int:
        """Appends an operator; gives the tensor that it writes.

        Args:
            name: The operator.
            inputs: Tensors.
            shape: Of the result.
            integers: Further inputs, constants of integers.
            options: Of the operator.
        """
        inputs = inputs + [
            self.constant(np.array(value, np.int32)) for value in integers
        ]
        tensor = self.model.add_tensor(
            self.subgraph, f"convolution/{name.lower()}", shape, "FLOAT32"
        )
        self.operators.append(
            self.model.operator(name, inputs, [tensor], **options)
        )
        return tensor

    def reshape(self, tensor, shape, axis=0) -> int:
        """Gives a shape; `axis` is the one that the batch size is part of."""
        sizes = list(shape)
        sizes[axis] = -1
        return self.add("RESHAPE", [tensor], shape, sizes)

    def pad(self, data, rows, columns) -> int:
        """Puts zeros before and after the rows and columns."""
        zeros = np.array([(0, 0), rows, columns, (0, 0)], np.int32)
        if not zeros.any():
            return data
        shape = np.array(self.shape(data)) + zeros.sum(axis=1)
        return self.add("PAD", [data], tuple(shape.tolist()), zeros)

    def slice(self, data, ranges: dict[int, range], batch_axis=0) -> int:
        """Some of a tensor of four axes, along those that are given."""
        shape = list(self.shape(data))
        begin, end = np.zeros(4, np.int32), np.array(shape, np.int32)
        strides = np.ones(4, np.int32)
        for axis, chosen in ranges.items():
            begin[axis], end[axis] = chosen[0], chosen[-1] + 1
            strides[axis] = chosen.step
            shape[axis] = len(chosen)
        if tuple(shape) == self.shape(data):
            return data
        # The masks leave the batch whole, whatever its size.
        return self.add(
            "STRIDED_SLICE",
            [data],
            tuple(shape),
            begin,
            end,
            strides,
            beginMask=1 << batch_axis,
            endMask=1 << batch_axis,
        )

    def concatenate(self, parts, axis) -> int:
        """Puts parts side by side."""
        if len(parts) == 1:
            return parts[0]
        shape = list(self.shape(parts[0]))
        shape[axis] = sum(self.shape(part)[axis] for part in parts)
        return self.add("CONCATENATION", parts, tuple(shape), axis=axis)

    def finish(self, tensor) -> None:
        """Adds the bias, and puts the operators in the convolution's place."""
        options = self.operator.builtinOptions
        last = self.model.operator(
            "ADD",
            [tensor, self.bias],
            [self.output],
            fusedActivationFunction=options.fusedActivationFunction,
        )
        position = self.subgraph.operators.index(self.operator)
        self.subgraph.operators[position : position + 1] = [
            *self.operators,
            last,
        ]
