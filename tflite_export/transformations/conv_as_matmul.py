"""A convolution as a matrix product, for weights that are unpacked.

The runtime's convolution of computed weights is slow. XNNPACK, which runs all
the rest, wants constants for a convolution, but multiplies any two float
matrices. So the patches are laid side by side, tap by tap, and multiplied.
"""

import math

from tflite_export.flatbuffer.model import FlatModel
from tflite_export.transformations.convolution import (
    has_fixed_size,
    is_grouped,
    padding,
    places,
)
from tflite_export.transformations.replacement import Replacement

__all__ = ["can_be_matmul", "conv_as_matmul"]


def can_be_matmul(model: FlatModel, subgraph, operator) -> bool:
    """Whether a convolution has a known size and one group."""
    return (
        model.operator_name(operator) == "CONV_2D"
        and has_fixed_size(subgraph, operator)
        and not is_grouped(model, subgraph, operator)
    )


def conv_as_matmul(model: FlatModel, subgraph, operator) -> None:
    """Replaces a convolution by operators for a matrix of weights.

    The weights' tensor must have the shape [channels, taps · inputs] then.
    """
    new = Replacement(model, subgraph, operator)
    kernel = new.shape(new.weights)
    _, height, width, channels = new.shape(new.output)
    taps, size = math.prod(kernel[1:]), new.batch * height * width
    patches = _patches(new, kernel[1:3], (height, width))
    matrix = new.reshape(patches, (size, taps))
    # The second matrix is copied at each inference: the smaller one.
    if height * width < channels:
        product = new.add(
            "BATCH_MATMUL", [new.weights, matrix], (channels, size), adjY=True
        )
        product = new.add("TRANSPOSE", [product], (size, channels), [1, 0])
    else:
        product = new.add(
            "BATCH_MATMUL", [matrix, new.weights], (size, channels), adjY=True
        )
    new.finish(new.reshape(product, (new.batch, height, width, channels)))


def _patches(new, kernel, output):
    """The inputs of each output: [batch, height, width, taps·inputs]."""
    size = new.shape(new.data)[1:3]
    zeros = [
        padding(new.operator, axis, size[axis], kernel[axis], output[axis])
        for axis in (0, 1)
    ]
    data = new.pad(new.data, *zeros)
    # Columns first: then each row of the result is used several times.
    for axis in (1, 0):
        parts = [
            new.slice(
                data, {1 + axis: places(new.operator, axis, tap, output[axis])}
            )
            for tap in range(kernel[axis])
        ]
        data = new.concatenate(parts, 3)
    return data
