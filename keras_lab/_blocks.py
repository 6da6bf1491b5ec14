"""Sums over many weights in one pass over them."""

import math

from keras import ops

__all__ = ["sum_of", "weighted_sums"]


def weighted_sums(function, x, w, keep, add_up=ops.sum):
    """Σ d|w| and Σ d with d = function(x), over all axes but `keep`."""

    def weighted(w, x):
        return function(x) * ops.abs(w)

    above = sum_of(weighted, (w, x), keep, add_up=add_up)
    # With a different number of blocks: XLA computes equal expressions once,
    # and would store all of d to do so.
    return above, sum_of(function, (x,), keep, blocks=8, add_up=add_up)


def sum_of(function, tensors, keep, blocks=16, add_up=ops.sum):
    """Σ function(*tensors) over all axes but `keep`.

    Adds up blocks of rows, then sums the entries of that total. XLA on a
    CPU would store function(*tensors) and then reduce it slowly; block by block
    it is one pass over the arguments, several times faster. Blocks that end
    within a row would cost a division per weight.

    Args:
        add_up: A function of the total and of the axes to sum.
    """
    shape = tuple(tensors[0].shape)
    if not keep:
        shape = (math.prod(shape[:-1]), *shape[-1:])
        tensors = [ops.reshape(x, shape) for x in tensors]
    rows = shape[0] if shape else 1
    size = rows if 0 in keep else max(rows // blocks, 1)
    axes = [axis for axis in range(len(shape)) if axis not in keep]

    def part(start, end):
        return function(*(x[start:end] for x in tensors))

    whole = rows - rows % size
    total = part(0, size)
    for start in range(size, whole, size):
        total = total + part(start, start + size)
    total = add_up(total, axes)
    if whole < rows:
        total = total + add_up(part(whole, rows), axes)
    return total
