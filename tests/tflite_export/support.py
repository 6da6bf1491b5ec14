"""Small models of every layer kind, and what the tests do with them."""

import functools

import keras
import numpy as np
from keras import layers

import keras_lab
from keras_lab.binary_weight import weights_of
from tflite_export.convert import convert
from tflite_export.export import predict, trained_kernels
from tflite_export.flatbuffer.model import FlatModel
from tflite_export.plan import Format
from tflite_export.prepare import (
    as_functional,
    fixed_batch_size,
    input_names,
)
from tflite_export.rewrite import rewrite

FORMATS = [str(name) for name in Format]
PER_CHANNEL = keras_lab.LAB(scale="channel")


def sequential(*parts):
    return lambda: keras.Sequential([part() for part in parts])


def inputs(*shape):
    return lambda: keras.Input(shape)


def one_sample(*shape):
    return lambda: keras.Input(shape, batch_size=1)


def part(cls, *args, **kwargs):
    """A layer to be made anew for each model."""
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


def randomize(model, seed=0):
    """Weights as after training: no zeros, γ of both signs and one of 0."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        shape = weight.shape
        if weight.name == "gamma":
            gamma = rng.normal(size=shape)
            gamma[-1] = 0
            weight.assign(gamma)
        elif weight.name in ("beta", "moving_mean", "bias"):
            weight.assign(0.3 * rng.normal(size=shape))
        elif weight.name == "moving_variance":
            weight.assign(rng.uniform(0.5, 2, size=shape))
    for weight in weights_of(model.weights):
        weight.latent.assign(rng.normal(size=weight.latent.shape))
        weight.refresh()
    return model


class Exported:
    """A model with its file in every format, converted once."""

    def __init__(self, model, batch_size=None):
        self.model = model
        self.frozen = as_functional(keras_lab.freeze(model, strict=False))
        batch_size = fixed_batch_size(self.frozen, batch_size)
        self.converted = convert(self.frozen, batch_size).to_bytes()

    @functools.cache  # noqa: B019, lives as long as the tests of a module
    def content(self, format):
        return rewrite(
            FlatModel(self.converted),
            Format(format),
            trained_kernels(self.model),
        )

    def inputs(self, samples, seed=0):
        rng = np.random.default_rng(seed)
        return {
            name: rng.normal(size=(samples, *tensor.shape[1:])).astype("f")
            for name, tensor in zip(
                input_names(self.frozen), self.frozen.inputs
            )
        }

    def expected(self, inputs):
        return predict(self.frozen, inputs)


@functools.cache
def exported(case):
    return Exported(randomize(CASES[case]()))


@functools.cache
def exported_signs(case):
    return Exported(randomize(SIGN_CASES[case]()))


def max_error(expected, actual):
    """The largest difference over the largest output."""
    scale = max(np.abs(y).max() for y in expected.values())
    return max(
        np.abs(actual[name] - y).max() / scale for name, y in expected.items()
    )


def operators(content):
    """(name, input types, weights are constant, output types) of each."""
    model = FlatModel(content)
    for subgraph in model.subgraphs:
        for operator in subgraph.operators:
            tensors = [
                subgraph.tensors[i] for i in operator.inputs.tolist() if i >= 0
            ]
            yield (
                model.operator_name(operator),
                [model.type_name(tensor) for tensor in tensors],
                [model.is_constant(tensor) for tensor in tensors],
                tensors,
            )
