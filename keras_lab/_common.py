"""What two of the backends share. See `_backend.py`."""

from keras import ops

__all__ = [
    "attributes",
    "clip",
    "constrain_value",
    "finite",
    "sign",
    "signed",
    "sync",
]

# On torch it turns a NaN into zero.
sign = ops.sign


def attributes(layer) -> dict:
    """The attributes of a layer; torch keeps layers apart from the others."""
    return vars(layer)


def clip(w, limit):
    """w with its entries clipped to ±limit."""
    return ops.clip(w, -limit, limit)


def constrain_value(variable):
    """Does nothing: only TensorFlow wraps another variable."""


def finite(g):
    """The gradient, with zeros where its square is not finite."""
    return ops.where(ops.isfinite(ops.square(g)), g, ops.zeros_like(g))


def signed(alpha, w):
    """α where w ≥ 0, and −α elsewhere, in the dtype of α."""
    return ops.where(ops.greater_equal(w, 0), alpha, -alpha)


def sync(model):
    """Does nothing: only JAX keeps the variables of a training elsewhere."""
