"""What there is to say about a binary weight at one moment, in numbers.

In NumPy: a median by partition is many times faster than TensorFlow's sort, and
on a CPU an array shares the memory of the variable.
"""

import keras
import numpy as np

from keras_lab.constraints import WeightClip
from keras_lab.optimizers import LABAdam

__all__ = ["QUANTITIES", "flipped_share", "measure", "sign_bits"]

QUANTITIES = (
    "alpha",
    "flips",
    "clipped",
    "near_zero",
    "d_min",
    "d_median",
    "d_max",
    "error",
)


def measure(parts, optimizer, near_zero: float):
    """The statistics of each part, one after the other.

    Args:
        parts: A list of `keras_lab.analysis.names.Part`s.
        optimizer: The model's optimizer, for the curvature; may be `None`.
        near_zero: A weight is near zero where |w| < near_zero·α.

    Yields:
        For each part a dict of the `QUANTITIES` that it has, but the flips;
        its latent weights, and its packed sign bits. A quantity without a
        value just now is `None`.
    """
    optimizer = _lab_adam(optimizer)
    weight = None
    for part in parts:
        if part.weight is not weight:
            weight = part.weight
            latent, alpha = _array(weight.latent), _array(weight.alpha)
            direction = _curvature_direction(weight, optimizer)
        w = part.select(latent)
        d = None if direction is None else part.select(direction)
        statistics = {
            **_shares(w, part.select_alpha(alpha), weight, near_zero),
            **_spread(d, optimizer),
            "error": _relative_error(w, part.select_alpha(alpha), d),
        }
        yield statistics, w, sign_bits(w)


def sign_bits(w) -> np.ndarray:
    """The signs of an array, eight a byte; that of zero is +."""
    return np.packbits(w >= 0)


def flipped_share(before, after, count: int) -> float:
    """The share of `count` signs that differ."""
    return int(np.count_nonzero(np.unpackbits(before ^ after))) / count


def _lab_adam(optimizer):
    """The optimizer that knows a curvature, or `None`."""
    # Under mixed precision Keras wraps it.
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    return optimizer if isinstance(optimizer, LABAdam) else None


def _array(variable):
    array = keras.ops.convert_to_numpy(variable)
    return array.astype(np.result_type(array, np.float32), copy=False)


def _curvature_direction(weight, optimizer):
    """d but for the factor 1/η, which may be infinite."""
    if optimizer is None:
        return None
    try:
        return _array(optimizer.curvature(weight.latent, learning_rate=1.0))
    except ValueError:  # Not built yet, or the weight is not trained.
        return None


def _shares(w, alpha, weight, near_zero):
    magnitude = np.abs(w)
    shares = {"near_zero": _share(magnitude < near_zero * alpha)}
    if isinstance(weight.constraint, WeightClip):
        limit = np.asarray(weight.constraint.limit, w.dtype)
        shares["clipped"] = _share(magnitude >= limit)
    return {"alpha": float(np.mean(alpha)), **shares}


def _share(mask):
    return int(np.count_nonzero(mask)) / mask.size


def _spread(d, optimizer):
    if d is None:
        return {}
    rate = _rate(optimizer)
    return {
        f"d_{name}": float(getattr(np, name)(d)) / rate if rate > 0 else None
        for name in ("min", "median", "max")
    }


def _rate(optimizer):
    return float(keras.ops.convert_to_numpy(optimizer.learning_rate))


def _relative_error(w, alpha, d):
    """‖w − ŵ‖_D / ‖w‖_D, where ‖x‖²_D = Σ d x². d may lack any factor."""
    d = 1 if d is None else d
    # |w − α·sign(w)| = ||w| − α|
    above = np.sum(d * np.square(np.abs(w) - alpha))
    below = np.sum(d * np.square(w))
    return None if below == 0 else float(np.sqrt(above / below))
