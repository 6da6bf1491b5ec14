"""The binary dense layer."""

import keras
from keras import ops

from keras_lab.layers.base import BinaryLayer

__all__ = ["BinaryDense"]


@keras.saving.register_keras_serializable(package="keras_lab")
class BinaryDense(BinaryLayer, keras.layers.Dense):
    """`keras.layers.Dense` with the kernel ŵ = α·sign(w).

    `kernel` is the latent weight w, `alpha` its scale, `binary_kernel` the ŵ
    that the forward pass uses. Train it with `keras_lab.LABAdam`.

    Args:
        units: Positive integer, the number of outputs.
        kernel_quantizer: `"lab"`, `"bwn"`, `"binary_connect"`, a
            `keras_lab.quantizers.KernelQuantizer`, or `None` for a
            full-precision layer. By keyword. Defaults to `"lab"`.
        input_quantizer: `None`, or `"sign"` to binarize the inputs. By keyword.
            Defaults to `None`.
        kernel_constraint: As in Keras, for the latent weight. Defaults to
            `keras_lab.constraints.WeightClip(1.0)` for a binary kernel; `None`
            turns it off.
        *args, **kwargs: Every other argument of `keras.layers.Dense`, with its
            meaning and in its order.

    Call arguments:
        inputs: A floating-point tensor of shape `(batch, ..., input_dim)`.

    Example:

    >>> layer = keras_lab.BinaryDense(10, use_bias=False)
    >>> y = layer(np.random.rand(2, 784).astype("float32"))
    >>> np.unique(np.abs(layer.binary_kernel)).size
    1
    """

    def call(self, inputs, training=None):
        inputs = self._forward_inputs(inputs)
        return self._bias_and_activation(ops.matmul(inputs, self.binary_kernel))
