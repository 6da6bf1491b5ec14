"""Sums over many weights in one pass over them."""

import math

import keras
from keras import ops

__all__ = ["sum_of", "weighted_sums"]

BLOCKS = 16


def weighted_sums(function, x, w, keep, sum_all, sum_pair=None):
    """Σ d|w| and Σ d with d = function(x), over all axes but `keep`.

    Args:
        sum_all: `sum_all(x, axes)` sums a small tensor precisely.
        sum_pair: If XLA compiles it, `sum_pair(x, y, axes)` sums both, and
            computes them as one complex tensor. XLA on a CPU computes one
            tensor per pass, so that two would be two passes. Without XLA each
            operation runs by itself, and what it stores of a block stays in the
            cache of the CPU.
    """

    def terms(w, x):
        d = function(x)
        return d * ops.abs(w), d

    return _sums_of(terms, (w, x), keep, sum_all, sum_pair)


def sum_of(function, tensors, keep, sum_all):
    """Σ function(*tensors) over all axes but `keep`, see `_sums_of`."""

    def terms(*tensors):
        return [function(*tensors)]

    return _sums_of(terms, tensors, keep, sum_all)[0]


def _sums_of(terms, tensors, keep, sum_all, sum_pair=None):
    """The sum of each of the terms(*tensors) over all axes but `keep`.

    Adds up blocks of rows, then sums the entries of that total. XLA on a
    CPU would store the terms and then reduce them slowly; block by block it is
    one pass over the arguments, several times faster. Blocks that end within a
    row would cost a division per weight.
    """
    shape = tuple(tensors[0].shape)
    if not keep:
        shape = (math.prod(shape[:-1]), *shape[-1:])
        tensors = [ops.reshape(x, shape) for x in tensors]
    dtype = keras.backend.standardize_dtype(tensors[0].dtype)
    rows = shape[0] if shape else 1
    size = max(rows if 0 in keep else rows // BLOCKS, 1)
    axes = [axis for axis in range(len(shape)) if axis not in keep]

    def part(start, end):
        return terms(*(x[start:end] for x in tensors))

    def total(x):
        return sum_all(x, axes) if axes else x

    whole = rows - rows % size
    totals = part(0, size)
    for start in range(size, whole, size):
        more = part(start, start + size)
        totals = [x + term for x, term in zip(totals, more)]
    if sum_pair and axes and dtype in ("float32", "float64"):
        sums = sum_pair(*totals, axes)
    else:
        sums = [total(x) for x in totals]
    if whole < rows:
        rest = [total(x) for x in part(whole, rows)]
        sums = [x + more for x, more in zip(sums, rest)]
    return sums
