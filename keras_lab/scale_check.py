"""Whether the scale α of a binary weight belongs to its latent weight w.

Two questions are asked. `is_up_to_date`: is α that of the present w? It is if
it has been remembered together with w, or if the formula gives it.
`is_possible`: can α be the scale of w, for some curvature? That is all that can
be asked of a value that was loaded, or if the optimizer that knew the curvature
no longer exists.

No scale is right for a w that is not finite, so none is wrong.
"""

import math

import keras
import numpy as np
from keras import ops

from keras_lab.ops import sum_dtype

__all__ = ["is_possible", "is_up_to_date", "snapshot", "to_numpy"]

# The entries of w that are remembered with α. If others change and these do
# not, α is almost right.
REMEMBERED = 1024


def is_up_to_date(weight):
    """Whether the α of a `BinaryWeight` is that of its present w.

    `True` if it cannot be known.
    """
    if not _is_finite(weight):
        return True
    entries, alpha = snapshot(weight)
    alpha_is_remembered = False
    if weight.remembered is not None:
        old_entries, old_alpha = weight.remembered
        alpha_is_remembered = np.array_equal(alpha, old_alpha)
        if alpha_is_remembered and np.array_equal(entries, old_entries):
            return True
    curvature, tolerance = weight.known_curvature(), _tolerance(weight)
    if weight.quantizer.needs_curvature:
        tolerance = max(tolerance, 1e-4)  # The curvature is rounded, too.
    for d in (curvature, None):
        scale = to_numpy(weight.compute_scale(weight.latent, d))
        if np.allclose(alpha, scale, tolerance, 0):
            return True
    if alpha_is_remembered or weight.is_uniform or curvature is not None:
        return False
    # α may be that of a curvature which is not known any more.
    return is_possible(weight)


def is_possible(weight):
    """Whether α lies within the bounds that the quantizer sets for w."""
    if not _is_finite(weight):
        return True
    alpha, tolerance = to_numpy(weight.alpha), _tolerance(weight)
    if weight.quantizer.needs_curvature and np.all(alpha == 1):
        # This is BinaryConnect's α, unless all |w| are 1. If w is clipped, it
        # would lie within LAB's bounds.
        least = most = to_numpy(weight.compute_scale(weight.latent))
    else:
        w = weight.view(weight.latent)
        bounds = weight.quantizer.scale_bounds(w, weight.keep)
        least, most = map(to_numpy, bounds)
    least, most = least * (1 - tolerance), most * (1 + tolerance)
    return np.all((least <= alpha) & (alpha <= most))


def snapshot(weight):
    """Entries of w, and α, to see later if they have changed."""
    step = math.ceil(math.prod(weight.shape) / REMEMBERED)
    entries = ops.reshape(weight.latent, (-1,))[::step]
    return to_numpy(entries), to_numpy(weight.alpha)


def to_numpy(x):
    """A tensor, a variable or a number as an array of float64."""
    x = ops.convert_to_tensor(x)
    # TensorFlow gives NumPy no bfloat16.
    x = ops.cast(x, sum_dtype(keras.backend.standardize_dtype(x.dtype)))
    return ops.convert_to_numpy(x).astype("float64")


def _is_finite(weight):
    return bool(ops.all(ops.isfinite(weight.latent)))


def _tolerance(weight):
    return 1e-5 if weight.latent.dtype in ("float32", "float64") else 0.02
