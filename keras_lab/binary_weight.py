"""A latent weight w, its scale α and the binary weight ŵ = α·sign(w).

α is state: it is a variable, it is saved, and the forward pass only reads it.
It has to be computed again whenever an optimizer has changed w. Every Keras
optimizer calls a variable's constraint at that moment, so the latent weight has
one, `RefreshScale`, that works with any optimizer. `LABAdam` also knows the
curvature, so it computes α itself.

Something else may change w, and then α is out of date. So α comes with a
snapshot: some entries of the w for which it was computed.
"""

import contextlib
import contextvars
import itertools
import math
import warnings
import weakref

import keras
import numpy as np
from keras import ops

from keras_lab._backend import backend
from keras_lab.ops import Elementwise, align_scale, binarize, bwn_scale

__all__ = [
    "BinaryWeight",
    "Scale",
    "at_least_float32",
    "full_precision",
    "keras_variables",
    "refreshed_by_optimizer",
    "repair_scales",
    "weight_of",
    "weights_of",
]

_refreshed_by_optimizer = contextvars.ContextVar("refreshed", default=False)
_full_precision = contextvars.ContextVar("full_precision", default=frozenset())
# The entries of w in a snapshot. If the others change and these do not, α is
# almost right.
SNAPSHOT_SIZE = 1024


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
        self._trained_by = lambda: None
        # A layer may be built inside a function that is being compiled.
        with backend.init_scope():
            self.alpha = Scale(
                initializer=lambda shape, dtype: self._compute_scale(
                    latent, None
                ),
                shape=tuple(self.shape[axis] for axis in self.keep),
                dtype=latent.dtype,
                trainable=backend.SCALE_IS_TRAINABLE,
                autocast=False,
                aggregation="only_first_replica",
                name=name,
            )
            self._snapshot = keras.Variable(
                initializer=lambda shape, dtype: self._make_snapshot(latent),
                shape=self._snapshot_shape(),
                dtype=latent.dtype,
                trainable=False,
                autocast=False,
                aggregation="only_first_replica",
                name=f"{name}_snapshot",
            )
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
        """The `LABAdam` that trains the latent weight, or `None`."""
        return self._trained_by()

    @optimizer.setter
    def optimizer(self, optimizer):
        # Not kept alive: its moments are twice as large as the weight.
        self._trained_by = weakref.ref(optimizer)

    def refresh(self, curvature=None):
        """Computes α again from the present latent weight.

        Args:
            curvature: The diagonal of the Hessian up to a positive factor, with
                the shape of the latent weight: a tensor or an `Elementwise`.
                `None` if it is not known.
        """
        self.assign_scale(
            self._compute_scale(self.latent, curvature), self.latent
        )

    def refresh_without_curvature(self, w):
        """As `refresh`, for a w that an optimizer is about to assign."""
        if self.quantizer.needs_curvature:
            self._warn_once()
        self._trained_by = lambda: None
        # A NaN has no sign. If the scale does not depend on the weights, a NaN
        # among them would go unnoticed. For the other scales this is the same
        # sum, computed once.
        nan_or_zero = 0 * bwn_scale(self._view(w), self.keep)
        scale = self._compute_scale(w, None)
        self.assign_scale(scale + ops.cast(nan_or_zero, scale.dtype), w)

    def assign_scale(self, scale, w):
        """Sets α, and remembers that it belongs to the latent weight w."""
        self.alpha.assign_unchecked(scale)
        self.take_snapshot(w)

    def take_snapshot(self, w):
        snapshot = self._make_snapshot(w)
        if backend.keeps_assignments(snapshot):
            self._snapshot.assign(snapshot)

    def current_scale(self):
        """The α of the present latent weight, to be saved.

        It is computed again if α is out of date, for example after Keras'
        callback `SwapEMAWeights` has exchanged the latent weight.
        """
        if not self.is_stale():
            return self.alpha
        optimizer, curvature = self.optimizer, None
        if optimizer is not None:
            curvature = optimizer.curvature(self.latent, learning_rate=1.0)
        elif self.quantizer.needs_curvature:
            warnings.warn(
                f"The scale of '{self.latent.path}' is out of date. mean|w| is "
                "saved instead.",
                stacklevel=2,
            )
        return self._compute_scale(self.latent, curvature)

    def check_alpha(self):
        """Raises ValueError if α is not the scale of the latent weight.

        The α of BWN and BinaryConnect must equal their formulas. LAB's is a
        mean of |w| weighted by a curvature that only the optimizer knew, so it
        must lie between the least and the greatest |w|, and w must not have
        changed since α was computed or loaded. α gets out of date if something
        other than a Keras optimizer changes the latent weight.
        """
        if not self._alpha_fits() or self.is_stale():
            raise ValueError(
                f"The scale of '{self.latent.path}' is out of date: the latent "
                "weight has changed since it was computed. Call "
                "`keras_lab.refresh(model)`. Received: "
                f"alpha={_to_numpy(self.alpha)}"
            )

    def is_stale(self):
        """Whether w has changed since α was set."""
        if not self.quantizer.needs_curvature:
            return not self._alpha_fits()
        seen, now = map(
            _to_numpy, (self._snapshot, self._make_snapshot(self.latent))
        )
        if not np.all(np.isfinite(now)):
            return False  # There is no right scale for such a weight.
        # A compiled step may round the snapshot differently.
        near = np.abs(now - seen) <= self._tolerance() * (
            np.abs(now) + np.max(_to_numpy(self.alpha), initial=0)
        )
        entries = self._snapshot_shape()[0] - math.prod(self.alpha.shape)
        # An α that is another one was set together with w, for example by
        # `tf.train.Checkpoint`.
        return bool(np.all(near[entries:]) and not np.all(near[:entries]))

    def repair(self):
        """Computes α again if it cannot be the scale of the latent weight.

        Called after loading, because the values may come from a layer with
        another quantizer. An α that differs only by rounding stays as it is, so
        that a training resumed from a file is exact to the bit.
        """
        if self._alpha_fits() and not self.alpha_is_binary_connects():
            return
        if self.quantizer.needs_curvature:
            warnings.warn(
                f"The scale that was loaded for '{self.latent.path}' does not "
                "belong to this latent weight. It is replaced by mean|w|, "
                "until the first step with `keras_lab.LABAdam`.",
                stacklevel=2,
            )
        self.refresh()

    def _alpha_fits(self):
        w = self._view(self.latent)
        if not ops.all(ops.isfinite(w)):
            return True  # There is no right scale for such a weight.
        bounds = self.quantizer.scale_bounds(w, self.keep)
        least, most = map(_to_numpy, bounds)
        alpha, tolerance = _to_numpy(self.alpha), self._tolerance()
        return np.all(
            (alpha >= least * (1 - tolerance))
            & (alpha <= most * (1 + tolerance))
        )

    def _snapshot_step(self):
        return math.ceil(math.prod(self.shape) / SNAPSHOT_SIZE)

    def _snapshot_shape(self):
        entries = math.ceil(math.prod(self.shape) / self._snapshot_step())
        return (entries + math.prod(self.alpha.shape),)

    def _make_snapshot(self, w):
        w = ops.reshape(w, (-1,))[:: self._snapshot_step()]
        return ops.concatenate([w, ops.reshape(self.alpha, (-1,))])

    def alpha_is_binary_connects(self):
        """Whether α is 1 in a LAB weight whose mean|w| is less."""
        # It lies within LAB's bounds if a weight is 1, as clipped weights are.
        if not self.quantizer.needs_curvature or np.any(
            _to_numpy(self.alpha) != 1
        ):
            return False
        mean = _to_numpy(bwn_scale(self._view(self.latent), self.keep))
        return np.any(mean < 1 - self._tolerance())

    def _tolerance(self):
        return 1e-5 if self.latent.dtype in ("float32", "float64") else 0.02

    def _compute_scale(self, w, d):
        if isinstance(d, Elementwise):
            d = Elementwise(d.function, self._view(d.argument))
        elif d is not None:
            d = self._view(d)
        scale = self.quantizer.compute_scale(self._view(w), d, self.keep)
        return ops.cast(scale, self.latent.dtype)

    def _view(self, x):
        # A sum over many weights needs more precision than a half has.
        dtype = at_least_float32(self.latent.dtype)
        return ops.reshape(ops.cast(x, dtype), self.shape)

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


