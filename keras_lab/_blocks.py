"""A sum over many weights, for backends that store what they do not fuse."""

import math

from keras import ops

__all__ = ["sum_of"]


def sum_of(function, tensors, keep, blocks):
    """Σ function(*tensors) over all axes but `keep`.

    Adds up blocks of the first axis, then sums the entries of that total.
    TensorFlow's XLA on a CPU would store function(*tensors) and then reduce it
    slowly; block by block it is one pass over the arguments, several times
    faster.
    """
    if not keep:
        tensors = [ops.reshape(x, (-1,)) for x in tensors]
    rank, length = len(tensors[0].shape), tensors[0].shape[0]
    blocks = 1 if 0 in keep else math.gcd(length, blocks)
    size = length // blocks
    total = function(*(x[:size] for x in tensors))
    for start in range(size, length, size):
        total = total + function(*(x[start : start + size] for x in tensors))
    return ops.sum(total, axis=[a for a in range(rank) if a not in keep])
