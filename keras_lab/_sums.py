"""Sums over many weights in one pass over them."""

import math

import keras
from keras import ops

__all__ = ["sum_of", "weighted_sums"]

BLOCKS = 16
LONGEST_PART = 64


def weighted_sums(function, x, w, keep, add_up=ops.sum, pair=None):
    """Σ d|w| and Σ d with d = function(x), over all axes but `keep`.

    Args:
        pair: If XLA compiles it, makes a complex tensor of two real ones. XLA
            on a CPU computes one tensor per pass, so that two sums would be two
            passes. Without XLA each operation runs by itself, and what it
            stores of a block stays in the cache of the CPU.
    """

    def terms(w, x):
        d = function(x)
        return d * ops.abs(w), d

    return _sums_of(terms, (w, x), keep, add_up, pair)


def sum_of(function, tensors, keep, add_up=ops.sum):
    """Σ function(*tensors) over all axes but `keep`, see `_sums_of`."""

    def terms(*tensors):
        return [function(*tensors)]

    return _sums_of(terms, tensors, keep, add_up)[0]


def _sums_of(terms, tensors, keep, add_up, pair=None):
    """The sum of each of the terms(*tensors) over all axes but `keep`.

    Adds up blocks of rows, then sums the entries of that total. XLA on a
    CPU would store the terms and then reduce them slowly; block by block it is
    one pass over the arguments, several times faster. Blocks that end within a
    row would cost a division per weight.

    Args:
        add_up: Sums a total over one axis, as `ops.sum` does.
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

    whole = rows - rows % size
    totals = part(0, size)
    for start in range(size, whole, size):
        more = part(start, start + size)
        totals = [total + term for total, term in zip(totals, more)]
    if pair and dtype in ("float32", "float64"):
        both = _sum(pair(*totals), axes, ops.sum)
        sums = [ops.real(both), ops.imag(both)]
    else:
        sums = [_sum(total, axes, add_up) for total in totals]
    if whole < rows:
        rest = part(whole, rows)
        rest = [_sum(term, axes, add_up) for term in rest]
        sums = [total + more for total, more in zip(sums, rest)]
    return sums


def _sum(x, axes, add_up):
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
    return ops.sum(add_up(ops.reshape(x, shape), longest + 1), axis=axes)
