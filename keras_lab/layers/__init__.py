"""Binary counterparts of Keras layers."""

from keras_lab.layers.attention import (
    BinaryGroupedQueryAttention,
    BinaryMultiHeadAttention,
)
from keras_lab.layers.convolutional import (
    BinaryConv1D,
    BinaryConv2D,
    BinaryConv2DTranspose,
    BinaryConv3D,
    BinaryDepthwiseConv2D,
    BinarySeparableConv2D,
)
from keras_lab.layers.dense import BinaryDense, BinaryEinsumDense
from keras_lab.layers.embedding import BinaryEmbedding
from keras_lab.layers.recurrent import (
    BinaryGRU,
    BinaryLSTM,
    BinaryRNN,
    BinarySimpleRNN,
)
from keras_lab.layers.recurrent_cells import (
    BinaryGRUCell,
    BinaryLSTMCell,
    BinarySimpleRNNCell,
)

__all__ = [
    "BinaryConv1D",
    "BinaryConv2D",
    "BinaryConv2DTranspose",
    "BinaryConv3D",
    "BinaryDense",
    "BinaryDepthwiseConv2D",
    "BinaryEinsumDense",
    "BinaryEmbedding",
    "BinaryGRU",
    "BinaryGRUCell",
    "BinaryGroupedQueryAttention",
    "BinaryLSTM",
    "BinaryLSTMCell",
    "BinaryMultiHeadAttention",
    "BinaryRNN",
    "BinarySeparableConv2D",
    "BinarySimpleRNN",
    "BinarySimpleRNNCell",
]


def __dir__():
    return list(__all__)
