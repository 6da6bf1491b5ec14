"""A latent weight w, its scale α and the binary weight ŵ = α·sign(w).

α is state: it is a variable, it is saved, and the forward pass only reads it.
This is what happens to it:

- The layer is built: α is the scale of the initial w, without a curvature.
- An optimizer updates w. Every Keras optimizer then calls the constraint of w,
  which is `RefreshScale`, so α is computed again. `LABAdam` knows the
  curvature. With any other optimizer it is assumed to be uniform.
- A value is assigned to α, as `load_weights` and `set_weights` do after they
  have assigned w. It is kept to the bit if it can be the scale of w, and
  otherwise computed again: see `BinaryWeight._repair`. Keras' training on JAX
  assigns the α of its last step, which is kept.
- Something else changes w, for example `w.assign`. Then α is out of date until
  `keras_lab.refresh(model)`. `check_alpha` raises an error, which the export
  calls. A file that is saved gets the right α, and the model keeps its own, as
  Keras' callback `SwapEMAWeights` needs it.

`scale_check.py` finds out whether α belongs to w.
"""

import contextlib
import warnings
import weakref

import keras
from keras import ops

from keras_lab._backend import backend
from keras_lab.layer_tree import own_weights, unused_name, walk
from keras_lab.ops import (
    Elementwise,
    align_scale,
    binarize,
    sum_dtype,
)
from keras_lab.scale_check import (
    is_possible,
    is_up_to_date,
    snapshot,
    to_numpy,
)

__all__ = [
    "BinaryWeight",
    "Scale",
    "binary_weights",
    "full_precision",
    "weight_of",
    "weights_of",
]


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

    def __init__(self, latent, quantizer, shape, keep, name="alpha"):
        self.latent = latent
        self.quantizer = quantizer
        self.shape = tuple(shape)
        self.keep = tuple(keep)
        # Whether the forward pass uses w instead of ŵ.
        self.in_full_precision = False
        # Whether another optimizer than `LABAdam` trains w.
        self.is_uniform = False
        self._optimizer = lambda: None
        # Entries of w, and the α that belongs to them.
        self.remembered = None
        latent.constraint = RefreshScale(self, latent.constraint)
        # A layer may be built inside a function that is being compiled.
        with backend.init_scope():
            self.alpha = Scale(
                self,
                initializer=lambda shape, dtype: self._first_scale(),
                shape=tuple(self.shape[axis] for axis in self.keep),
                dtype=latent.dtype,
                trainable=backend.SCALE_IS_TRAINABLE,
                autocast=False,
                aggregation="only_first_replica",
                name=name,
            )
            self._remember()

    def _first_scale(self):
        # The variable has a value now, unless Keras only infers shapes.
        backend.constrain_value(self.latent)
        return self.compute_scale(self.latent)

    @property
    def constraint(self):
        """The user's constraint on the latent weight, or `None`."""
        return self.latent.constraint.constraint

    @property
    def optimizer(self):
        """The `LABAdam` that has trained the latent weight, or `None`."""
        optimizer = self._optimizer()
        if optimizer is None or not optimizer.knows_curvature():
            return None
        return optimizer

    @optimizer.setter
    def optimizer(self, optimizer):
        # Not kept alive: its moments are twice as large as the weight.
        self._optimizer = weakref.ref(optimizer)
        self.is_uniform = False

    def value(self, dtype=None):
        """Returns ŵ. Its gradient goes to the latent weight unchanged.

        Args:
            dtype: The dtype of ŵ. Defaults to that of the latent weight.
        """
        dtype = dtype or self.latent.dtype
        w = ops.convert_to_tensor(self.latent)
        if self.in_full_precision:
            return ops.cast(w, dtype)
        alpha = ops.cast(self.alpha, dtype)
        alpha = align_scale(alpha, len(self.shape), self.keep)
        binary = binarize(ops.reshape(w, self.shape), alpha)
        return ops.reshape(binary, self.latent.shape)

    def refresh(self, curvature=None):
        """Computes α again from the present latent weight.

        Args:
            curvature: The diagonal of the Hessian up to a positive factor, with
                the shape of the latent weight: a tensor or an `Elementwise`.
                Defaults to that of the `LABAdam` that trains the latent weight.
                Without one it is assumed to be uniform.
        """
        if curvature is None:
            curvature = self.known_curvature()
        self.alpha.assign_unchecked(self.compute_scale(self.latent, curvature))
        self._remember()

    def refresh_in_update(self, w):
        """Computes α for a w that an optimizer is about to assign."""
        optimizer = self._optimizer()
        if optimizer is not None and optimizer.is_applying:
            scale = self.compute_scale(w, self.known_curvature())
            self.alpha.assign_unchecked(scale)
            return
        if self.quantizer.needs_curvature and not self.is_uniform:
            # The same text for all weights, so that Python shows it only once.
            warnings.warn(
                "The optimizer does not provide the curvature that the "
                "loss-aware LAB quantizer needs. The curvature is assumed to "
                "be uniform, which is BWN: alpha = mean|w|. Train with "
                "`keras_lab.LABAdam`, or use 'bwn'.",
                stacklevel=2,
            )
        self._optimizer, self.is_uniform = lambda: None, True
        self.alpha.assign_unchecked(self.compute_scale(w))

    def check_alpha(self):
        """Raises ValueError if α is not the scale of the latent weight.

        α gets out of date if something other than a Keras optimizer changes the
        latent weight. This cannot always be known for LAB: its α comes from a
        curvature, and the optimizer may no longer exist. α must then lie
        between the least and the greatest |w|.
        """
        if not is_up_to_date(self):
            raise ValueError(
                f"The scale of '{self.latent.path}' is out of date: the latent "
                "weight has changed since it was computed. Call "
                "`keras_lab.refresh(model)`. Received: "
                f"alpha={to_numpy(self.alpha)}"
            )

    def scale_to_save(self):
        """α, or the scale of the present latent weight if α is out of date."""
        if is_up_to_date(self):
            return self.alpha
        curvature = self.known_curvature()
        if curvature is None and self.quantizer.needs_curvature:
            warnings.warn(
                f"The scale of '{self.latent.path}' is out of date. mean|w| is "
                "saved instead.",
                stacklevel=2,
            )
        return self.compute_scale(self.latent, curvature)

    def _repair(self, is_average=False):
        """Computes α again if it cannot be the scale of the latent weight.

        Called when a value has been assigned to α, because it may come from a
        layer with another quantizer. An α that differs only by rounding stays
        as it is, so that a training resumed from a file is exact to the bit.
        """
        if is_possible(self) and not is_average:
            self._remember()
            return
        if self.quantizer.needs_curvature and not is_average:
            warnings.warn(
                f"The scale that was loaded for '{self.latent.path}' does not "
                "belong to this latent weight. It is computed again. Before "
                "the first step with `keras_lab.LABAdam` it is mean|w|.",
                stacklevel=2,
            )
        self.refresh()

    def _remember(self):
        """Remembers that α belongs to the present latent weight."""
        if backend.is_concrete(self.alpha.value):
            self.remembered = snapshot(self)

    def known_curvature(self):
        """The curvature, up to a factor, if a `LABAdam` trains w, or `None`."""
        optimizer = self.optimizer
        if optimizer is None:
            return None
        return optimizer.relative_curvature(self.latent)

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


