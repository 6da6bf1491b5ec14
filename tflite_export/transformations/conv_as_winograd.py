"""A convolution with three columns as matrix products of half the size.

Winograd's F(4, 3): four outputs in a row depend on six inputs d and three
weights g by

    y = Aᵀ [(G g) ⊙ (Bᵀ d)]

with six products instead of twelve (Lavin and Gray, *Fast Algorithms for
Convolutional Neural Networks*, 2016). Along the rows and the channels the
products are summed as usual. So there are six matrix products, one for each
place of Bᵀ d, each as in `conv_as_matmul` with a quarter of the patches.

If the weights are signs, G g takes eight values at each place, one for each
choice of three signs. It is looked up when the weights are unpacked.

Numbers of different size are summed, so the rounding differs: outputs are off
by about 10⁻⁶ of the largest.
"""

import dataclasses

import numpy as np

from tflite_export.flatbuffer.model import FlatModel
from tflite_export.formats import Storage
from tflite_export.graph.packed_bits import Digits
from tflite_export.graph.replacement import Replacement, can_be_matmul
from tflite_export.graph.weight_site import WeightSite

KERNEL_WIDTH, OUTPUTS = 3, 4
WEIGHTS = np.array(  # G
    [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
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
# The signs of three weights make one digit.
TRIPLES = Digits("INT16", KERNEL_WIDTH)
# With fewer inputs the work around the products outweighs the products.
FEWEST_INPUTS = 16


def can_apply(site: WeightSite) -> bool:
    """Whether the convolutions have three columns, and it pays."""
    return (
        site.winograd
        and site.format.is_packed
        and not site.format.is_exact
        and site.constant.subgraph == 0
        and site.every_user(_can_be_winograd)
        and not site.is_near_signs
    )


def apply(site: WeightSite) -> None:
    """Stores the weights as bits and replaces the convolutions."""
    weight = site.stored
    # The columns last, so that three signs are side by side.
    site.stored = dataclasses.replace(
        weight,
        signs=np.ascontiguousarray(weight.signs.transpose(0, 1, 3, 2)),
        to_keras=tuple((0, 1, 3, 2)[axis] for axis in weight.to_keras),
    )
    bits = site.unpacker.store_signs(site.stored)
    weights = _unpack(site.unpacker, bits, site.stored)
    site.subgraph.tensors[weight.tensor].buffer = 0
    scales = None if weight.is_uniform else weight.scales
    for user in site.users:
        new = Replacement(site.model, site.subgraph, user)
        _replace(new, weights, scales)
    site.place = 0, bits
    site.storage = Storage.BITS


def _can_be_winograd(model: FlatModel, subgraph, operator):
    if not can_be_matmul(model, subgraph, operator):
        return False
    new = Replacement(model, subgraph, operator)
    _, _, columns, inputs = new.shape(new.weights)
    width = new.shape(new.output)[2]
    return (
        columns == KERNEL_WIDTH
        and new.steps(1) == (1, 1)
        and inputs >= FEWEST_INPUTS
        and width >= 0.75 * OUTPUTS * _tiles(width)
    )


def _unpack(unpacker, bits, weight):
    """G g, [places, channels, rows · inputs], times the scale if it is one."""
    channels, rows, inputs, _ = weight.signs.shape
    shape = (channels, rows * inputs)
    triples = unpacker.digits(bits, TRIPLES, shape)
    signs = np.arange(1 << KERNEL_WIDTH) >> np.arange(KERNEL_WIDTH)[:, None]
    values = WEIGHTS @ (2 * (signs & 1) - 1)
    if weight.is_uniform:
        values *= weight.scales[0]
    inputs = [unpacker.constant(values.astype(np.float32)), triples]
    output = (len(values), *shape), "FLOAT32"
    return unpacker.add("GATHER", inputs, *output, version=6, axis=1)


def _tiles(width):
    return -(-width // OUTPUTS)


def _replace(new, weights, scales):
    """Replaces a convolution, given the tensor of G g.

    The channels are multiplied by the scales, unless these are `None`.
    """
    _, height, width, channels = new.shape(new.output)
    tiles = _tiles(width)
    size, taps = new.batch * height * tiles, new.shape(weights)[-1]
    patches = _patches(new, tiles)
    matrices = new.reshape(patches, (PLACES, size, taps), axis=1)
    # The runtime copies the second matrix at each inference: the smaller one.
    weights_first = height * tiles < channels
    pair, shape = [matrices, weights], (size, channels)
    if weights_first:
        pair, shape = pair[::-1], shape[::-1]
    product = new.add("BATCH_MATMUL", pair, (PLACES, *shape), adjY=True)
    result = _multiply(new, SUMS, product, size * channels)
    result = new.reshape(result, (OUTPUTS, *shape), axis=1 + weights_first)
    order = [2, 0, 1] if weights_first else [1, 0, 2]
    result = new.add("TRANSPOSE", [result], (size, OUTPUTS, channels), order)
    shape = (new.batch, height, OUTPUTS * tiles, channels)
    result = new.slice(new.reshape(result, shape), {2: range(width)})
    if scales is not None:
        shape = new.shape(result)
        result = new.add("MUL", [result, new.constant(scales)], shape)
    new.finish(result)


def _patches(new, tiles):
    """Bᵀ d: [places · batch, height, tiles, rows · inputs]."""
    _, _, columns, inputs = new.shape(new.data)
    left, _ = new.padding(1)
    # One tile more, because the last two inputs of a tile are the first two of
    # the next.
    right = OUTPUTS * (tiles + 1) - columns - left
    data = new.pad(new.data, new.padding(0), (left, right))
    rows = new.shape(data)[1]
    size = new.batch * rows
    data = new.reshape(data, (size, tiles + 1, OUTPUTS, inputs))
    shape = (OUTPUTS, size, tiles + 1, inputs)
    data = new.add("TRANSPOSE", [data], shape, [2, 0, 1, 3])
    following = {0: range(PLACES - OUTPUTS), 2: range(1, tiles + 1)}
    parts = [
        new.slice(data, ranges, batch_axis=1)
        for ranges in ({2: range(tiles)}, following)
    ]
    tile = new.concatenate(parts, 0)
    data = _multiply(new, INPUTS, tile, size * tiles * inputs)
    data = new.reshape(data, (PLACES * new.batch, rows, tiles, inputs))
    return new.taps(data, axis=0)


def _multiply(new, matrix, data, size):
    """Multiplies a matrix by data seen as PLACES rows of `size` numbers."""
    columns = new.reshape(data, (PLACES, size), axis=1)
    return new.add(
        "BATCH_MATMUL", [new.constant(matrix), columns], (len(matrix), size)
    )
