"""A convolution with three columns as products of matrices, half as large.

Winograd's F(4, 3): four outputs in a row depend on six inputs d and three
weights g by

    y = Aᵀ [(G g) ⊙ (Bᵀ d)]

with six products instead of twelve (Lavin and Gray, *Fast Algorithms for
Convolutional Neural Networks*, 2016). Along the rows and the channels the
products add up as ever. So there are six products of matrices, one for each
place of Bᵀ d, each as in `conv_as_matmul` for a quarter of the patches.

With signs as weights, G g takes eight values at each place, for the eight signs
of three weights: it is looked up when the weights are unpacked.

Sums of numbers of different size round differently: an output is off by some
10⁻⁶ of the largest.
"""

import numpy as np

from tflite_export.flatbuffer.model import FlatModel
from tflite_export.transformations.conv_as_matmul import can_be_matmul
from tflite_export.transformations.convolution import (
    padding,
    places,
    steps,
)
from tflite_export.transformations.replacement import Replacement

__all__ = ["KERNEL_WIDTH", "WEIGHTS", "as_winograd", "can_be_winograd"]

KERNEL_WIDTH, OUTPUTS = 3, 4
WEIGHTS = np.array(  # G
    [
        *([1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6]),
        *([1 / 24, 1 / 12, 1 / 6], [1 / 24, -1 / 12, 1 / 6], [0, 0, 1]),
    ]
)
INPUTS = np.array(  # Bᵀ
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ],
    np.float32,
)
SUMS = np.array(  # Aᵀ
    [
        [1, 1, 1, 1, 1, 0],
        [0, 1, -1, 2, -2, 0],
        [0, 1, 1, 4, 4, 0],
        [0, 1, -1, 8, -8, 1],
    ],
    np.float32,
)
PLACES = len(INPUTS)
# With fewer inputs there is more to do around the products than in them.
FEWEST_INPUTS = 16


def can_be_winograd(model: FlatModel, subgraph, operator) -> bool:
    """Whether a convolution has three columns, and it pays."""
    if not can_be_matmul(model, subgraph, operator):
        return False
    new = Replacement(model, subgraph, operator)
    _, _, columns, inputs = new.shape(new.weights)
    width = new.shape(new.output)[2]
    return (
        columns == KERNEL_WIDTH
        and steps(operator, 1) == (1, 1)
        and inputs >= FEWEST_INPUTS
        and width >= 0.75 * OUTPUTS * _tiles(width)
    )


def _tiles(width):
    return -(-width // OUTPUTS)


def as_winograd(
    model: FlatModel, subgraph, operator, weights: int, scales=None
) -> None:
    """Replaces a convolution by operators for unpacked weights.

    Args:
        model: The model to change.
        subgraph: Where the convolution is.
        operator: The convolution.
        weights: The tensor of G g, [places, channels, rows · inputs].
        scales: What is to be multiplied with the channels, if anything.
    """
    new = Replacement(model, subgraph, operator)
    _, height, width, channels = new.shape(new.output)
    tiles = _tiles(width)
    size, taps = new.batch * height * tiles, new.shape(weights)[-1]
    matrices = new.reshape(
        _patches(new, height, tiles), (PLACES, size, taps), axis=1
    )
    # The second matrix is copied at each inference: the smaller one.
    weights_first = height * tiles < channels
    pair, shape = [matrices, weights], (size, channels)
    if weights_first:
        pair, shape = pair[::-1], shape[::-1]
    product = new.add("BATCH_MATMUL", pair, (PLACES, *shape), adjY=True)
    result = _multiply(new, SUMS, product, size * channels)
    result = new.reshape(result, (OUTPUTS, *shape), axis=1 + weights_first)
    result = new.add(
        "TRANSPOSE",
        [result],
        (size, OUTPUTS, channels),
        [2, 0, 1] if weights_first else [1, 0, 2],
    )
    shape = (new.batch, height, OUTPUTS * tiles, channels)
    result = new.slice(new.reshape(result, shape), {2: range(width)})
    if scales is not None:
        shape = new.shape(result)
        result = new.add("MUL", [result, new.constant(scales)], shape)
    new.finish(result)


def _patches(new, height, tiles):
    """Bᵀ d: [places · batch, height, tiles, rows · inputs]."""
    kernel = new.shape(new.weights)[1]
    _, rows, columns, inputs = new.shape(new.data)
    width = new.shape(new.output)[2]
    above_below = padding(new.operator, 0, rows, kernel, height)
    left, _ = padding(new.operator, 1, columns, KERNEL_WIDTH, width)
    # One tile more: the last two inputs of a tile are the next one's.
    right = OUTPUTS * (tiles + 1) - columns - left
    data = new.pad(new.data, above_below, (left, right))
    rows = new.shape(data)[1]
    size = new.batch * rows
    data = new.reshape(data, (size, tiles + 1, OUTPUTS, inputs))
    data = new.add(
        "TRANSPOSE",
        [data],
        (OUTPUTS, size, tiles + 1, inputs),
        [2, 0, 1, 3],
    )
    following = {0: range(PLACES - OUTPUTS), 2: range(1, tiles + 1)}
    tile = new.concatenate(
        [
            new.slice(data, {2: range(tiles)}, batch_axis=1),
            new.slice(data, following, batch_axis=1),
        ],
        0,
    )
    data = _multiply(new, INPUTS, tile, size * tiles * inputs)
    data = new.reshape(data, (PLACES * new.batch, rows, tiles, inputs))
    return new.concatenate(
        [
            new.slice(data, {1: places(new.operator, 0, tap, height)})
            for tap in range(kernel)
        ],
        3,
    )


def _multiply(new, matrix, data, size):
    """The matrix with the first axis of the data, of which each has `size`."""
    columns = new.reshape(data, (PLACES, size), axis=1)
    return new.add(
        "BATCH_MATMUL", [new.constant(matrix), columns], (len(matrix), size)
    )
