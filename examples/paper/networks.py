"""The paper's networks.

The order within a block is that of the authors' code: convolution, pooling,
batch norm, activation. Networks with binary activations have no ReLU: the next
layer takes the sign of what batch norm returns. The first layer sees the images
as they are. All kernels are binarized, also in the first and the last layer.
"""

import dataclasses
import functools

import keras
from keras import ops

import keras_lab
from examples.paper.schemes import Scheme


@dataclasses.dataclass(frozen=True)
class Parts:
    """Makes the layers of a network in one scheme.

    It follows the `"paper"` or the authors' `"code"`, where they differ.
    Without batch norm layers have a bias.
    """

    scheme: Scheme
    follow: str = "paper"
    batch_norm: bool = True

    def dense(self, units, name, first=False):
        return keras_lab.BinaryDense(units, name=name, **self._kernel(first))

    def conv(self, filters, name, first=False):
        return keras_lab.BinaryConv2D(
            filters, 3, padding="same", name=name, **self._kernel(first)
        )

    def _kernel(self, first):
        # The authors' code halves Glorot's limit, only for binary networks.
        half = self.follow == "code" and self.scheme.kernel_quantizer
        return {
            "kernel_quantizer": self.scheme.kernel_quantizer,
            "input_quantizer": None if first else self.scheme.input_quantizer,
            "kernel_initializer": keras.initializers.VarianceScaling(
                0.25 if half else 1.0, "fan_avg", "uniform"
            ),
            "use_bias": not self.batch_norm,
        }

    def normalize(self):
        if not self.batch_norm:
            return []
        if self.follow == "code":
            return [StdBatchNormalization()]
        # The paper gives no numbers. The momentum is the authors'; epsilon is
        # small compared with the variances here, as theirs is.
        return [keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-5)]

    def activate(self):
        relu = [] if self.scheme.input_quantizer else [keras.layers.ReLU()]
        return self.normalize() + relu


def mlp(parts: Parts, classes: int, width: int) -> keras.Model:
    """784FC-2048FC-2048FC-2048FC-10SVM, with `width` instead of 2048."""
    layers = [keras.Input((784,))]
    for number in (1, 2, 3):
        dense = parts.dense(width, f"dense_{number}", first=number == 1)
        layers += [dense, *parts.activate()]
    layers += [parts.dense(classes, "output"), *parts.normalize()]
    return keras.Sequential(layers, name="sequential")


def vgg(parts: Parts, classes: int, width: int) -> keras.Model:
    """(2×K C3)-MP2-(2×2K C3)-MP2-(2×4K C3)-MP2-(2×1024FC)-10SVM, K = width."""
    layers = [keras.Input((32, 32, 3))]
    for block, filters in enumerate((width, 2 * width, 4 * width), start=1):
        conv = parts.conv(filters, f"conv_{block}a", first=block == 1)
        layers += [
            conv,
            *parts.activate(),
            parts.conv(filters, f"conv_{block}b"),
        ]
        layers += [keras.layers.MaxPooling2D(), *parts.activate()]
    layers += [keras.layers.Flatten()]
    for number in (1, 2):
        layers += [parts.dense(1024, f"dense_{number}"), *parts.activate()]
    layers += [parts.dense(classes, "output"), *parts.normalize()]
    return keras.Sequential(layers, name="sequential")


def character_lstm(parts: Parts, classes: int, cells: int) -> keras.Model:
    """One LSTM layer and a softmax over the next byte.

    The LSTM looks up the rows of its kernel, so no one-hot vector is formed.
    The softmax layer has full precision, as in the authors' code.

    For binary activations the paper binarizes the hidden state, where it enters
    the recurrent product. The authors' code computes h = σ(o)·sign(c) instead,
    starts the softmax layer from other weights, and clips only binary weights;
    the paper clips all of them.
    """
    code, sign = parts.follow == "code", parts.scheme.input_quantizer
    clip = None if code else keras_lab.constraints.WeightClip(1.0)
    clipped = {"kernel_constraint": clip, "recurrent_constraint": clip}
    uniform = functools.partial(keras.initializers.RandomUniform, -0.08, 0.08)
    normal = functools.partial(keras.initializers.RandomNormal, stddev=0.01)
    layers = [
        keras.Input((None,), dtype="uint8"),
        keras.layers.Reshape((-1, 1)),
        keras_lab.BinaryLSTM(
            cells,
            "sign" if code and sign else "tanh",
            kernel_quantizer=parts.scheme.kernel_quantizer,
            input_quantizer=None if code else sign,
            one_hot=classes,
            return_sequences=True,
            kernel_initializer=uniform(),
            recurrent_initializer=uniform(),
            **clipped if clip else {},
            name="lstm",
        ),
        keras.layers.Dense(
            classes,
            kernel_initializer=normal() if code else uniform(),
            kernel_constraint=clip,
            name="softmax",
        ),
    ]
    model = keras.Sequential(layers, name="character_lstm")
    for name, quantizer in parts.scheme.weights.items():
        weight = keras_lab.binary_weights(model)[f"lstm/{name}"]
        weight.quantizer = quantizer
        weight.refresh()
    return model


class StdBatchNormalization(keras.layers.Layer):
    """Batch norm as in the authors' code: γ (x − μ) / (σ + ε) + β.

    Epsilon is added to the standard deviation, and the running averages are
    those of the mean and the standard deviation.
    """

    momentum, epsilon = 0.9, 1e-4

    def build(self, input_shape):
        def add(name, initializer, trainable):
            return self.add_weight(
                input_shape[-1:], initializer, trainable=trainable, name=name
            )

        self.gamma = add("gamma", "ones", True)
        self.beta = add("beta", "zeros", True)
        self.moving_mean = add("moving_mean", "zeros", False)
        self.moving_std = add("moving_std", "ones", False)

    def call(self, inputs, training=False):
        mean, std = self.moving_mean, self.moving_std
        if training:
            axes = list(range(len(inputs.shape) - 1))
            mean, variance = ops.moments(inputs, axes)
            std = ops.sqrt(variance + 1e-12)  # √ has no gradient at 0
            self._move(self.moving_mean, mean)
            self._move(self.moving_std, std)
        scale = self.gamma / (std + self.epsilon)
        return (inputs - mean) * scale + self.beta

    def _move(self, average, now):
        average.assign(self.momentum * average + (1 - self.momentum) * now)

    def compute_output_shape(self, input_shape):
        return input_shape
