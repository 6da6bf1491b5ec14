"""The loop over time, and what a binary cell prepares before it starts.

A binary cell forms ŵ once, and its product with the inputs of all time steps is
one matrix product, before the loop. The gradient of the recurrent kernel,

    ∂ℓ/∂Û = Σₜ hₜ₋₁ᵀ · ∂ℓ/∂zₜ,        zₜ = xₜ + hₜ₋₁·Û,

is one matrix product after it, because what arrives at the projected input xₜ
is ∂ℓ/∂zₜ. Only the recurrent product and the gates stay inside the loop.

JAX needs the rule of a gradient before the loop has run. There the loop is
differentiated as it is.

A cell never sees a whole sequence, only the layer around it does. So it is the
layer that calls `look_ahead`: see `TimeLoop.inner_loop`.
"""

import contextvars
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_lab._backend import backend

__all__ = ["Ahead", "DeferredGradient", "TimeLoop", "ahead_of"]


class Ahead(NamedTuple):
    """What a cell has ready when the loop over time begins.

    Attributes:
        kernel: The binary kernel ŵ that multiplies the inputs.
        recurrent_kernel: The binary kernel Û that multiplies the hidden state.
        product: The function h ↦ h·Û.
        projected: Whether the inputs of the loop are already multiplied by
            `kernel`.
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


# Keyed by cell. It is not an attribute of the cell because two threads may run
# the same model.
_ahead = contextvars.ContextVar("ahead", default=types.MappingProxyType({}))


def ahead_of(cell):
    """The `Ahead` of the loop that is running, or a new one for this step."""
    return _ahead.get().get(cell) or cell.look_ahead()


class DeferredGradient:
    """The product with Û, whose gradient is computed after the loop.

    Differentiating the loop would add up a matrix of the size of Û in every
    step. Here the loop sees Û as a constant. The projected inputs carry its
    gradient instead, computed at once from the hidden states of all steps. Like
    the straight-through estimator, it has a first derivative only.

    Args:
        kernel: The recurrent kernel Û.
        quantizer: The input quantizer that the hidden state goes through before
            the product, or `None`.
    """

    def __init__(self, kernel, quantizer=None):
        self.kernel = kernel
        self.constant = ops.stop_gradient(kernel)
        # TensorFlow is twice as fast with a matrix that is stored transposed
        # as with a transposed view.
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
        """Returns the projected inputs, time first; they carry Û's gradient."""

        @ops.custom_gradient
        def attach(projected, kernel):
            def gradient(*args, upstream=None):
                # Runs after the loop, so after `set_states`.
                if upstream is None:
                    (upstream,) = args
                h = ops.reshape(self.previous_states, (-1, kernel.shape[0]))
                h = h if self.quantizer is None else self.quantizer(h)
                z = ops.reshape(upstream, (-1, kernel.shape[1]))
                return upstream, ops.matmul(ops.transpose(h), z)

            return ops.copy(projected), gradient

        return attach(projected, self.kernel)

    def set_states(self, first_state, states, go_backwards):
        """Sets the hidden states of all steps, in the order of the loop."""
        first_state = ops.broadcast_to(
            ops.expand_dims(first_state, 1), ops.shape(states[:, :1])
        )
        states = ops.concatenate([first_state, states[:, :-1]], axis=1)
        states = ops.swapaxes(states, 0, 1)
        self.previous_states = ops.flip(states, 0) if go_backwards else states


@ops.custom_gradient
def _once(x):
    """The identity; differentiating it raises NotImplementedError."""

    def gradient(*args, upstream=None):
        raise NotImplementedError(
            "A binary recurrent layer has only first derivatives in training. "
            "Call it with `training=False` to differentiate twice. Received: "
            "training=True"
        )

    return x, gradient


class _AllOutputs:
    """A view of a recurrent layer that returns the output of every step."""

    return_sequences = True

    def __init__(self, layer):
        self._layer = layer

    def __getattr__(self, name):
        return getattr(self._layer, name)


class TimeLoop:
    """A mixin for `keras.layers.RNN` that lets binary cells prepare the loop.

    All binary cells form ŵ once per forward pass. The first cell also projects
    the whole sequence. Other cells are called as Keras calls them.
    """

    def inner_loop(self, sequences, initial_state, mask, training=False):
        cells = getattr(self.cell, "cells", [self.cell])
        cell, layer, deferred = cells[0], self, None
        ready = {c: c.look_ahead() for c in cells if hasattr(c, "look_ahead")}
        twice = any(other is cell for other in cells[1:])
        if cell in ready and cell.projects_ahead(training) and not twice:
            # Keras' loop puts time first as well. The two transpositions cancel
            # out, so the large projected sequence is never transposed.
            sequences = ops.swapaxes(sequences, 0, 1)
            sequences = cell.project(sequences, ready[cell].kernel, training)
            ready[cell] = ready[cell]._replace(projected=True)
            # Under a mask an output may differ from the state.
            if (
                backend.DEFERS_GRADIENTS
                and training
                and mask is None
                and self.cell is cell
            ):
                deferred = cell.defer_gradient(ready[cell].recurrent_kernel)
            if deferred is not None:
                layer = _AllOutputs(self)
                sequences = deferred.attach(sequences)
                ready[cell] = ready[cell]._replace(product=deferred.product)
            sequences = ops.swapaxes(sequences, 0, 1)
        token = _ahead.set({**_ahead.get(), **ready})
        try:
            # Not `super()`: LSTM and GRU would try cuDNN first.
            results = keras.layers.RNN.inner_loop(
                layer, sequences, initial_state, mask, training
            )
        finally:
            _ahead.reset(token)
        if deferred is not None:
            _, outputs, _ = results
            deferred.set_states(initial_state[0], outputs, self.go_backwards)
        return results
