"""The loop over time, and what a binary cell prepares before it starts.

A binary cell forms ŵ once, and its product with the inputs of all time steps is
one matrix product, before the loop. Only the recurrent product and the gates
stay inside the loop. In training, `recurrence.py` runs it.

A cell never sees a whole sequence, only the layer around it does. So it is the
layer that calls `look_ahead`: see `TimeLoop.inner_loop`.
"""

import contextvars
import types
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_lab.layers.recurrence import recurrence

__all__ = ["Ahead", "TimeLoop", "ahead_of"]


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
                return self._recurrence(sequences, kernel, initial_state)
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

    def _recurrence(self, projected, kernel, initial_state):
        if self.go_backwards:
            projected = ops.flip(projected, 0)
        states = keras.tree.flatten(initial_state)
        outputs, states = recurrence(self.cell, projected, kernel, states)
        return outputs[-1], ops.swapaxes(outputs, 0, 1), states
