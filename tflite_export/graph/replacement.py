"""Several operators in the place of one."""

import numpy as np

from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.flatbuffer.schema import shape_of

__all__ = ["Replacement"]


class Replacement:
    """Collects the operators that replace a convolution or a dense layer.

    Shapes are written for the batch size that the file has. The operators work
    for any other batch size too.

    Args:
        model: The model to change.
        subgraph: Where the operator is.
        operator: The operator to replace, with data, weights and a bias.
    """

    def __init__(self, model: FlatModel, subgraph, operator):
        self.model, self.subgraph, self.operator = model, subgraph, operator
        self.operators = []
        # The runtime refuses a convolution without a bias; a dense layer may
        # have none.
        self.data, self.weights, *bias = inputs_of(operator)
        self.bias = bias[0] if bias else -1
        (self.output,) = operator.outputs.tolist()
        self.batch = self.shape(self.data)[0]

    def shape(self, tensor: int) -> tuple:
        return shape_of(self.subgraph.tensors[tensor])

    def constant(self, value) -> int:
        return self.model.small_constant(self.subgraph, value)

    def add(self, name, inputs, shape, *integers, **options) -> int:
        """Adds an operator; returns the tensor that it writes.

        Args:
            name: The name of the operator.
            inputs: A list of tensors.
            shape: The shape of the result.
            *integers: More inputs, as integer constants.
            **options: The options of the operator.
        """
        inputs = inputs + [
            self.constant(np.array(value, np.int32)) for value in integers
        ]
        tensor = self.model.add_tensor(
            self.subgraph, f"product/{name.lower()}", shape, "FLOAT32"
        )
        self.operators.append(
            self.model.operator(name, inputs, [tensor], **options)
        )
        return tensor

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
        begin, end = np.zeros(4, np.int32), np.array(shape, np.int32)
        strides = np.ones(4, np.int32)
        for axis, chosen in ranges.items():
            begin[axis], end[axis] = chosen[0], chosen[-1] + 1
            strides[axis] = chosen.step
            shape[axis] = len(chosen)
        if tuple(shape) == self.shape(data):
            return data
        # The masks keep the whole batch, whatever its size.
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
        """Joins parts along an axis."""
        if len(parts) == 1:
            return parts[0]
        shape = list(self.shape(parts[0]))
        shape[axis] = sum(self.shape(part)[axis] for part in parts)
        return self.add("CONCATENATION", parts, tuple(shape), axis=axis)

    def finish(self, tensor) -> None:
        """Adds the bias and puts the operators in place of the old one."""
        options = self.operator.builtinOptions
        if self.bias < 0:
            self.bias = self.constant(np.zeros(1, np.float32))
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
