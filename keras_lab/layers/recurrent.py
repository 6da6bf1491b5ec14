"""Binary recurrent layers: the cells of `recurrent_cells.py`, run over time."""

import inspect

import keras

from keras_lab.layers.recurrent_cells import (
    BinaryCell,
    BinaryGRUCell,
    BinaryLSTMCell,
    BinarySimpleRNNCell,
)
from keras_lab.layers.time_loop import TimeLoop

__all__ = [
    "BinaryGRU",
    "BinaryLSTM",
    "BinaryRNN",
    "BinaryRecurrent",
    "BinarySimpleRNN",
]

register = keras.saving.register_keras_serializable(package="keras_lab")


@register
class BinaryRNN(TimeLoop, keras.layers.RNN):
    """`keras.layers.RNN` for binary cells, one or a stack of them.

    Every binary cell forms its ŵ once per forward pass, and the first cell
    projects the inputs of all time steps in one matrix product. A binary cell
    in a plain `keras.layers.RNN` gives the same outputs, but forms ŵ and
    projects its input again in each step.

    Args:
        cell: A binary cell such as `keras_lab.BinaryLSTMCell`, a list of cells,
            or a `keras.layers.StackedRNNCells`. A stack may also hold cells
            that are not binary, but not only such cells.
        *args, **kwargs: Every other argument of `keras.layers.RNN`, in the same
            order.

    Call arguments:
        sequences: A tensor of shape `(batch, time, features)`.
        initial_state, mask, training: As in Keras.

    Example:

    >>> cells = [keras_lab.BinaryLSTMCell(16), keras_lab.BinaryLSTMCell(8)]
    >>> layer = keras_lab.BinaryRNN(cells, return_sequences=True)
    >>> layer(np.random.rand(2, 10, 4).astype("float32")).shape
    TensorShape([2, 10, 8])
    """

    def __init__(self, cell, *args, **kwargs):
        super().__init__(cell, *args, **kwargs)
        cells = getattr(self.cell, "cells", [self.cell])
        if not any(isinstance(cell, BinaryCell) for cell in cells):
            raise ValueError(
                "`cell` must be a binary cell, or a stack with a binary cell "
                f"in it. Received: cell={cell!r}"
            )


class BinaryRecurrent(TimeLoop):
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
                "`use_cudnn` must be 'auto' or False: cuDNN cannot train "
                f"binary kernels. Received: use_cudnn={use_cudnn!r}"
            )
        keras_cell = self._cell.__bases__[-1]
        names = {*inspect.signature(keras_cell).parameters, "implementation"}
        options.update({k: given.pop(k) for k in names & set(given)})
        options.update(
            {k: given[k] for k in ("dtype", "trainable") if k in given}
        )
        cell = self._cell(**options, name=self._cell_name)
        # Not Keras' LSTM or GRU, which would make a cell of its own.
        keras.layers.RNN.__init__(self, cell, **given)
        self.input_spec = keras.layers.InputSpec(ndim=3)
        self.use_cudnn = False

    @property
    def binary_weights(self):
        """The `BinaryWeight`s of the cell, by the latent weight's name."""
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
        return super().inner_loop(sequences, initial_state, mask, training)

    def _check_mask(self, mask, sequences):
        shape, steps = tuple(mask.shape), sequences.shape[1]
        known = len(shape) == 2 and None not in (shape[1], steps)
        if len(shape) != 2 or (known and shape[1] != steps):
            raise ValueError(
                f"Layer '{self.name}' needs a mask of shape (batch, {steps}), "
                f"one entry per time step. Received: a mask of shape {shape}"
            )

    def get_config(self):
        config, cell = super().get_config(), self.cell.get_config()
        return {**config, **{name: cell[name] for name in self._cell_options}}


@register
class BinaryLSTM(BinaryRecurrent, keras.layers.LSTM):
    """`keras.layers.LSTM` with binary kernels, one α per gate and kernel.

    The latent weights and their α belong to its cell, `layer.cell`, which is a
    `keras_lab.BinaryLSTMCell`. ŵ is formed once per forward pass, and the
    inputs of all time steps are projected in one matrix product.

    Args:
        units: Positive integer, the number of units.
        activation: As in Keras, or `"sign"` for the authors' binarized LSTM:
            h = σ(o)·sign(c), with the straight-through estimator, while the
            candidate keeps its tanh. Note that this h is not binary;
            `input_quantizer="sign"` makes it binary where it is multiplied.
        kernel_quantizer: `"lab"`, `"bwn"`, `"binary_connect"`, a
            `keras_lab.quantizers.KernelQuantizer`, or `None` for a
            full-precision layer. Keyword only. Defaults to `"lab"`.
        input_quantizer: `None`, or `"sign"` to binarize the hidden state where
            it enters the recurrent product, with the straight-through
            estimator. sign(0) = +1, so a zero initial state counts as +1.
            Keyword only. Defaults to `None`.
        binarize_inputs: Boolean, whether `input_quantizer` also applies to the
            inputs of the layer. The paper does not binarize one-hot inputs.
            Keyword only. Defaults to `False`.
        one_hot: `None`, or the length n if the inputs are one-hot vectors given
            by their indices: integers of shape `(batch, time, 1)`. Rows of the
            kernel are then looked up instead of multiplied. An index
            outside 0 … n−1 may go unnoticed. Keyword only. Defaults to `None`.
        kernel_constraint, recurrent_constraint: As in Keras, for the latent
            weights. Default to `keras_lab.constraints.WeightClip(1.0)` for
            binary kernels; `None` turns clipping off.
        *args, **kwargs: Every other argument of `keras.layers.LSTM`, in the
            same order.

    Call arguments:
        sequences: A tensor of shape `(batch, time, features)`.
        initial_state, mask, training: As in Keras. A mask has the shape
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
class BinaryGRU(BinaryRecurrent, keras.layers.GRU):
    """`keras.layers.GRU` with binary kernels, one α per gate and kernel.

    Works like `BinaryLSTM`; its cell is a `keras_lab.BinaryGRUCell`.

    Args:
        units: Positive integer, the number of units.
        *args, **kwargs: Every other argument of `keras.layers.GRU`, and the
            arguments that `BinaryLSTM` adds to those of Keras.
    """

    _cell = BinaryGRUCell
    _cell_name = "gru_cell"


@register
class BinarySimpleRNN(BinaryRecurrent, keras.layers.SimpleRNN):
    """`keras.layers.SimpleRNN` with binary kernels, one α per kernel.

    Works like `BinaryLSTM`; its cell is a `keras_lab.BinarySimpleRNNCell`.

    Args:
        units: Positive integer, the number of units.
        *args, **kwargs: Every other argument of `keras.layers.SimpleRNN`, and
            the arguments that `BinaryLSTM` adds to those of Keras.
    """

    _cell = BinarySimpleRNNCell
    _cell_name = "simple_rnn_cell"

    def get_config(self):
        # Keras' own config lacks it: a loaded layer would drop out other units.
        return {**super().get_config(), "seed": self.cell.seed}
