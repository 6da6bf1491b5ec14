"""The loop over time, and what a binary cell prepares before it starts.

A binary cell forms ŵ once, and its product with the inputs of all time steps is
one matrix product, before the loop. Only the recurrent product and the gates
stay inside the loop.

A cell never sees a whole sequence, only the layer around it does. So it is the
layer that calls `look_ahead`: see `TimeLoop.inner_loop`. It then runs the loop
of Keras, or in training `loop_with_gradient`, which has the gradient written
out.
"""

import contextvars
import types
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_lab._backend import backend

__all__ = ["Ahead", "TimeLoop", "ahead_of", "loop_with_gradient"]


class Ahead(NamedTuple):
    """What a cell has ready when the loop over time begins.

    Attributes:
        kernel: The binary kernel ŵ that multiplies the inputs.
        recurrent_kernel: The binary kernel Û that multiplies the hidden state.
        projected: Whether the inputs of the loop are already multiplied by
            `kernel`.
    """

    kernel: Any
    recurrent_kernel: Any
    projected: bool = False


# Keyed by cell. It is not an attribute of the cell because two threads may run
# the same model.
_ahead = contextvars.ContextVar("ahead", default=types.MappingProxyType({}))


def ahead_of(cell):
    """The `Ahead` of the loop that is running, or a new one for this step."""
    return _ahead.get().get(cell) or cell.look_ahead()


class TimeLoop:
    """A mixin for `keras.layers.RNN` that lets binary cells prepare the loop.

    All binary cells form ŵ once per forward pass. The first cell also projects
    the whole sequence. Other cells are called as Keras calls them.
    """

    def inner_loop(self, sequences, initial_state, mask, training=False):
        cells = getattr(self.cell, "cells", [self.cell])
        cell = cells[0]
        ready = {c: c.look_ahead() for c in cells if hasattr(c, "look_ahead")}
        twice = any(other is cell for other in cells[1:])
        if cell in ready and cell.projects_ahead(training) and not twice:
            # Keras' loop puts time first as well. The two transpositions cancel
            # out, so the large projected sequence is never transposed.
            sequences = ops.swapaxes(sequences, 0, 1)
            sequences = cell.project(sequences, ready[cell].kernel, training)
            # Under a mask an output may differ from the state.
            if (
                training
                and mask is None
                and self.cell is cell
                and not self.unroll
                and cell.has_written_gradient()
            ):
                kernel = ready[cell].recurrent_kernel
                return self._loop_in_training(sequences, kernel, initial_state)
            ready[cell] = ready[cell]._replace(projected=True)
            sequences = ops.swapaxes(sequences, 0, 1)
        token = _ahead.set({**_ahead.get(), **ready})
        try:
            # Not `super()`: LSTM and GRU would try cuDNN first.
            return keras.layers.RNN.inner_loop(
                self, sequences, initial_state, mask, training
            )
        finally:
            _ahead.reset(token)

    def _loop_in_training(self, projected, kernel, initial_state):
        if self.go_backwards:
            projected = ops.flip(projected, 0)
        states = keras.tree.flatten(initial_state)
        outputs, states = loop_with_gradient(
            self.cell, projected, kernel, states
        )
        return outputs[-1], ops.swapaxes(outputs, 0, 1), states


def loop_with_gradient(cell, projected, kernel, states):
    """Runs a cell over time, with the gradient of the loop written out.

    A step is zₜ = xₜ + hₜ₋₁·Û, where xₜ is the projected input, followed by the
    gates, which make the new states of zₜ and the old ones. Going back in time,

        ∂ℓ/∂zₜ, ∂ℓ/∂cₜ₋₁ = the gradient of the gates,
        ∂ℓ/∂hₜ₋₁ = ∂ℓ/∂zₜ · Ûᵀ,
        ∂ℓ/∂xₜ = ∂ℓ/∂zₜ,
        ∂ℓ/∂Û = Σₜ hₜ₋₁ᵀ · ∂ℓ/∂zₜ.

    The last one is one matrix product after the loop. Differentiating the loop
    would add up a matrix of the size of Û in every step, and with XLA on
    TensorFlow it would copy the gradient of all outputs in every step.

    Like the straight-through estimator, it has a first derivative only.

    Args:
        cell: A `BinaryCell`, which defines `update` and `recurrent_input`.
        projected: The projected inputs, of shape `(time, batch, columns)`.
        kernel: The recurrent kernel Û.
        states: The list of initial states, with h first.

    Returns:
        The outputs of all steps, time first, and the list of final states.
    """

    binary = cell.recurrent_input

    def run(projected, kernel, *first):
        def step(states, inputs):
            z = inputs[0] + ops.matmul(binary(states[0]), kernel)
            states = cell.update(z, states)
            return states, [z, *states]

        last, (z, *states) = backend.scan(
            step, first, [projected], like=[projected[0], *first]
        )

        def gradient(outputs, *last):
            before = [
                ops.concatenate([ops.expand_dims(start, 0), state[:-1]])
                for start, state in zip(first, states)
            ]
            # Faster than multiplying by a transposed view in each step.
            transposed = ops.transpose(kernel)

            def back(after, inputs):
                z, output, *before = inputs
                after = [after[0] + output, *after[1:]]
                dz, *after = backend.pull_back(cell.update, z, before, after)
                dh = ops.matmul(dz, transposed)
                if cell.input_quantizer is not None:
                    (dh,) = backend.pull_back(
                        lambda h, _: [binary(h)], before[0], [], [dh]
                    )
                return [after[0] + dh, *after[1:]], [dz]

            dfirst, (dz,) = backend.scan(
                back,
                last,
                [z, outputs, *before],
                like=[projected[0]],
                reverse=True,
            )
            dz, *dfirst = (_once(x, projected, kernel) for x in [dz, *dfirst])
            h = ops.reshape(binary(before[0]), (-1, kernel.shape[0]))
            flat = ops.reshape(dz, (-1, kernel.shape[1]))
            dkernel = ops.matmul(ops.transpose(h), flat)
            return dz, dkernel, *dfirst

        return (states[0], *last), gradient

    outputs, *last = backend.custom_gradient(run, projected, kernel, *states)
    return outputs, last


@ops.custom_gradient
def _once(x, *sources):
    """x; differentiating it raises NotImplementedError.

    On torch nothing else says that x depends on the sources.
    """

    def gradient(*args, upstream=None):
        raise NotImplementedError(
            "A binary recurrent layer has only first derivatives in training. "
            "Call it with `training=False` to differentiate twice. Received: "
            "training=True"
        )

    return x, gradient
