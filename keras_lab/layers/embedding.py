"""The binary embedding."""

import keras
from keras import ops

from keras_lab.layers.base import BinaryLayer

__all__ = ["BinaryEmbedding"]


@keras.saving.register_keras_serializable(package="keras_lab")
class BinaryEmbedding(BinaryLayer, keras.layers.Embedding):
    """`keras.layers.Embedding` with one bit per entry.

    `embeddings` is the latent weight w, `alpha` is its scale, and
    `binary_embeddings` is the ŵ = α·sign(w) that the rows come from. With
    `scale="channel"` there is one α per row.

    Args:
        input_dim, output_dim: As in Keras.
        kernel_quantizer: As in `BinaryDense`, for the embeddings. Keyword only.
        embeddings_constraint: As in Keras, for the latent weight. Defaults to
            `keras_lab.constraints.WeightClip(1.0)`; `None` turns clipping off.
        *args, **kwargs: Every other argument of `keras.layers.Embedding`, in
            the same order.

    Call arguments:
        inputs: Integers of shape `(batch, ...)`.

    Example:

    >>> layer = keras_lab.BinaryEmbedding(1000, 64)
    >>> layer(np.array([[1, 2, 3]])).shape
    TensorShape([1, 3, 64])
    """

    _kernels = {"embeddings": (0,)}
    _constraints = ("embeddings_constraint",)

    def __init__(self, *args, weights=None, **kwargs):
        # Keras would build the layer before it has a quantizer.
        super().__init__(*args, **kwargs)
        if self.input_quantizer is not None:
            raise ValueError(
                "The inputs of an embedding are indices and have no sign. "
                f"Received: input_quantizer={self.input_quantizer!r}"
            )
        if weights is not None:
            self.build()
            single = isinstance(weights, list) and len(weights) == 1
            self.embeddings.assign(weights[0] if single else weights)
            for weight in self._binary_weights.values():
                weight.refresh()

    @property
    def binary_kernel(self):
        raise AttributeError("Use `binary_embeddings`.")

    @property
    def binary_embeddings(self):
        """The embeddings of the forward pass: ŵ = α·sign(w)."""
        return self._forward_weight("embeddings")

    def call(self, inputs):
        if self.kernel_quantizer is None:
            return super().call(inputs)
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        if dtype not in ("int32", "int64"):
            inputs = ops.cast(inputs, "int32")
        return ops.take(self.binary_embeddings, inputs, axis=0)
