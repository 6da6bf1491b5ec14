"""Binary convolutions.

Each is the Keras layer of the same name with binary kernels, and takes the same
arguments in the same order. See `keras_lab.BinaryDense` for `kernel_quantizer`
and `input_quantizer`.
"""

import keras
from keras import ops

from keras_lab.layers.base import BinaryLayer

__all__ = [
    "BinaryConv1D",
    "BinaryConv2D",
    "BinaryConv2DTranspose",
    "BinaryConv3D",
    "BinaryDepthwiseConv2D",
    "BinarySeparableConv2D",
]

register = keras.saving.register_keras_serializable(package="keras_lab")


class BinaryConv(BinaryLayer):
    """Convolves with ŵ, adds the bias and applies the activation."""

    def call(self, inputs):
        inputs = self._forward_inputs(inputs)
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        if not keras.backend.is_float_dtype(dtype):
            # Keras' convolutions fail too, with an error of TensorFlow.
            raise ValueError(
                f"Layer '{self.name}' needs floating-point inputs. "
                f"Received: inputs of dtype {dtype}"
            )
        return self._bias_and_activation(self._convolve(inputs))

    def _convolve(self, inputs):
        kernel = self._forward_weight("kernel", inputs)
        return ops.conv(inputs, kernel, **self._window())

    def _window(self):
        return {
            "strides": self.strides,
            "padding": self.padding,
            "dilation_rate": self.dilation_rate,
            "data_format": self.data_format,
        }


@register
class BinaryConv1D(BinaryConv, keras.layers.Conv1D):
    """`keras.layers.Conv1D` with the kernel ŵ = α·sign(w).

    Example:

    >>> layer = keras_lab.BinaryConv1D(32, 3, padding="causal")
    >>> layer(np.random.rand(4, 10, 16).astype("float32")).shape
    TensorShape([4, 10, 32])
    """

    def _convolve(self, inputs):
        window = self._window()
        if self.padding == "causal":
            window["padding"] = "valid"
            before = self.dilation_rate[0] * (self.kernel_size[0] - 1)
            pad = [[0, 0], [before, 0], [0, 0]]
            if self.data_format == "channels_first":
                pad = [[0, 0], [0, 0], [before, 0]]
            inputs = ops.pad(inputs, pad)
        kernel = self._forward_weight("kernel", inputs)
        return ops.conv(inputs, kernel, **window)


@register
class BinaryConv2D(BinaryConv, keras.layers.Conv2D):
    """`keras.layers.Conv2D` with the kernel ŵ = α·sign(w).

    Example:

    >>> layer = keras_lab.BinaryConv2D(32, 3, padding="same")
    >>> layer(np.random.rand(4, 10, 10, 3).astype("float32")).shape
    TensorShape([4, 10, 10, 32])
    """


@register
class BinaryConv3D(BinaryConv, keras.layers.Conv3D):
    """`keras.layers.Conv3D` with the kernel ŵ = α·sign(w).

    Example:

    >>> layer = keras_lab.BinaryConv3D(8, 3)
    >>> layer(np.random.rand(1, 5, 5, 5, 2).astype("float32")).shape
    TensorShape([1, 3, 3, 3, 8])
    """


@register
class BinaryDepthwiseConv2D(BinaryConv, keras.layers.DepthwiseConv2D):
    """`keras.layers.DepthwiseConv2D` with the kernel ŵ = α·sign(w).

    With `scale="channel"` α has the shape `(channels, depth_multiplier)`.

    Example:

    >>> layer = keras_lab.BinaryDepthwiseConv2D(3)
    >>> layer(np.random.rand(4, 10, 10, 12).astype("float32")).shape
    TensorShape([4, 8, 8, 12])
    """

    _kernels = {"kernel": (-2, -1)}
    _constraints = ("depthwise_constraint",)

    def _convolve(self, inputs):
        kernel = self._forward_weight("kernel", inputs)
        return ops.depthwise_conv(inputs, kernel, **self._window())


@register
class BinarySeparableConv2D(BinaryConv, keras.layers.SeparableConv2D):
    """`keras.layers.SeparableConv2D` with both of its kernels binary.

    Each kernel has its own scale, `depthwise_alpha` and `pointwise_alpha`, and
    its own ŵ, `binary_depthwise_kernel` and `binary_pointwise_kernel`.

    Example:

    >>> layer = keras_lab.BinarySeparableConv2D(32, 3)
    >>> layer(np.random.rand(4, 10, 10, 12).astype("float32")).shape
    TensorShape([4, 8, 8, 32])
    """

    _kernels = {"depthwise_kernel": (-2, -1), "pointwise_kernel": (-1,)}
    _constraints = ("depthwise_constraint", "pointwise_constraint")

    @property
    def alpha(self):
        raise AttributeError("Use `depthwise_alpha` and `pointwise_alpha`.")

    @property
    def binary_kernel(self):
        raise AttributeError(
            "Use `binary_depthwise_kernel` and `binary_pointwise_kernel`."
        )

    @property
    def binary_depthwise_kernel(self):
        """The depthwise kernel of the forward pass."""
        return self._forward_weight("depthwise_kernel")

    @property
    def binary_pointwise_kernel(self):
        """The pointwise kernel of the forward pass."""
        return self._forward_weight("pointwise_kernel")

    def _convolve(self, inputs):
        return ops.separable_conv(
            inputs,
            self._forward_weight("depthwise_kernel", inputs),
            self._forward_weight("pointwise_kernel", inputs),
            **self._window(),
        )


@register
class BinaryConv2DTranspose(BinaryConv, keras.layers.Conv2DTranspose):
    """`keras.layers.Conv2DTranspose` with the kernel ŵ = α·sign(w).

    Example:

    >>> layer = keras_lab.BinaryConv2DTranspose(32, 3, strides=2)
    >>> layer(np.random.rand(4, 5, 5, 12).astype("float32")).shape
    TensorShape([4, 11, 11, 32])
    """

    _kernels = {"kernel": (-2,)}

    def _convolve(self, inputs):
        return ops.conv_transpose(
            inputs,
            self._forward_weight("kernel", inputs),
            output_padding=self.output_padding,
            **self._window(),
        )
