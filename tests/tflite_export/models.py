"""Small models of every kind of layer."""

import keras
from keras import layers

import keras_lab

__all__ = [
    "CASES",
    "SIGN_CASES",
    "flatten",
    "inputs",
    "norm",
    "one_sample",
    "part",
    "relu",
    "sequential",
]

PER_CHANNEL = keras_lab.LAB(scale="channel")


def sequential(*parts):
    return lambda: keras.Sequential([part() for part in parts])


def inputs(*shape):
    return lambda: keras.Input(shape)


def one_sample(*shape):
    return lambda: keras.Input(shape, batch_size=1)


def part(cls, *args, **kwargs):
    """A function that makes a layer, a new one for each model."""
    if isinstance(cls, str):
        owner = keras_lab if hasattr(keras_lab, cls) else layers
        cls = getattr(owner, cls)
    return lambda: cls(*args, **kwargs)


norm = part("BatchNormalization")
relu = part("ReLU")
flatten = part("Flatten")

# Every binary layer, with its options, alone and before a batch norm.
CASES = {
    "dense": sequential(inputs(20), part("BinaryDense", 12)),
    "dense_one_unit": sequential(inputs(7), part("BinaryDense", 1)),
    "dense_folded": sequential(
        inputs(31), part("BinaryDense", 17, use_bias=False), norm, relu
    ),
    "dense_per_channel": sequential(
        inputs(20), part("BinaryDense", 6, kernel_quantizer=PER_CHANNEL)
    ),
    "dense_3d": sequential(
        inputs(3, 7), part("BinaryDense", 5, activation="relu")
    ),
    "rows": sequential(one_sample(16, 7), part("BinaryDense", 5)),
    "rows_folded": sequential(
        one_sample(17, 20), part("BinaryDense", 9, use_bias=False), norm, relu
    ),
    "rows_per_channel": sequential(
        one_sample(3, 6, 8),
        part(
            "BinaryDense",
            33,
            activation="relu",
            use_bias=False,
            kernel_quantizer=PER_CHANNEL,
        ),
    ),
    "conv1d": sequential(
        inputs(9, 4), part("BinaryConv1D", 5, 3, padding="causal")
    ),
    "conv2d": sequential(
        inputs(8, 7, 4), part("BinaryConv2D", 6, (5, 3), padding="same")
    ),
    "conv2d_folded": sequential(
        inputs(8, 9, 3), part("BinaryConv2D", 6, 3, strides=2), norm, relu
    ),
    "conv2d_same_strides": sequential(
        inputs(8, 9, 3),
        part("BinaryConv2D", 6, 3, strides=(2, 3), padding="same"),
    ),
    "conv2d_skipping": sequential(
        inputs(8, 4, 4),
        part("BinaryConv2D", 6, (3, 1), strides=2, padding="same"),
        part("BinaryConv2D", 5, 2, strides=3, padding="same"),
    ),
    "conv2d_1x1": sequential(inputs(2, 2, 24), part("BinaryConv2D", 10, 1)),
    "conv2d_dilated": sequential(
        inputs(9, 8, 4), part("BinaryConv2D", 6, 3, dilation_rate=2)
    ),
    "conv2d_groups": sequential(
        inputs(8, 7, 4), part("BinaryConv2D", 6, 3, groups=2)
    ),
    "conv2d_per_channel": sequential(
        inputs(8, 7, 4),
        part("BinaryConv2D", 6, 3, kernel_quantizer=PER_CHANNEL),
    ),
    "winograd": sequential(
        inputs(8, 9, 16), part("BinaryConv2D", 6, 3, padding="same")
    ),
    "winograd_folded": sequential(
        inputs(3, 4, 17),
        part("BinaryConv2D", 40, (5, 3), padding="same", use_bias=False),
        norm,
        relu,
    ),
    "winograd_steps_of_rows": sequential(
        inputs(9, 10, 16),
        part("BinaryConv2D", 5, (2, 3), strides=(2, 1), activation="relu"),
    ),
    "winograd_dilated_rows": sequential(
        inputs(9, 6, 20),
        part("BinaryConv2D", 30, 3, dilation_rate=(3, 1), padding="same"),
    ),
    "winograd_conv1d": sequential(
        inputs(12, 18), part("BinaryConv1D", 7, 3, padding="causal")
    ),
    "conv3d": sequential(inputs(4, 5, 6, 2), part("BinaryConv3D", 4, 2)),
    "conv3d_per_channel": sequential(
        inputs(4, 5, 6, 2),
        part("BinaryConv3D", 4, 2, kernel_quantizer=PER_CHANNEL),
    ),
    "depthwise": sequential(
        inputs(8, 7, 3), part("BinaryDepthwiseConv2D", 3, padding="same")
    ),
    "depthwise_skipping": sequential(
        inputs(9, 9, 3),
        part("BinaryDepthwiseConv2D", (1, 3), strides=3, padding="same"),
    ),
    "depthwise_folded": sequential(
        inputs(8, 7, 3),
        part("BinaryDepthwiseConv2D", 3, depth_multiplier=2),
        norm,
        relu,
    ),
    "separable": sequential(
        inputs(8, 7, 3), part("BinarySeparableConv2D", 4, 3)
    ),
    "transpose": sequential(
        inputs(5, 6, 3), part("BinaryConv2DTranspose", 4, 3, strides=2)
    ),
    "transpose_folded": sequential(
        inputs(5, 6, 3),
        part("BinaryConv2DTranspose", 4, 3, strides=2, padding="same"),
        norm,
    ),
    "network": sequential(
        inputs(8, 8, 3),
        part("BinaryConv2D", 16, 3, padding="same"),
        part("MaxPooling2D"),
        norm,
        relu,
        flatten,
        part("BinaryDense", 24),
        norm,
        relu,
        part("BinaryDense", 10),
    ),
}

