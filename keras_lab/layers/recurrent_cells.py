"""Binary recurrent cells: LSTM, GRU and simple RNN.

Keras stacks the gates of a kernel in one variable. As in the authors' code,
each gate has its own α.

A cell's step has two parts. `project` needs only the inputs: it multiplies them
by the kernel and adds the bias. `step` is the recurrent product and `update`,
the gates. The loop over time (`time_loop.py`) projects a sequence at once.
"""

import numbers

import keras
from keras import ops

from keras_lab.layers.base import BinaryLayer
from keras_lab.layers.time_loop import Ahead, ahead_of
from keras_lab.quantizers import SignActivation

__all__ = [
    "BinaryCell",
    "BinaryGRUCell",
    "BinaryLSTMCell",
    "BinarySimpleRNNCell",
]

register = keras.saving.register_keras_serializable(package="keras_lab")


class BinaryCell(BinaryLayer):
    """A mixin that binarizes a recurrent cell of Keras.

    A subclass sets `_gates`, the number of gates stacked in its kernels.
    """

    _kernels = {"kernel": (-1,), "recurrent_kernel": (-1,)}
    _constraints = ("kernel_constraint", "recurrent_constraint")
    _gates = 1

    def __init__(
        self,
        units,
        activation="tanh",
        *args,
        binarize_inputs=False,
        one_hot=None,
        **kwargs,
    ):
        is_integer = isinstance(units, numbers.Integral)
        if not is_integer or isinstance(units, bool) or units < 1:
            raise ValueError(
                f"`units` must be a positive integer. Received: units={units!r}"
            )
        if isinstance(activation, str) and activation == "sign":
            activation = SignActivation()
        super().__init__(units, activation, *args, **kwargs)
        if binarize_inputs and self.input_quantizer is None:
            raise ValueError(
                "`binarize_inputs` needs an `input_quantizer`. Received: "
                f"binarize_inputs={binarize_inputs!r}, input_quantizer=None"
            )
        if one_hot is not None and not (
            isinstance(one_hot, numbers.Integral) and one_hot > 0
        ):
            raise ValueError(
                "`one_hot` must be None or the positive length of the one-hot "
                f"vectors. Received: one_hot={one_hot!r}"
            )
        if one_hot is not None and (binarize_inputs or self.dropout):
            raise ValueError(
                "One-hot inputs can be neither binarized nor dropped out. "
                f"Received: one_hot={one_hot!r}, dropout={self.dropout}, "
                f"binarize_inputs={binarize_inputs!r}"
            )
        self.binarize_inputs = bool(binarize_inputs)
        self.one_hot = one_hot

    def build(self, input_shape):
        if self.one_hot is not None:
            if input_shape[-1] != 1:
                raise ValueError(
                    f"Layer '{self.name}' has one_hot={self.one_hot}, so the "
                    "last axis of its inputs must hold one index. "
                    f"Received: inputs of shape {tuple(input_shape)}"
                )
            input_shape = (*input_shape[:-1], self.one_hot)
        super().build(input_shape)

    def _scale_axes(self, name, shape):
        if self._gates == 1:
            return super()._scale_axes(name, shape)
        rows, columns = shape
        keep = (1,) if self.kernel_quantizer.scale == "tensor" else (1, 2)
        return (rows, self._gates, columns // self._gates), keep

    @property
    def binary_recurrent_kernel(self):
        """The recurrent kernel of the forward pass: ŵ = α·sign(w)."""
        return self._forward_weight("recurrent_kernel")

    def call(self, inputs, states, training=False):
        ahead = ahead_of(self)
        if not ahead.projected:
            inputs = self.project(inputs, ahead.kernel, training)
        states = list(states) if keras.tree.is_nested(states) else [states]
        return self.step(inputs, states, ahead, training)

    def look_ahead(self):
        """Prepares what all steps of a forward pass share."""
        kernel, bias = self.binary_kernel, self._input_bias()
        if self.one_hot is not None and bias is not None:
            kernel = ops.add(kernel, bias)
        return Ahead(kernel, self.binary_recurrent_kernel)

    def projects_ahead(self, training):
        """Whether the loop should get projected inputs."""
        if type(self).call is not BinaryCell.call:
            return False  # The user's own, which expects the inputs themselves.
        # Rows that are looked up in each step come from the cache. In training,
        # computing the gradient of all rows together is faster.
        return self.one_hot is None or training

    def project(self, inputs, kernel, training=False):
        """The part of a step that needs no state, for one step or for many.

        Args:
            inputs: Of shape `(batch, features)` or `(time, batch, features)`.
            kernel: The kernel that `look_ahead` prepared.
            training: Whether to apply dropout to the inputs.
        """
        if self.one_hot is not None:
            self._check_indices(inputs)
            # The rows already include the bias.
            index = ops.cast(ops.squeeze(inputs, -1), "int32")
            return ops.take(kernel, index, axis=0)
        inputs = ops.cast(inputs, self.compute_dtype)
        if self.binarize_inputs:
            inputs = self.input_quantizer(inputs)
        masks = None
        if training and 0 < self.dropout < 1:
            one_step = inputs if len(inputs.shape) == 2 else inputs[0]
            masks = self.get_dropout_mask(one_step)
        outputs = _masked_product(inputs, kernel, masks)
        bias = self._input_bias()
        return outputs if bias is None else ops.add(outputs, bias)

    def _check_indices(self, inputs):
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        if not keras.backend.is_int_dtype(dtype):
            raise ValueError(
                f"Layer '{self.name}' has one_hot={self.one_hot}, so its "
                f"inputs must be integers. Received: inputs of dtype {dtype}"
            )

    def step(self, x, states, ahead, training):
        """The rest of a step.

        Args:
            x: The projected inputs.
            states: The list of states, with the hidden state h first.
            ahead: The `Ahead` of the cell.
            training: Whether to apply dropout to h.

        Returns:
            The output and the list of new states.
        """
        h = self.recurrent_input(states[0])
        z = x + self._recurrent_product(h, ahead, training)
        states = self.update(z, states)
        return states[0], states

    def update(self, z, states):
        """The list of new states, given the sum of the two products."""
        raise NotImplementedError

    def has_written_gradient(self):
        """Whether `time_loop.loop_with_gradient` can run this cell."""
        # A user's own step may use x and h in another way.
        own_step = type(self).step is not BinaryCell.step
        return not own_step and not self.recurrent_dropout

    def _recurrent_product(self, h, ahead, training, gates=slice(None)):
        """Multiplies the hidden state by the kernels of some gates."""
        if training and 0 < self.recurrent_dropout < 1:
            masks = self.get_recurrent_dropout_mask(h)
            masks = masks[gates] if isinstance(masks, list) else masks
        else:
            masks = None
        kernel = ahead.recurrent_kernel
        if gates != slice(None):
            first, last, _ = gates.indices(self._gates)
            kernel = kernel[:, first * self.units : last * self.units]
        return _masked_product(h, kernel, masks)

    def recurrent_input(self, h):
        """The hidden state as the recurrent kernel multiplies it."""
        return h if self.input_quantizer is None else self.input_quantizer(h)

    def _input_bias(self):
        if self.bias is None:
            return None
        return ops.cast(self.bias, self.compute_dtype)

    def _saves_as_keras(self):
        return False  # Keras does not save the state of a cell's dropout.

    def _own_variables(self):
        return [*super()._own_variables(), self.seed_generator.state]

    def get_config(self):
        return {
            **super().get_config(),
            "binarize_inputs": self.binarize_inputs,
            "one_hot": self.one_hot,
        }


def _masked_product(x, kernel, masks):
    if masks is None:
        return ops.matmul(x, kernel)
    if not isinstance(masks, (list, tuple)):
        return ops.matmul(x * masks, kernel)
    # Keras has another dropout mask for each gate.
    kernels = ops.split(kernel, len(masks), axis=1)
    products = [ops.matmul(x * m, k) for m, k in zip(masks, kernels)]
    return ops.concatenate(products, axis=-1)


@register
class BinaryLSTMCell(BinaryCell, keras.layers.LSTMCell):
    """`keras.layers.LSTMCell` with binary kernels, one α per gate and kernel.

    `kernel` and `recurrent_kernel` are latent weights, `alpha` and
    `recurrent_alpha` are their scales of shape `(4,)`, and `binary_kernel` and
    `binary_recurrent_kernel` are the kernels of the forward pass. Use the cell
    in a `keras_lab.BinaryRNN`, which forms them once per forward pass. A plain
    `keras.layers.RNN` gives the same outputs, but forms them in each step.

    Args:
        units: Positive integer, the number of units.
        activation, kernel_quantizer, input_quantizer, binarize_inputs, one_hot,
            kernel_constraint, recurrent_constraint: See `BinaryLSTM`.
        *args, **kwargs: Every other argument of `keras.layers.LSTMCell`, in the
            same order.

    Call arguments:
        inputs: A tensor of shape `(batch, features)`; integers of shape
            `(batch, 1)` with `one_hot`.
        states, training: As in Keras.
    """

    _gates = 4

    def update(self, z, states):
        z = ops.reshape(z, (-1, self._gates, self.units))
        # Also of the candidate, which needs none: XLA computes one activation
        # over everything twice as fast as one per gate.
        i, f, _, o = ops.unstack(self.recurrent_activation(z), axis=1)
        c = f * states[1] + i * self._candidate(ops.unstack(z, axis=1)[2])
        return [o * self.activation(c), c]

    def _candidate(self, z):
        # The authors binarize the output of the cell, not the candidate.
        if isinstance(self.activation, SignActivation):
            return ops.tanh(z)
        return self.activation(z)


@register
class BinaryGRUCell(BinaryCell, keras.layers.GRUCell):
    """`keras.layers.GRUCell` with binary kernels, one α per gate and kernel.

    Works like `BinaryLSTMCell`, with scales of shape `(3,)`. With
    `reset_after=False` the reset gate acts on the hidden state after
    `input_quantizer`: the recurrent kernel multiplies r·sign(h).

    Args:
        units: Positive integer, the number of units.
        *args, **kwargs: Every other argument of `keras.layers.GRUCell`, and the
            arguments that `BinaryLSTM` adds to those of Keras.
    """

    _gates = 3

    def step(self, x, states, ahead, training):
        x_z, x_r, x_h = ops.split(x, 3, axis=-1)
        h = self.recurrent_input(states[0])

        def product(h, gates=slice(None)):
            return self._recurrent_product(h, ahead, training, gates)

        if self.reset_after:
            y = product(h)
            if self.bias is not None:
                y = y + ops.cast(self.bias[1], y.dtype)
            y_z, y_r, y_h = ops.split(y, 3, axis=-1)
        else:
            y_z, y_r = ops.split(product(h, slice(0, 2)), 2, axis=-1)
        z = self.recurrent_activation(x_z + y_z)
        r = self.recurrent_activation(x_r + y_r)
        y_h = r * y_h if self.reset_after else product(r * h, slice(2, 3))
        candidate = self.activation(x_h + y_h)
        h = z * states[0] + (1 - z) * candidate
        return h, [h]

    def _input_bias(self):
        bias = super()._input_bias()
        return bias[0] if bias is not None and self.reset_after else bias


@register
class BinarySimpleRNNCell(BinaryCell, keras.layers.SimpleRNNCell):
    """`keras.layers.SimpleRNNCell` with binary kernels, one α per kernel.

    Works like `BinaryLSTMCell`, with scales of shape `()`.

    Args:
        units: Positive integer, the number of units.
        *args, **kwargs: Every other argument of `keras.layers.SimpleRNNCell`,
            and the arguments that `BinaryLSTM` adds to those of Keras.
    """

    def update(self, z, states):
        return [z if self.activation is None else self.activation(z)]
