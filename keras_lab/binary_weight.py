"""A latent weight w, its scale α, and ŵ = α·sign(w): where they meet.

α is state: it is a variable, it is saved, and the forward pass only reads it.
Somebody has to compute it anew whenever an optimizer has moved w. Every Keras
optimizer calls a variable's constraint at just that moment, so the latent
weight carries one, `RefreshScale`, that does so with any optimizer. `LABAdam`
knows more, the curvature, and does it itself.
"""

import contextlib
import contextvars
import itertools
import warnings
import weakref

import keras
from keras import ops

from keras_lab.ops import Elementwise, align_scale, binarize, bwn_scale

__all__ = [
    "BinaryWeight",
    "blending",
    "keras_variables",
    "newest_weights",
    "refreshed_by_optimizer",
    "weight_key",
    "weights_of",
]

_refreshed_by_optimizer = contextvars.ContextVar("refreshed", default=False)
_shares = contextvars.ContextVar("shares", default=None)


class BinaryWeight:
    """The three of them, with the rule for α.

    Args:
        latent: The latent weight w, a trainable variable.
        quantizer: A `keras_lab.quantizers.KernelQuantizer`.
        shape: The shape in which the axes of `keep` are axes of w. A stacked
            kernel of gates has one more than the variable.
        keep: The axes of `shape` along which α varies.
        add_alpha: A function of `shape` and `initializer` that creates the
            variable of α.
    """

    _alive = weakref.WeakSet()
    _serial_numbers = itertools.count()
    _warned_up_to = -1

    def __init__(self, latent, quantizer, shape, keep, add_alpha):
        self.latent = latent
        self.quantizer = quantizer
        self.shape = tuple(shape)
        self.keep = tuple(keep)
        self.alpha = add_alpha(
            shape=tuple(self.shape[axis] for axis in self.keep),
            initializer=lambda shape, dtype: self._compute_scale(latent, None),
        )
        self._serial_number = next(BinaryWeight._serial_numbers)
        latent.constraint = RefreshScale(self, latent.constraint)
        BinaryWeight._alive.add(self)

    @property
    def constraint(self):
        """The user's constraint on the latent weight, or `None`."""
        return self.latent.constraint.constraint

    def value(self, dtype=None):
        """ŵ in the given dtype; its gradient goes to the latent weight.

        Within `blending`, a mean of w and ŵ.
        """
        alpha = ops.cast(self.alpha, dtype or self.latent.dtype)
        alpha = align_scale(alpha, len(self.shape), self.keep)
        w = ops.convert_to_tensor(self.latent)
        binary = binarize(ops.reshape(w, self.shape), alpha)
        binary = ops.reshape(binary, self.latent.shape)
        share = (_shares.get() or {}).get(id(self))
        if share is None:
            return binary
        rest = ops.stop_gradient(ops.cast(w, binary.dtype) - binary)
        return binary + ops.cast(1 - share, binary.dtype) * rest

    def refresh(self, curvature=None):
        """Computes α anew from the latent weight as it is now.

        Args:
            curvature: The diagonal of the Hessian up to a positive factor, of
                the latent weight's shape: a tensor or an `Elementwise`. `None`
                where it is not known.
        """
        self.alpha.assign(self._compute_scale(self.latent, curvature))

    def refresh_without_curvature(self, w):
        """As `refresh`, for a w that an optimizer is about to assign."""
        if self.quantizer.needs_curvature:
            self._warn_once()
        # A NaN among the weights has no sign. Where the scale does not depend
        # on the weights, it would get lost; elsewhere this is the scale itself,
        # computed once.
        nan_or_zero = 0 * bwn_scale(self._view(w), self.keep)
        scale = self._compute_scale(w, None)
        self.alpha.assign(scale + ops.cast(nan_or_zero, scale.dtype))

    def _compute_scale(self, w, d):
        if isinstance(d, Elementwise):
            d = Elementwise(d.function, self._view(d.argument))
        elif d is not None:
            d = self._view(d)
        scale = self.quantizer.compute_scale(self._view(w), d, self.keep)
        return ops.cast(scale, self.latent.dtype)

    def _view(self, x):
        # Sums over many weights need more than the 8 or 11 bits of a half.
        dtype = keras.backend.result_type(self.latent.dtype, "float32")
        return ops.reshape(ops.cast(x, dtype), self.shape)

    def _warn_once(self):
        # Once for all the weights there are by now, not once a layer; a model
        # built later warns again.
        if self._serial_number <= BinaryWeight._warned_up_to:
            return
        BinaryWeight._warned_up_to = next(BinaryWeight._serial_numbers)
        warnings.warn(
            f"The weight '{self.latent.path}' is to be binarized by the "
            "loss-aware LAB quantizer, but its optimizer does not tell it the "
            "curvature. The curvature is taken to be uniform, which is BWN: "
            "alpha = mean|w|. Train with `keras_lab.LABAdam`, or say 'bwn'.",
            stacklevel=2,
        )


class RefreshScale(keras.constraints.Constraint):
    """Applies the user's constraint to w, then refreshes α."""

    def __init__(self, weight, constraint):
        self.weight = weight
        self.constraint = constraint

    def __call__(self, w):
        if self.constraint is not None:
            w = self.constraint(w)
        if not _refreshed_by_optimizer.get():
            self.weight.refresh_without_curvature(w)
        return w


@contextlib.contextmanager
def refreshed_by_optimizer():
    """The optimizer that applies gradients in here refreshes α by itself."""
    token = _refreshed_by_optimizer.set(True)
    try:
        yield
    finally:
        _refreshed_by_optimizer.reset(token)


@contextlib.contextmanager
def blending(weights, shares):
    """The forward passes in here use (1 − share)·w + share·ŵ.

    Args:
        weights: For which `BinaryWeight`s.
        shares: Of each, a scalar in [0, 1]: a number, tensor or variable.
    """
    token = _shares.set(dict(zip(map(id, weights), shares)))
    try:
        yield
    finally:
        _shares.reset(token)


def keras_variables(variables):
    """The variables, with Keras' own for each bare one of a latent weight.

    `tape.watched_variables()` gives bare TensorFlow variables, which know
    neither constraint nor α.
    """
    if all(isinstance(v, keras.Variable) for v in variables):
        return variables
    latents = [weight.latent for weight in BinaryWeight._alive]
    latents = {id(latent.value): latent for latent in latents}
    return [latents.get(id(variable), variable) for variable in variables]


def weights_of(variables):
    """The `BinaryWeight` of each latent weight among the variables."""
    constraints = [getattr(v, "constraint", None) for v in variables]
    return [c.weight for c in constraints if isinstance(c, RefreshScale)]


def weight_key(weight):
    """What of a binary weight is the same once its model was loaded again."""
    return "/".join(weight.latent.path.split("/")[-2:]), list(weight.shape)


def newest_weights(keys):
    """The newest binary weights of these keys, in this order.

    A metric in a saved model knows its weights by their keys only. It is made
    anew right after them.
    """
    unused = sorted(BinaryWeight._alive, key=lambda w: -w._serial_number)
    found = []
    for key in reversed(keys):
        matching = [w for w in unused if list(weight_key(w)) == list(key)]
        if not matching:
            raise ValueError(
                f"There is no binary weight '{key[0]}' of shape {key[1]}: is "
                "its model built? Load it with `compile=False`, and compile it."
            )
        found.append(matching[0])
        unused.remove(matching[0])
    return found[::-1]
