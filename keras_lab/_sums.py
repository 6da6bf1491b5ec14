"""Sums over many weights in one pass over them."""

import math

import keras
from keras import ops

__all__ = ["sum_of", "weighted_sums"]

BLOCKS = 16
LONGEST_PART = 64


def weighted_sums(function, x, w, keep, adders, sum_pair=None):
    """Σ d|w| and Σ d with d = function(x), over all axes but `keep`.

    Args:
        adders: See `sum_of`.
        sum_pair: If XLA compiles it, `sum_pair(x, y, total)` returns total(x)
            and total(y), and computes x and y as one complex tensor. XLA on a
            CPU computes one tensor per pass, so that two would be two passes.
            Without XLA each operation runs by itself, and what it stores of a
            block stays in the cache of the CPU.
    """

    def terms(w, x):
        d = function(x)
        return d * ops.abs(w), d

    return _sums_of(terms, (w, x), keep, adders, sum_pair)


def sum_of(function, tensors, keep, adders):
    """Σ function(*tensors) over all axes but `keep`, see `_sums_of`.

    Args:
        adders: Two functions of a tensor and a list of axes, as `ops.sum`. The
            first adds up short parts, the second all that is left.
    """

    def terms(*tensors):
        return [function(*tensors)]

    return _sums_of(terms, tensors, keep, adders)[0]


def _sums_of(terms, tensors, keep, adders, sum_pair=None):
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
        return _sum(x, axes, *adders)

    whole = rows - rows % size
    totals = part(0, size)
    for start in range(size, whole, size):
        more = part(start, start + size)
        totals = [x + term for x, term in zip(totals, more)]
    if sum_pair and dtype in ("float32", "float64"):
        sums = sum_pair(*totals, total)
    else:
        sums = [total(x) for x in totals]
    if whole < rows:
        rest = [total(x) for x in part(whole, rows)]
        sums = [x + more for x, more in zip(sums, rest)]
    return sums


def _sum(x, axes, add_parts, add_rest):
    """The sum over axes, along the longest one in short parts first.

    Added up one by one, many numbers in float32 lose digits.
    """
    if not axes:
        return x
    longest = max(axes, key=lambda axis: x.shape[axis])
    length = x.shape[longest]
    part = max(n for n in range(1, LONGEST_PART + 1) if length % n == 0)
    shape = list(x.shape)
    shape[longest : longest + 1] = [length // part, part]
    return add_rest(add_parts(ops.reshape(x, shape), [longest + 1]), axes)
