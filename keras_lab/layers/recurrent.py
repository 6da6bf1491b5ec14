"""Binary recurrent layers: a cell of `recurrent_cells.py`, over time."""

import inspect

import keras

from keras_lab.layers.recurrent_cells import (
    BinaryGRUCell,
    BinaryLSTMCell,
    BinarySimpleRNNCell,
)

__all__ = ["BinaryGRU", "BinaryLSTM", "BinaryRNN", "BinarySimpleRNN"]

register = keras.saving.register_keras_serializable(package="keras_lab")


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
