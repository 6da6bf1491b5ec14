"""Whether the scale α of a binary weight belongs to its latent weight w.

An optimizer that changes w has α computed again. Something else may change w,
and then α is out of date. To detect that, α is compared with what it must be:
the optimizer that trains w has the curvature, without a curvature α is mean|w|,
and an α that was loaded belongs to the w that was loaded with it.
"""

import math

import keras
import numpy as np
from keras import ops

from keras_lab.ops import bwn_scale

__all__ = [
    "is_binary_connects",
    "is_possible",
    "is_stale",
    "snapshot",
    "to_numpy",
]

# The entries of w that are remembered with a loaded α. If others change and
# these do not, α is almost right.
REMEMBERED = 1024


def is_stale(weight):
    """Whether the w of a `BinaryWeight` has changed since α was computed.

    `False` if it cannot be known: LAB's α comes from a curvature, and the
    optimizer may no longer exist.
    """
    if not weight.quantizer.needs_curvature:
        return not is_possible(weight)
    entries, alpha = snapshot(weight)
    if not np.all(np.isfinite(entries)):
        return False  # There is no right scale for such a weight.
    tolerance = 10 * _tolerance(weight)

    def is_alpha(other):
        return np.allclose(alpha, other, tolerance, 0)

    as_remembered = False
    if weight.remembered is not None:
        old_entries, old_alpha = weight.remembered
        as_remembered = is_alpha(old_alpha)
        if as_remembered and np.array_equal(entries, old_entries):
            return False
    optimizer = weight.optimizer
    if not (as_remembered or weight.is_uniform or optimizer is not None):
        return False
    latent = weight.latent
    scales = weight.present_scale(latent), weight.compute_scale(latent)
    return not any(is_alpha(to_numpy(scale)) for scale in scales)


def is_possible(weight):
    """Whether α lies within the bounds that the quantizer sets for w."""
    w, tolerance = weight.view(weight.latent), _tolerance(weight)
    bounds = weight.quantizer.scale_bounds(w, weight.keep)
    least, most = map(to_numpy, bounds)
    alpha = to_numpy(weight.alpha)
    inside = (least * (1 - tolerance) <= alpha) & (
        alpha <= most * (1 + tolerance)
    )
    # There is no right scale for a weight that is not finite.
    return np.all(inside) or not ops.all(ops.isfinite(w))


def is_binary_connects(weight):
    """Whether α is 1 in a LAB weight whose mean|w| is less."""
    # It lies within LAB's bounds if a weight is 1, as clipped weights are.
    if not weight.quantizer.needs_curvature or np.any(
        to_numpy(weight.alpha) != 1
    ):
        return False
    mean = to_numpy(bwn_scale(weight.view(weight.latent), weight.keep))
    return np.any(mean < 1 - _tolerance(weight))


def snapshot(weight):
    """Entries of w and α, to see later if they have changed."""
    step = math.ceil(math.prod(weight.shape) / REMEMBERED)
    entries = ops.reshape(weight.latent, (-1,))[::step]
    return to_numpy(entries), to_numpy(weight.alpha)


def to_numpy(x):
    """A tensor or variable of any dtype as an array of float64."""
    if isinstance(x, keras.Variable):
        return x.numpy().astype("float64")
    return ops.convert_to_numpy(x).astype("float64")


def _tolerance(weight):
    return 1e-5 if weight.latent.dtype in ("float32", "float64") else 0.02
