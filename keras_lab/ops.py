"""The paper's mathematics as pure functions of tensors.

Read this next to Section 3 of "Loss-aware Binarization of Deep Networks" (Hou,
Yao, Kwok, ICLR 2017). w is a latent weight, d ≻ 0 the diagonal of the
approximate Hessian, α the scale, b = sign(w), and ŵ = α·b.

`keep` lists the axes of w along which α varies. It is empty for one α per
tensor, as in the paper.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from keras_lab._backend import backend

__all__ = [
    "Elementwise",
    "align_scale",
    "binarize",
    "binary_connect_scale",
    "bwn_scale",
    "lab_scale",
    "sign",
    "sign_activation",
    "sum_dtype",
]


def sign(x):
    """+1 if x ≥ 0 and −1 otherwise, so sign(0) = +1; a NaN stays a NaN."""
    return ops.where(ops.equal(x, 0), ops.ones_like(x), backend.sign(x))


class Elementwise(NamedTuple):
    """The elementwise function(argument), not computed yet."""

    function: Callable
    argument: Any


def lab_scale(w, d, keep=()):
    """α = ‖d ⊙ w‖₁ / ‖d‖₁, the minimizer of Proposition 3.1.

    Any positive multiple of d gives the same α, so a caller may leave out
    factors such as the learning rate.

    Args:
        w: The latent weight.
        d: The curvature, with the shape of w: a tensor, or an `Elementwise`,
            which saves the memory of the tensor.
        keep: The axes along which α varies.
    """
    d = d if isinstance(d, Elementwise) else Elementwise(lambda x: x, d)
    w, x = ops.convert_to_tensor(w), ops.convert_to_tensor(d.argument)
    keep = _axes(keep, len(w.shape))
    above, below = backend.weighted_sums(d.function, x, w, keep)
    return above / below


def bwn_scale(w, keep=()):
    """α = ‖w‖₁ / n: the curvature is uniform (Equation 2, Remark 3.1)."""
    w = ops.convert_to_tensor(w)
    keep = _axes(keep, len(w.shape))
    summed = [n for axis, n in enumerate(w.shape) if axis not in keep]
    return backend.sum_of(ops.abs, (w,), keep) / math.prod(summed)


def binary_connect_scale(w, keep=()):
    """α = 1 (Equation 1, Remark 3.2)."""
    keep = _axes(keep, len(w.shape))
    return ops.ones([w.shape[axis] for axis in keep], dtype=w.dtype)


def _axes(keep, rank):
    """The axes in `keep`, counted from 0, in the order they have in α."""
    return sorted(axis % rank for axis in keep)


def align_scale(alpha, rank, keep=()):
    """α with axes of length one added, so that it broadcasts against w."""
    shape = [1] * rank
    for axis, length in zip(_axes(keep, rank), alpha.shape):
        shape[axis] = length
    return ops.reshape(alpha, shape)


@ops.custom_gradient
def binarize(w, alpha):
    """ŵ = α·sign(w), exact to the bit, in the dtype of α.

    The gradient with respect to ŵ goes to w unchanged, and none goes to α
    (Algorithm 1 updates w with ∇ℓ(ŵ)). α broadcasts against w.
    """

    def gradient(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        return ops.cast(upstream, w.dtype), ops.zeros_like(alpha)

    return backend.signed(alpha, w), gradient


@ops.custom_gradient
def sign_activation(x):
    """sign(x); the gradient passes if |x| ≤ 1 (Hubara et al., 2016)."""

    def gradient(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        inside = ops.less_equal(ops.abs(x), 1)
        return ops.where(inside, upstream, ops.zeros_like(upstream))

    return sign(x), gradient


def sum_dtype(dtype):
    """The dtype in which to add up many numbers: at least float32.

    Not `keras.backend.result_type`, which may forget float64.
    """
    return "float64" if dtype == "float64" else "float32"