class Scale(keras.Variable):
    """The variable of α.

    `model.set_weights` and Keras' training on JAX assign one variable after the
    other, the latent weight before its α. An assigned value that cannot be the
    scale of the latent weight is corrected here.
    """

    weight = None

    @property
    def trainable(self):
        # With its latent weight, also if the user has frozen only that.
        latent = True if self.weight is None else self.weight.latent.trainable
        return super().trainable and latent

    @trainable.setter
    def trainable(self, value):
        keras.Variable.trainable.fset(self, value)

    def assign(self, value):
        if backend.SCALE_IS_TRAINABLE and not backend.is_concrete(value):
            # The step of an optimizer, for example a weight decay.
            return value
        value = self.assign_unchecked(value)
        if self.weight is None or not backend.is_concrete(value):
            return value
        if not self.weight.quantizer.needs_curvature:
            self.weight.repair()
            return value
        self.weight.take_snapshot(self.weight.latent)
        if self.weight.alpha_is_binary_connects():
            self.weight.repair()
        return value

    def assign_unchecked(self, value):
        return super().assign(value)


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


def at_least_float32(dtype):
    """float32 for halves. `keras.backend.result_type` turns float64 into it."""
    return "float64" if dtype == "float64" else "float32"


def _to_numpy(x):
    return ops.convert_to_numpy(x).astype("float64")
