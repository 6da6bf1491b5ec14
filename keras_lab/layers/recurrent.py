"""Binary recurrent layers: LSTM, GRU and the simple RNN, and their cells.

Keras stacks the gates of a kernel in one variable. Each has an α of its own, as
the authors have it.

A cell's step is split in two. `project` needs the inputs alone: their product
with the kernel, and the bias. `step` is the recurrent product and the gates.
Whoever loops over time (`time_loop.py`) projects a whole sequence at once.
"""

import inspect
import numbers

import keras
from keras import ops

from keras_lab.layers.base import BinaryLayer
from keras_lab.layers.time_loop import Ahead, DeferredGradient, ahead_of
from keras_lab.quantizers import SignActivation

__all__ = [
    "BinaryGRU",
    "BinaryGRUCell",
    "BinaryLSTM",
    "BinaryLSTMCell",
    "BinarySimpleRNN",
    "BinarySimpleRNNCell",
]

register = keras.saving.register_keras_serializable(package="keras_lab")


class BinaryCell(BinaryLayer):
    """A mixin that binarizes a recurrent cell of Keras.

    A subclass says in `_gates` how many gates its kernels stack. Each has an α
    of its own.
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
                "One-hot inputs are neither binarized nor dropped out. "
                f"Received: one_hot={one_hot!r}, dropout={self.dropout}, "
                f"binarize_inputs={binarize_inputs!r}"
            )
        self.binarize_inputs = bool(binarize_inputs)
        self.one_hot = one_hot

    def build(self, input_shape):
        if self.one_hot is not None:
            if input_shape[-1] != 1:
                raise ValueError(
                    f"Layer '{self.name}' has one_hot={self.one_hot}: the last "
                    "axis of its inputs holds one index. "
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
        """What all the steps of a forward pass share."""
        kernel, bias = self.binary_kernel, self._input_bias()
        if self.one_hot is not None and bias is not None:
            kernel = ops.add(kernel, bias)
        return Ahead.of(kernel, self.binary_recurrent_kernel)

    def projects_ahead(self, training):
        """Whether the loop is to get projected inputs."""
        if type(self).call is not BinaryCell.call:
            return False  # One's own, which expects the inputs themselves.
        # Rows looked up at each step are read from the cache. In training the
        # gradient of all of them together is faster.
        return self.one_hot is None or training

    def project(self, inputs, kernel, training=False):
        """The part of a step that needs no state, for one step or for many.

        Args:
            inputs: Of shape `(batch, features)` or `(time, batch, features)`.
            kernel: That of `look_ahead`.
            training: Whether to drop inputs out.
        """
        self._check_inputs(inputs)
        if self.one_hot is not None:
            # The bias is in the rows already.
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

    def _check_inputs(self, inputs):
        if self.one_hot is None:
            return super()._check_inputs(inputs)
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        if not keras.backend.is_int_dtype(dtype):
            raise ValueError(
                f"Layer '{self.name}' has one_hot={self.one_hot} and needs "
                f"integer inputs. Received: inputs of dtype {dtype}"
            )

    def step(self, x, states, ahead, training):
        """The rest of a step.

        Args:
            x: The projected inputs.
            states: The list of states, the hidden state h first.
            ahead: The `Ahead` of the cell.
            training: Whether to drop h out.

        Returns:
            The output and the list of new states.
        """
        raise NotImplementedError

    def defer_gradient(self, recurrent_kernel):
        """The `DeferredGradient` of the recurrent kernel, or `None`."""
        # A step of one's own may use x and h in another way.
        if type(self).step not in (
            BinaryLSTMCell.step,
            BinarySimpleRNNCell.step,
        ):
            return None
        if self.kernel_quantizer is None or self.recurrent_dropout > 0:
            return None
        return DeferredGradient(recurrent_kernel, self.input_quantizer)

    def _recurrent_product(self, h, ahead, training, gates=slice(None)):
        """The product of the hidden state with the kernels of some gates."""
        if training and 0 < self.recurrent_dropout < 1:
            masks = self.get_recurrent_dropout_mask(h)
            masks = masks[gates] if isinstance(masks, list) else masks
        elif gates == slice(None):
            return ahead.product(h)
        else:
            masks = None
        first, last, _ = gates.indices(self._gates)
        kernel = ahead.recurrent_kernel[
            :, first * self.units : last * self.units
        ]
        return _masked_product(h, kernel, masks)

    def _recurrent_input(self, h):
        return h if self.input_quantizer is None else self.input_quantizer(h)

    def _input_bias(self):
        if self.bias is None:
            return None
        return ops.cast(self.bias, self.compute_dtype)

    def _own_variables(self):
        # Keras does not save the state of a cell's dropout.
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
    # Keras drops out anew for each gate.
    kernels = ops.split(kernel, len(masks), axis=1)
    products = [ops.matmul(x * m, k) for m, k in zip(masks, kernels)]
    return ops.concatenate(products, axis=-1)


@register
class BinaryLSTMCell(BinaryCell, keras.layers.LSTMCell):
    """`keras.layers.LSTMCell` with binary kernels, one α a gate and kernel.

    `kernel` and `recurrent_kernel` are latent weights, `alpha` and
    `recurrent_alpha` their scales, of shape `(4,)`, and `binary_kernel` and
    `binary_recurrent_kernel` what the forward pass uses. In a
    `keras.layers.RNN` these are formed once a forward pass, and the first cell
    projects the inputs of all time steps ahead of the loop.

    Args:
        units: Positive integer, the number of units.
        activation, kernel_quantizer, input_quantizer, binarize_inputs, one_hot,
            kernel_constraint, recurrent_constraint: See `BinaryLSTM`.
        *args, **kwargs: Every other argument of `keras.layers.LSTMCell`, with
            its meaning and in its order.

    Call arguments:
        inputs: A floating-point tensor of shape `(batch, features)`; integers
            of shape `(batch, 1)` with `one_hot`.
        states, training: As in Keras.
    """

    _gates = 4

    def step(self, x, states, ahead, training):
        h, c = states
        h = self._recurrent_input(h)
        z = x + self._recurrent_product(h, ahead, training)
        i, f, candidate, o = ops.split(z, 4, axis=-1)
        c = self.recurrent_activation(f) * c
        c = c + self.recurrent_activation(i) * self._candidate(candidate)
        h = self.recurrent_activation(o) * self.activation(c)
        return h, [h, c]

    def _candidate(self, z):
        # The authors binarize what leaves the cell, not what enters it.
        if isinstance(self.activation, SignActivation):
            return ops.tanh(z)
        return self.activation(z)


@register
class BinaryGRUCell(BinaryCell, keras.layers.GRUCell):
    """`keras.layers.GRUCell` with binary kernels, one α a gate and kernel.

    As `BinaryLSTMCell`, with scales of shape `(3,)`. With `reset_after=False`
    the reset gate acts on the hidden state after `input_quantizer`: the
    candidate gets the product with r·sign(h).

    Args:
        units: Positive integer, the number of units.
        *args, **kwargs: Every other argument of `keras.layers.GRUCell`, and
            those of `BinaryLSTM` that are not in Keras.
    """

    _gates = 3

    def step(self, x, states, ahead, training):
        x_z, x_r, x_h = ops.split(x, 3, axis=-1)
        h = self._recurrent_input(states[0])

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
    """`keras.layers.SimpleRNNCell` with binary kernels, one α each.

    As `BinaryLSTMCell`, with scales of shape `()`.

    Args:
        units: Positive integer, the number of units.
        *args, **kwargs: Every other argument of `keras.layers.SimpleRNNCell`,
            and those of `BinaryLSTM` that are not in Keras.
    """

    def step(self, x, states, ahead, training):
        h = self._recurrent_input(states[0])
        h = x + self._recurrent_product(h, ahead, training)
        h = h if self.activation is None else self.activation(h)
        return h, [h]


class BinaryRNN:
    """A mixin that puts a binary cell into a recurrent layer of Keras."""

    _cell = None
    _cell_name = None
    _cell_options = (
        "kernel_quantizer",
        "input_quantizer",
        "binarize_inputs",
        "one_hot",
    )

    def __init__(self, *args, **kwargs):
        options = {k: kwargs.pop(k) for k in self._cell_options if k in kwargs}
        given = inspect.signature(super().__init__).bind(*args, **kwargs)
        given = given.arguments
        given.update(given.pop("kwargs", {}))
        use_cudnn = given.pop("use_cudnn", "auto")
        if use_cudnn not in ("auto", False):
            raise ValueError(
                "`use_cudnn` must be 'auto' or False: cuDNN does not train "
                f"binary kernels. Received: use_cudnn={use_cudnn!r}"
            )
        keras_cell = self._cell.__bases__[-1]
        names = {*inspect.signature(keras_cell).parameters, "implementation"}
        options.update({k: given.pop(k) for k in names & set(given)})
        options.update(
            {k: given[k] for k in ("dtype", "trainable") if k in given}
        )
        cell = self._cell(**options, name=self._cell_name)
        # Not Keras' layer itself, which would make a cell of its own.
        keras.layers.RNN.__init__(self, cell, **given)
        self.input_spec = keras.layers.InputSpec(ndim=3)
        self.use_cudnn = False

    @property
    def binary_weights(self):
        """The cell's `BinaryWeight`s, by the name of the latent weight."""
        return self.cell.binary_weights

    @property
    def kernel_quantizer(self):
        return self.cell.kernel_quantizer

    @property
    def input_quantizer(self):
        return self.cell.input_quantizer

    def inner_loop(self, sequences, initial_state, mask, training=False):
        if len(initial_state) != len(self.state_size):
            raise ValueError(
                f"Layer '{self.name}' has {len(self.state_size)} states. "
                f"Received: {len(initial_state)} initial states"
            )
        if keras.tree.is_nested(mask):
            mask = mask[0]
        if mask is not None:
            self._check_mask(mask, sequences)
        return keras.layers.RNN.inner_loop(
            self, sequences, initial_state, mask, training
        )

    def _check_mask(self, mask, sequences):
        shape, steps = tuple(mask.shape), sequences.shape[1]
        known = len(shape) == 2 and None not in (shape[1], steps)
        if len(shape) != 2 or (known and shape[1] != steps):
            raise ValueError(
                f"Layer '{self.name}' needs a mask of shape (batch, {steps}), "
                f"one entry a time step. Received: a mask of shape {shape}"
            )

    def get_config(self):
        config, cell = super().get_config(), self.cell.get_config()
        return {**config, **{name: cell[name] for name in self._cell_options}}


