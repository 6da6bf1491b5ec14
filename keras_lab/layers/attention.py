"""Binary attention: Keras' attention layers with binary projections.

Keras creates the projections in `build`, as attributes of the layer.
`BinaryAttention` puts a `BinaryEinsumDense` in the place of each.
"""

import keras

from keras_lab.layers.base import HasQuantizers
from keras_lab.layers.dense import BinaryEinsumDense

__all__ = [
    "BinaryAttention",
    "BinaryGroupedQueryAttention",
    "BinaryMultiHeadAttention",
]

register = keras.saving.register_keras_serializable(package="keras_lab")


class BinaryAttention(HasQuantizers):
    """A mixin that makes the projections of a Keras attention layer binary."""

    def __setattr__(self, name, value):
        if type(value) is keras.layers.EinsumDense:
            value = BinaryEinsumDense.from_config(
                {
                    **value.get_config(),
                    "kernel_quantizer": self.kernel_quantizer,
                    "input_quantizer": self.input_quantizer,
                }
            )
        super().__setattr__(name, value)


@register
class BinaryMultiHeadAttention(
    BinaryAttention, keras.layers.MultiHeadAttention
):
    """`keras.layers.MultiHeadAttention` with binary projections.

    The projections of query, key, value, gate and output are
    `BinaryEinsumDense` layers, with an α each. With `scale="channel"` there is
    one α per head and unit.

    Args:
        num_heads, key_dim: As in Keras.
        kernel_quantizer, input_quantizer, kernel_constraint: As in
            `BinaryDense`, for each projection.
        *args, **kwargs: Every other argument of
            `keras.layers.MultiHeadAttention`, in the same order.

    Example:

    >>> layer = keras_lab.BinaryMultiHeadAttention(num_heads=2, key_dim=8)
    >>> x = np.random.rand(4, 10, 16).astype("float32")
    >>> layer(x, x).shape
    TensorShape([4, 10, 16])
    """


@register
class BinaryGroupedQueryAttention(
    BinaryAttention, keras.layers.GroupQueryAttention
):
    """`keras.layers.GroupQueryAttention` with binary projections.

    Works like `BinaryMultiHeadAttention`.

    Args:
        head_dim, num_query_heads, num_key_value_heads: As in Keras.
        *args, **kwargs: Every other argument of
            `keras.layers.GroupQueryAttention`, in the same order, and those
            of `BinaryMultiHeadAttention`.

    Example:

    >>> layer = keras_lab.BinaryGroupedQueryAttention(8, 4, 2)
    >>> x = np.random.rand(4, 10, 16).astype("float32")
    >>> layer(x, x).shape
    TensorShape([4, 10, 16])
    """
