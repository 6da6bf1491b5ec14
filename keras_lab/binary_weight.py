"""A latent weight w, its scale α and the binary weight ŵ = α·sign(w).

α is state: it is a variable, it is saved, and the forward pass only reads it.
It has to be computed again whenever an optimizer has changed w. Every Keras
optimizer calls a variable's constraint at that moment, so the latent weight has
one, `RefreshScale`, that works with any optimizer. `LABAdam` also knows the
curvature, so it computes α itself.

Something else may change w, and then α is out of date. `check_alpha` finds out,
with `scale_check.py`.
"""

import contextlib
import contextvars
import itertools
import warnings
import weakref

import keras
from keras import ops

from keras_lab._backend import backend
from keras_lab.ops import (
    Elementwise,
    align_scale,
    binarize,
    bwn_scale,
    sum_dtype,
)
from keras_lab.scale_check import ScaleCheck, to_numpy
from keras_lab.scale_variable import Scale

__all__ = [
    "BinaryWeight",
    "full_precision",
    "keras_variables",
    "refreshed_by_optimizer",
    "repair_scales",
    "weight_of",
    "weights_of",
]

_refreshed_by_optimizer = contextvars.ContextVar("refreshed", default=False)
_full_precision = contextvars.ContextVar("full_precision", default=frozenset())