@register
class BinaryLSTM(BinaryRNN, keras.layers.LSTM):
    """`keras.layers.LSTM` with binary kernels, one α a gate and kernel.

    Its cell, `layer.cell`, is a `keras_lab.BinaryLSTMCell`: there are the
    latent weights and their α. ŵ is formed once a forward pass, and the inputs
    of all time steps are projected in one matrix product.

    Args:
        units: Positive integer, the number of units.
        activation: As in Keras, or `"sign"` for the authors' variant of a
            binarized LSTM: h = σ(o)·sign(c), with the straight-through
            estimator; the candidate keeps its tanh. Note that h then is not
            binary; `input_quantizer="sign"` makes it so where it is multiplied.
        kernel_quantizer: `"lab"`, `"bwn"`, `"binary_connect"`, a
            `keras_lab.quantizers.KernelQuantizer`, or `None` for a
            full-precision layer. By keyword. Defaults to `"lab"`.
        input_quantizer: `None`, or `"sign"` to binarize the hidden state where
            it enters the recurrent product, with the straight-through
            estimator; sign(0) = +1, also in a zero initial state. By keyword.
            Defaults to `None`.
        binarize_inputs: Whether `input_quantizer` is for the layer's inputs
            too. The paper leaves one-hot inputs alone. By keyword. Defaults to
            `False`.
        one_hot: `None`, or n for inputs that are one-hot vectors of length n,
            given by their indices: integers of shape `(batch, time, 1)`.
            Rows of the kernel are looked up then, and nothing is multiplied.
            Indices outside of 0 … n−1 are not all caught. By keyword. Defaults
            to `None`.
        kernel_constraint, recurrent_constraint: As in Keras, for the latent
            weights. Default to `keras_lab.constraints.WeightClip(1.0)` for
            binary kernels; `None` turns it off.
        *args, **kwargs: Every other argument of `keras.layers.LSTM`, with
            its meaning and in its order.

    Call arguments:
        sequences: A floating-point tensor of shape `(batch, time, features)`.
        initial_state, mask, training: As in Keras; a mask has the shape
            `(batch, time)`.

    Example:

    >>> layer = keras_lab.BinaryLSTM(16)
    >>> y = layer(np.random.rand(2, 10, 8).astype("float32"))
    >>> layer.cell.alpha.shape
    (4,)
    """

    _cell = BinaryLSTMCell
    _cell_name = "lstm_cell"


@register
class BinaryGRU(BinaryRNN, keras.layers.GRU):
    """`keras.layers.GRU` with binary kernels, one α a gate and kernel.

    As `BinaryLSTM`; its cell is a `keras_lab.BinaryGRUCell`.

    Args:
        units: Positive integer, the number of units.
        *args, **kwargs: Every other argument of `keras.layers.GRU`, and those
            of `BinaryLSTM` that are not in Keras.
    """

    _cell = BinaryGRUCell
    _cell_name = "gru_cell"


@register
class BinarySimpleRNN(BinaryRNN, keras.layers.SimpleRNN):
    """`keras.layers.SimpleRNN` with binary kernels, one α each.

    As `BinaryLSTM`; its cell is a `keras_lab.BinarySimpleRNNCell`.

    Args:
        units: Positive integer, the number of units.
        *args, **kwargs: Every other argument of `keras.layers.SimpleRNN`, and
            those of `BinaryLSTM` that are not in Keras.
    """

    _cell = BinarySimpleRNNCell
    _cell_name = "simple_rnn_cell"