# Layers whose inputs are signs: LAB2.
SIGN_CASES = {
    "dense": sequential(
        inputs(40), part("BinaryDense", 12, input_quantizer="sign"), norm
    ),
    "dense_3d": sequential(
        inputs(3, 8), part("BinaryDense", 5, input_quantizer="sign")
    ),
    "conv1d": sequential(
        inputs(9, 4),
        part("BinaryConv1D", 5, 3, input_quantizer="sign", padding="causal"),
    ),
    "conv2d_valid": sequential(
        inputs(8, 7, 4),
        part("BinaryConv2D", 6, 3, input_quantizer="sign"),
        norm,
        relu,
    ),
    "conv2d_same": sequential(
        inputs(8, 7, 4),
        part("BinaryConv2D", 6, 3, input_quantizer="sign", padding="same"),
        relu,
    ),
    "conv2d_same_strides": sequential(
        inputs(9, 8, 4),
        part(
            "BinaryConv2D",
            6,
            (5, 2),
            strides=(2, 3),
            input_quantizer="sign",
            padding="same",
        ),
    ),
    "depthwise": sequential(
        inputs(8, 7, 4),
        part(
            "BinaryDepthwiseConv2D",
            3,
            depth_multiplier=2,
            input_quantizer="sign",
            padding="same",
        ),
    ),
    "transpose": sequential(
        inputs(5, 6, 4),
        part("BinaryConv2DTranspose", 3, 3, input_quantizer="sign"),
    ),
    "network": sequential(
        inputs(8, 8, 3),
        part("BinaryConv2D", 8, 3, padding="same"),
        norm,
        part("BinaryConv2D", 12, 3, padding="same", input_quantizer="sign"),
        part("MaxPooling2D"),
        norm,
        flatten,
        part("BinaryDense", 24, input_quantizer="sign"),
        norm,
        part("BinaryDense", 10, input_quantizer="sign"),
    ),
}
