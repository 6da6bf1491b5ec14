"""A convolution as a matrix product, for weights that are unpacked.

The runtime's convolution of computed weights is slow. XNNPACK, which runs all
the rest, wants constants for a convolution, but multiplies any two float
matrices. So the patches are laid side by side, tap by tap, and multiplied.
"""

import numpy as np

from tflite_export.flatbuffer import FlatModel, inputs_of
from tflite_export.tflite_schema import shape_of
from tflite_export.transformations.convolution import (
    has_fixed_size,
    is_grouped,
    padding,
    steps,
)

__all__ = ["as_matmul", "can_be_matmul"]


def can_be_matmul(model: FlatModel, subgraph, operator) -> bool:
    """Whether a convolution has a known size and one group."""
    return (
        model.operator_name(operator) == "CONV_2D"
        and has_fixed_size(subgraph, operator)
        and not is_grouped(model, subgraph, operator)
    )


def as_matmul(model: FlatModel, subgraph, operator) -> None:
    """Replaces a convolution by operators for a matrix of weights.

    The weights' tensor must have the shape [channels, taps · inputs] then.
    """
    _Rewriter(model, subgraph, operator).run()


class _Rewriter:
    def __init__(self, model, subgraph, operator):
        self.model = model
        self.subgraph = subgraph
        self.operator = operator
        self.operators = []
        self.batch = shape_of(subgraph.tensors[int(operator.inputs[0])])[0]

    def run(self):
        # The runtime refuses a convolution without a bias.
        data, weights, bias = inputs_of(self.operator)
        (output,) = self.operator.outputs.tolist()
        options = self.operator.builtinOptions
        kernel = shape_of(self.subgraph.tensors[weights])
        _, height, width, channels = shape_of(self.subgraph.tensors[output])
        patches = self._patches(data, kernel, (height, width))
        taps = int(np.prod(kernel[1:]))
        places = self.batch * height * width
        matrix = self._add("RESHAPE", [patches], (places, taps), [-1, taps])
        # The second matrix is copied at each inference: the smaller one.
        if height * width < channels:
            product = self._add(
                "BATCH_MATMUL",
                [weights, matrix],
                (channels, places),
                adjY=True,
            )
            product = self._add(
                "TRANSPOSE", [product], (places, channels), [1, 0]
            )
        else:
            product = self._add(
                "BATCH_MATMUL",
                [matrix, weights],
                (places, channels),
                adjY=True,
            )
        product = self._add(
            "RESHAPE",
            [product],
            (self.batch, height, width, channels),
            [-1, height, width, channels],
        )
        self.operators.append(
            self.model.operator(
                "ADD",
                [product, bias],
                [output],
                fusedActivationFunction=options.fusedActivationFunction,
            )
        )
        position = self.subgraph.operators.index(self.operator)
        self.subgraph.operators[position : position + 1] = self.operators

    def _patches(self, data, kernel, output):
        """The inputs of each output: [batch, height, width, taps·inputs]."""
        _, *size, channels = shape_of(self.subgraph.tensors[data])
        zeros = np.zeros((4, 2), np.int32)
        for axis in (0, 1):
            zeros[1 + axis] = padding(
                self.operator, axis, size[axis], kernel[1 + axis], output[axis]
            )
        if zeros.any():
            size = [n + sum(zeros[1 + i]) for i, n in enumerate(size)]
            data = self._add(
                "PAD", [data], (self.batch, *size, channels), zeros
            )
        # Columns first: then each row of the result is used several times.
        for axis in (1, 0):
            size[axis] = output[axis]
            stride, dilation = steps(self.operator, axis)
            parts = [
                self._slice(
                    data,
                    axis,
                    (self.batch, *size, channels),
                    tap * dilation,
                    stride,
                )
                for tap in range(kernel[1 + axis])
            ]
            channels *= len(parts)
            data = self._concatenate(parts, (self.batch, *size, channels))
        return data

    def _slice(self, data, axis, shape, first, stride):
        if shape == shape_of(self.subgraph.tensors[data]):
            return data
        begin = np.zeros(4, np.int32)
        end = np.array(shape_of(self.subgraph.tensors[data]), np.int32)
        begin[1 + axis] = first
        end[1 + axis] = first + (shape[1 + axis] - 1) * stride + 1
        steps = np.ones(4, np.int32)
        steps[1 + axis] = stride
        # The masks leave the batch whole, whatever its size.
        return self._add(
            "STRIDED_SLICE",
            [data],
            shape,
            begin,
            end,
            steps,
            beginMask=1,
            endMask=1,
        )

    def _concatenate(self, parts, shape):
        if len(parts) == 1:
            return parts[0]
        return self._add("CONCATENATION", parts, shape, axis=3)

    def _add(self, name, inputs, shape, *constants, **options):
        inputs = inputs + [
            self.model.add_constant(
                self.subgraph, "integers", np.array(value, np.int32)
            )
            for value in constants
        ]
        tensor = self.model.add_tensor(
            self.subgraph, f"patches/{name.lower()}", shape, "FLOAT32"
        )
        self.operators.append(
            self.model.operator(name, inputs, [tensor], **options)
        )
        return tensor
