"""Binary dense layers."""

import keras
from keras import ops

from keras_lab.layers.base import BinaryLayer

__all__ = ["BinaryDense", "BinaryEinsumDense"]

register = keras.saving.register_keras_serializable(package="keras_lab")


@register
class BinaryDense(BinaryLayer, keras.layers.Dense):
    """`keras.layers.Dense` with the kernel ŵ = α·sign(w).

    `kernel` is the latent weight w, `alpha` is its scale, and `binary_kernel`
    is the ŵ of the forward pass. Train it with `keras_lab.LABAdam`.

    Args:
        units: Positive integer, the number of outputs.
        kernel_quantizer: `"lab"`, `"bwn"`, `"binary_connect"`, a
            `keras_lab.quantizers.KernelQuantizer`, or `None` for a
            full-precision layer. Keyword only. Defaults to `"lab"`.
        input_quantizer: `None`, or `"sign"` to binarize the inputs. Keyword
            only. Defaults to `None`.
        kernel_constraint: As in Keras, for the latent weight. Defaults to
            `keras_lab.constraints.WeightClip(1.0)` for a binary kernel; `None`
            turns clipping off.
        *args, **kwargs: Every other argument of `keras.layers.Dense`, in the
            same order.

    Call arguments:
        inputs: A tensor of shape `(batch, ..., input_dim)`.

    Example:

    >>> layer = keras_lab.BinaryDense(10, use_bias=False)
    >>> y = layer(np.random.rand(2, 784).astype("float32"))
    >>> np.unique(np.abs(layer.binary_kernel)).size
    1
    """

    def call(self, inputs, training=None):
        inputs = self._forward_inputs(inputs)
        kernel = self._forward_weight("kernel", inputs)
        return self._bias_and_activation(ops.matmul(inputs, kernel))


@register
class BinaryEinsumDense(BinaryLayer, keras.layers.EinsumDense):
    """`keras.layers.EinsumDense` with the kernel ŵ = α·sign(w).

    With `scale="channel"` there is one α for each index of the kernel's axes
    that are also axes of the output: for `"abc,cde->abde"` α has the shape of
    the axes `de`.

    Args:
        equation, output_shape: As in Keras.
        kernel_quantizer, input_quantizer, kernel_constraint: See `BinaryDense`.
        *args, **kwargs: Every other argument of `keras.layers.EinsumDense`, in
            the same order.

    Example:

    >>> layer = keras_lab.BinaryEinsumDense("abc,cd->abd", (None, 64), "relu")
    >>> layer(np.random.rand(4, 10, 16).astype("float32")).shape
    TensorShape([4, 10, 64])
    """

    def _channel_axes(self, name, shape):
        operands, outputs = self.equation.split("->")
        axes = operands.split(",")[1].strip()
        return [i for i, axis in enumerate(axes) if axis in outputs]

    def call(self, inputs, training=None):
        inputs = self._forward_inputs(inputs)
        kernel = self._forward_weight("kernel", inputs)
        return self._bias_and_activation(
            ops.einsum(self.equation, inputs, kernel)
        )