class Scale(keras.Variable):
    """The variable of the α of a `BinaryWeight`."""

    def __init__(self, weight, **options):
        self.weight = weight
        super().__init__(**options)

    @property
    def trainable(self):
        # With its latent weight, also if the user has frozen only that.
        return super().trainable and self.weight.latent.trainable

    @trainable.setter
    def trainable(self, value):
        keras.Variable.trainable.fset(self, value)

    def assign(self, value):
        if backend.SCALE_IS_TRAINABLE and not backend.is_concrete(value):
            # The step of an optimizer, for example a weight decay.
            return value
        # On JAX a training step returns α as a tensor. Other optimizers than
        # `LABAdam` average α and then assign the variable of the average.
        from_step = backend.SCALE_IS_TRAINABLE and ops.is_tensor(value)
        is_average = backend.SCALE_IS_TRAINABLE and isinstance(
            value, keras.Variable
        )
        value = self.assign_unchecked(value)
        if backend.is_concrete(value):
            if from_step:
                self.weight._remember()
            else:
                self.weight._repair(is_average and self.weight.is_uniform)
        return value

    def assign_unchecked(self, value):
        """Assigns a value that has just been computed as the scale of w."""
        return super().assign(value)


class RefreshScale(keras.constraints.Constraint):
    """Applies the user's constraint to w, then refreshes α."""

    def __init__(self, weight, constraint):
        self.weight = weight
        self.constraint = constraint

    def __call__(self, w):
        if self.constraint is not None:
            w = self.constraint(w)
        self.weight.refresh_in_update(w)
        return w


@contextlib.contextmanager
def full_precision(weights):
    """Inside, forward passes use the latent weight w of these weights, not ŵ.

    A compiled function keeps what held when it was traced.
    """
    for weight in weights:
        weight.in_full_precision = True
    try:
        yield
    finally:
        for weight in weights:
            weight.in_full_precision = False


def weight_of(variable):
    """The `BinaryWeight` of a latent weight; `None` for other variables."""
    constraint = getattr(variable, "constraint", None)
    return constraint.weight if isinstance(constraint, RefreshScale) else None


def weights_of(variables):
    """The `BinaryWeight` of each latent weight among the variables."""
    weights = map(weight_of, variables)
    return [weight for weight in weights if weight is not None]


def binary_weights(model: keras.Layer) -> dict[str, BinaryWeight]:
    """The binary weights of a model or layer, by unique path.

    Args:
        model: A built model, or any other layer.

    Returns:
        A dict from paths such as `"encoder/dense_1/kernel"` to
        `keras_lab.BinaryWeight`s: the path of the layer, as in
        `keras_lab.walk`, then the name of the latent weight. The cell of a
        recurrent layer is left out: `"lstm/recurrent_kernel"`. A shared weight
        appears once.

    Example:

    >>> for path, weight in keras_lab.binary_weights(model).items():
    ...     print(path, weight.alpha.numpy())
    """
    layers = {"": model, **walk(model)}
    recurrent = [x for x in layers.values() if isinstance(x, keras.layers.RNN)]
    cells = {id(layer.cell) for layer in recurrent}
    found, seen, prefixes = {}, set(), {"": ""}
    for path, layer in layers.items():
        around, _, name = path.rpartition("/")
        if path:
            inside = "" if id(layer) in cells else f"{name}/"
            prefixes[path] = prefixes[around] + inside
        for weight in weights_of(own_weights(layer)):
            if id(weight) not in seen:
                seen.add(id(weight))
                key = prefixes[path] + weight.latent.name
                found[unused_name(key, found)] = weight
    return found
