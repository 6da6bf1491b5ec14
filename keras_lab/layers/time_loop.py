"""The loop over time, and what a binary cell does ahead of it.

A binary cell forms ŵ once, and its product with the inputs of all time steps is
one matrix product, before the loop. The gradient of the recurrent kernel,

    ∂ℓ/∂Û = Σₜ hₜ₋₁ᵀ · ∂ℓ/∂zₜ,        zₜ = xₜ + hₜ₋₁·Û,

is one matrix product after it, because what arrives at the projected input xₜ
is ∂ℓ/∂zₜ. Inside the loop remain the recurrent product and the gates.
"""

import contextvars
import functools
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

__all__ = ["Ahead", "ahead_of"]


class Ahead(NamedTuple):
    """What a cell has ready when the loop over time begins.

    Attributes:
        kernel: ŵ of the inputs.
        recurrent_kernel: Û, that of the hidden state.
        product: The function h ↦ h·Û.
        projected: Whether the loop's inputs are products with `kernel` already.
    """

    kernel: Any
    recurrent_kernel: Any
    product: Callable
    projected: bool = False

    @classmethod
    def of(cls, kernel, recurrent_kernel):
        return cls(
            kernel, recurrent_kernel, lambda h: ops.matmul(h, recurrent_kernel)
        )


# By cell. Not an attribute of the cell: two threads may run the same model.
_ahead = contextvars.ContextVar("ahead", default=types.MappingProxyType({}))


def ahead_of(cell):
    """What the cell has ready: by the loop that runs, or for this one step."""
    return _ahead.get().get(cell) or cell.look_ahead()


class DeferredGradient:
    """Û in the loop over time, with its gradient left for after the loop.

    Differentiating the loop would add up a matrix of the size of Û at each
    step. Here the loop sees Û as a constant; the projected inputs carry the
    gradient, which is computed from the hidden states of all the steps. It can
    be differentiated once, as the straight-through estimator it belongs to.

    Args:
        kernel: Û.
        quantizer: What the hidden state goes through before the product.
    """

    def __init__(self, kernel, quantizer=None):
        self.kernel = kernel
        self.constant = ops.stop_gradient(kernel)
        # Multiplied by a matrix as it lies, not as its transpose, TensorFlow
        # is twice as fast.
        self.transposed = ops.transpose(self.constant)
        self.quantizer = quantizer
        self.previous_states = None

    def product(self, h):
        @ops.custom_gradient
        def product(h):
            def gradient(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                return _once(ops.matmul(upstream, self.transposed))

            return ops.matmul(h, self.constant), gradient

        return product(h)

    def attach(self, projected):
        """The projected inputs, time first, with the gradient of Û."""

        @ops.custom_gradient
        def attach(projected, kernel):
            def gradient(*args, upstream=None):
                # Runs after the loop, and so after `see`.
                if upstream is None:
                    (upstream,) = args
                h = ops.reshape(self.previous_states, (-1, kernel.shape[0]))
                h = h if self.quantizer is None else self.quantizer(h)
                z = ops.reshape(upstream, (-1, kernel.shape[1]))
                return upstream, ops.matmul(ops.transpose(h), z)

            return ops.copy(projected), gradient

        return attach(projected, self.kernel)

    def see(self, first_state, states, go_backwards):
        """Tells the hidden states of all the steps, in the loop's order."""
        first_state = ops.broadcast_to(
            ops.expand_dims(first_state, 1), ops.shape(states[:, :1])
        )
        states = ops.concatenate([first_state, states[:, :-1]], axis=1)
        states = ops.swapaxes(states, 0, 1)
        self.previous_states = ops.flip(states, 0) if go_backwards else states


@ops.custom_gradient
def _once(x):
    """A gradient that is an error to differentiate again."""

    def gradient(*args, upstream=None):
        raise NotImplementedError(
            "In training, a binary recurrent layer has first derivatives only. "
            "Call it with `training=False` to differentiate twice."
        )

    return x, gradient


class _AllOutputs:
    """A recurrent layer as it is, but for giving the output of every step."""

    return_sequences = True

    def __init__(self, layer):
        self._layer = layer

    def __getattr__(self, name):
        return getattr(self._layer, name)


def _with_cells_ahead(inner_loop):
    @functools.wraps(inner_loop)
    def loop(self, sequences, initial_state, mask, training=False):
        cells = getattr(self.cell, "cells", [self.cell])
        cell, layer, deferred = cells[0], self, None
        ready = {c: c.look_ahead() for c in cells if hasattr(c, "look_ahead")}
        twice = any(other is cell for other in cells[1:])
        if cell in ready and cell.projects_ahead(training) and not twice:
            # Keras' loop puts time first as well, and undoes the second
            # transposition: the large projected sequences never are transposed.
            sequences = ops.swapaxes(sequences, 0, 1)
            sequences = cell.project(sequences, ready[cell].kernel, training)
            ready[cell] = ready[cell]._replace(projected=True)
            # Under a mask an output may differ from the state.
            if training and mask is None and self.cell is cell:
                deferred = cell.defer_gradient(ready[cell].recurrent_kernel)
            if deferred is not None:
                layer = _AllOutputs(self)
                sequences = deferred.attach(sequences)
                ready[cell] = ready[cell]._replace(product=deferred.product)
            sequences = ops.swapaxes(sequences, 0, 1)
        token = _ahead.set({**_ahead.get(), **ready})
        try:
            results = inner_loop(
                layer, sequences, initial_state, mask, training
            )
        finally:
            _ahead.reset(token)
        if deferred is not None:
            _, outputs, _ = results
            deferred.see(initial_state[0], outputs, self.go_backwards)
        return results

    loop.of_keras = inner_loop
    return loop


# A cell never sees a sequence: only the layer around it does. So the loop of
# `keras.layers.RNN` itself has binary cells work ahead. To any other cell it
# does what it always did. (Once, also where this module is loaded again.)
_inner_loop = keras.layers.RNN.inner_loop
keras.layers.RNN.inner_loop = _with_cells_ahead(
    getattr(_inner_loop, "of_keras", _inner_loop)
)