class BinaryWeight:
    """A latent weight w, its scale α and the binary weight ŵ = α·sign(w).

    Layers create it: see `layer.binary_weights`, or
    `keras_lab.binary_weights(model)` for all of a model.

    Args:
        latent: The latent weight w, a trainable variable.
        quantizer: A `keras_lab.quantizers.KernelQuantizer`.
        shape: The shape in which to see w. It differs from the variable's shape
            if gates are stacked in it: they then have an axis of their own.
        keep: The axes of `shape` along which α varies.
        name: The name of α's variable.
    """

    _alive = weakref.WeakSet()
    _serial_numbers = itertools.count()
    _warned_up_to = -1

    def __init__(self, latent, quantizer, shape, keep, name="alpha"):
        self.latent = latent
        self.quantizer = quantizer
        self.shape = tuple(shape)
        self.keep = tuple(keep)
        self.scale_check = ScaleCheck(self)
        # A layer may be built inside a function that is being compiled.
        with backend.init_scope():
            self.alpha = Scale(
                initializer=lambda shape, dtype: self.compute_scale(latent),
                shape=tuple(self.shape[axis] for axis in self.keep),
                dtype=latent.dtype,
                trainable=backend.SCALE_IS_TRAINABLE,
                autocast=False,
                aggregation="only_first_replica",
                name=name,
            )
            if backend.is_concrete(self.alpha.value):
                self.scale_check.remember()
        self.alpha.weight = self
        self._serial_number = next(BinaryWeight._serial_numbers)
        latent.constraint = RefreshScale(self, latent.constraint)
        BinaryWeight._alive.add(self)

    @property
    def constraint(self):
        """The user's constraint on the latent weight, or `None`."""
        return self.latent.constraint.constraint

    def value(self, dtype=None):
        """Returns ŵ. Its gradient goes to the latent weight unchanged.

        Args:
            dtype: The dtype of ŵ. Defaults to that of the latent weight.
        """
        dtype = dtype or self.latent.dtype
        w = ops.convert_to_tensor(self.latent)
        if id(self) in _full_precision.get():
            return ops.cast(w, dtype)
        alpha = ops.cast(self.alpha, dtype)
        alpha = align_scale(alpha, len(self.shape), self.keep)
        binary = binarize(ops.reshape(w, self.shape), alpha)
        return ops.reshape(binary, self.latent.shape)

    @property
    def optimizer(self):
        """The `LABAdam` that has trained the latent weight, or `None`."""
        return self.scale_check.optimizer

    @optimizer.setter
    def optimizer(self, optimizer):
        self.scale_check.computed_by(optimizer)

    def refresh(self, curvature=None):
        """Computes α again from the present latent weight.

        Args:
            curvature: The diagonal of the Hessian up to a positive factor, with
                the shape of the latent weight: a tensor or an `Elementwise`.
                `None` if it is not known.
        """
        self.alpha.assign_unchecked(self.compute_scale(self.latent, curvature))

    def refresh_without_curvature(self, w):
        """As `refresh`, for a w that an optimizer is about to assign."""
        if self.quantizer.needs_curvature:
            self._warn_once()
        self.scale_check.computed_without_curvature()
        # A NaN has no sign. If the scale does not depend on the weights, a NaN
        # among them would go unnoticed. For the other scales this is the same
        # sum, computed once.
        nan_or_zero = 0 * bwn_scale(self.view(w), self.keep)
        scale = self.compute_scale(w)
        scale = scale + ops.cast(nan_or_zero, scale.dtype)
        self.alpha.assign_unchecked(scale)

    def current_scale(self):
        """The α of the present latent weight, to be saved.

        It is computed again if α is out of date, for example after Keras'
        callback `SwapEMAWeights` has exchanged the latent weight.
        """
        if not self.scale_check.is_stale():
            return self.alpha
        if self.optimizer is None and self.quantizer.needs_curvature:
            warnings.warn(
                f"The scale of '{self.latent.path}' is out of date. mean|w| is "
                "saved instead.",
                stacklevel=2,
            )
        return self.scale_check.expected_scale()

    def check_alpha(self):
        """Raises ValueError if α is not the scale of the latent weight.

        The α of BWN and BinaryConnect must equal their formulas. LAB's must lie
        between the least and the greatest |w|. It must be the α that the
        optimizer's curvature gives, or mean|w|, or have been loaded with w. α
        gets out of date if something other than a Keras optimizer changes the
        latent weight.
        """
        check = self.scale_check
        if not check.is_possible() or check.is_stale():
            raise ValueError(
                f"The scale of '{self.latent.path}' is out of date: the latent "
                "weight has changed since it was computed. Call "
                "`keras_lab.refresh(model)`. Received: "
                f"alpha={to_numpy(self.alpha)}"
            )

    def repair(self):
        """Computes α again if it cannot be the scale of the latent weight.

        Called after loading, because the values may come from a layer with
        another quantizer. An α that differs only by rounding stays as it is, so
        that a training resumed from a file is exact to the bit.
        """
        check = self.scale_check
        check.loaded()
        if check.is_possible() and not check.is_binary_connects():
            check.remember()
            return
        if self.quantizer.needs_curvature:
            warnings.warn(
                f"The scale that was loaded for '{self.latent.path}' does not "
                "belong to this latent weight. It is replaced by mean|w|, "
                "until the first step with `keras_lab.LABAdam`.",
                stacklevel=2,
            )
        self.refresh()

    def compute_scale(self, w, d=None):
        """The α of a latent weight w with the curvature d."""
        if isinstance(d, Elementwise):
            d = Elementwise(d.function, self.view(d.argument))
        elif d is not None:
            d = self.view(d)
        scale = self.quantizer.compute_scale(self.view(w), d, self.keep)
        return ops.cast(scale, self.latent.dtype)

    def view(self, x):
        """x in the shape of the scale's axes, precise enough to sum."""
        # A sum over many weights needs more precision than a half has.
        x = ops.cast(x, sum_dtype(self.latent.dtype))
        return ops.reshape(x, self.shape)

    def _warn_once(self):
        # Once for all weights that exist by now, not once per layer. A model
        # built later warns again.
        if self._serial_number <= BinaryWeight._warned_up_to:
            return
        BinaryWeight._warned_up_to = next(BinaryWeight._serial_numbers)
        warnings.warn(
            f"The weight '{self.latent.path}' has the loss-aware LAB "
            "quantizer, but this optimizer does not provide the curvature. "
            "The curvature is assumed to be uniform, which is BWN: "
            "alpha = mean|w|. Train with `keras_lab.LABAdam`, or use 'bwn'.",
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
    """Inside, the optimizer that applies gradients refreshes α itself."""
    token = _refreshed_by_optimizer.set(True)
    try:
        yield
    finally:
        _refreshed_by_optimizer.reset(token)


@contextlib.contextmanager
def full_precision(weights):
    """Inside, forward passes use the latent weight w of these weights, not ŵ.

    A compiled function keeps what held when it was traced.
    """
    token = _full_precision.set(frozenset(map(id, weights)))
    try:
        yield
    finally:
        _full_precision.reset(token)


def keras_variables(variables):
    """Returns Keras' own variable for each TensorFlow variable of a latent.

    `tape.watched_variables()` lists TensorFlow variables, which have neither a
    constraint nor an α.
    """
    if all(isinstance(v, keras.Variable) for v in variables):
        return variables
    latents = [weight.latent for weight in BinaryWeight._alive]
    latents = {id(latent.value): latent for latent in latents}
    return [latents.get(id(variable), variable) for variable in variables]


def weight_of(variable):
    """The `BinaryWeight` of a latent weight; `None` for other variables."""
    constraint = getattr(variable, "constraint", None)
    return constraint.weight if isinstance(constraint, RefreshScale) else None


def weights_of(variables):
    """The `BinaryWeight` of each latent weight among the variables."""
    weights = map(weight_of, variables)
    return [weight for weight in weights if weight is not None]


def repair_scales(variables):
    """Repairs the α of each latent weight among the variables."""
    for weight in weights_of(variables):
        weight.repair()
