"""Small models of every kind of layer, by name."""

import functools

import keras
import numpy as np
from keras import layers

import keras_lab


def maker(layer):
    """Like the class, but what it returns makes a new layer in each call."""
    return functools.partial(functools.partial, layer)


def net(shape, *parts, batch_size=None, dtype=None):
    """A function that makes a new Sequential model of layers in each call."""

    def make():
        made = (p if isinstance(p, keras.Layer) else p() for p in parts)
        return keras.Sequential([keras.Input(shape, batch_size, dtype), *made])

    return make


norm, relu = layers.BatchNormalization, layers.ReLU
flatten, pool = layers.Flatten, layers.MaxPooling2D
in_time = layers.TimeDistributed
dense = maker(keras_lab.BinaryDense)
conv1d = maker(keras_lab.BinaryConv1D)
conv = maker(keras_lab.BinaryConv2D)
conv3d = maker(keras_lab.BinaryConv3D)
depthwise = maker(keras_lab.BinaryDepthwiseConv2D)
separable = maker(keras_lab.BinarySeparableConv2D)
transpose = maker(keras_lab.BinaryConv2DTranspose)
lstm, gru = maker(keras_lab.BinaryLSTM), maker(keras_lab.BinaryGRU)
rnn = maker(keras_lab.BinarySimpleRNN)

same = {"padding": "same"}
sign = {"input_quantizer": "sign"}
no_bias = {"use_bias": False}
per_channel = {"kernel_quantizer": keras_lab.LAB(scale="channel")}
steps = (6, 6)

# Every binary layer, with its options, alone and before a batch norm. Where
# "sign" is in the name, the inputs of the products are signs: LAB2.
CASES = {
    "dense": net((20,), dense(12)),
    "dense_one_unit": net((7,), dense(1)),
    "dense_folded": net((31,), dense(17, **no_bias), norm, relu),
    "dense_per_channel": net((20,), dense(6, **per_channel)),
    "dense_of_integers": net((20,), dense(12), dtype="int32"),
    # The converter must not fold a scale of the inputs into a kernel.
    "dense_after_norm": net((20,), norm, dense(6)),
    "dense_between_norms": net((20,), dense(8), norm, dense(6), norm),
    "dense_rescaled": net(
        (20,), layers.Rescaling(list(np.linspace(0.1, 2, 20))), dense(6)
    ),
    "dense_nested_after_norm": net((20,), norm, net((20,), dense(6))),
    "dense_in_time": net((3, 20), norm, lambda: in_time(dense(6)())),
    "sign_dense_after_norm": net((20,), norm, dense(6, **sign)),
    "dense_3d": net((3, 7), dense(5, activation="relu")),
    "rows": net((16, 7), dense(5), batch_size=1),
    "rows_folded": net((17, 20), dense(9, **no_bias), norm, relu, batch_size=1),
    "rows_per_channel": net(
        (3, 6, 8),
        dense(33, activation="relu", **no_bias, **per_channel),
        batch_size=1,
    ),
    "conv1d": net((9, 4), conv1d(5, 3, padding="causal")),
    "conv2d": net((8, 7, 4), conv(6, (5, 3), **same)),
    "conv2d_folded": net((8, 9, 3), conv(6, 3, strides=2), norm, relu),
    "conv2d_strides": net((8, 9, 3), conv(6, 3, strides=(2, 3), **same)),
    "conv2d_skipping": net(
        (8, 4, 4),
        conv(6, (3, 1), strides=2, **same),
        conv(5, 2, strides=3, **same),
    ),
    "conv2d_1x1": net((2, 2, 24), conv(10, 1)),
    "conv2d_dilated": net((9, 8, 4), conv(6, 3, dilation_rate=2)),
    "conv2d_groups": net((8, 7, 4), conv(6, 3, groups=2)),
    "conv2d_per_channel": net((8, 7, 4), conv(6, 3, **per_channel)),
    "winograd": net((8, 9, 16), conv(6, 3, **same)),
    "winograd_folded": net(
        (3, 4, 17), conv(40, (5, 3), **same, **no_bias), norm, relu
    ),
    "winograd_strides": net(
        (9, 10, 16), conv(5, (2, 3), strides=(2, 1), activation="relu")
    ),
    "winograd_dilated": net(
        (9, 6, 20), conv(30, 3, dilation_rate=(3, 1), **same)
    ),
    "winograd_conv1d": net((12, 18), conv1d(7, 3, padding="causal")),
    "conv3d": net((4, 5, 6, 2), conv3d(4, 2)),
    "conv3d_per_channel": net((4, 5, 6, 2), conv3d(4, 2, **per_channel)),
    "depthwise": net((8, 7, 3), depthwise(3, **same)),
    "depthwise_skipping": net((9, 9, 3), depthwise((1, 3), strides=3, **same)),
    "depthwise_folded": net(
        (8, 7, 3), depthwise(3, depth_multiplier=2), norm, relu
    ),
    "separable": net((8, 7, 3), separable(4, 3)),
    "transpose": net((5, 6, 3), transpose(4, 3, strides=2)),
    "transpose_folded": net(
        (5, 6, 3), transpose(4, 3, strides=2, **same), norm
    ),
    "network": net(
        (8, 8, 3),
        conv(16, 3, **same),
        pool,
        norm,
        relu,
        flatten,
        dense(24),
        norm,
        relu,
        dense(10),
    ),
    "sign_dense": net((40,), dense(12, **sign), norm),
    "sign_dense_3d": net((3, 8), dense(5, **sign)),
    "sign_rows": net((20, 8), dense(5, **sign), batch_size=1),
    "sign_conv1d": net((9, 4), conv1d(5, 3, padding="causal", **sign)),
    "sign_conv2d_valid": net((8, 7, 4), conv(6, 3, **sign), norm, relu),
    "sign_conv2d_same": net((8, 7, 4), conv(6, 3, **sign, **same), relu),
    "sign_conv2d_strides": net(
        (9, 8, 4), conv(6, (5, 2), strides=(2, 3), **sign, **same)
    ),
    "sign_depthwise": net(
        (8, 7, 4), depthwise(3, depth_multiplier=2, **sign, **same)
    ),
    "sign_transpose": net((5, 6, 4), transpose(3, 3, **sign)),
    "sign_network": net(
        (8, 8, 3),
        conv(8, 3, **same),
        norm,
        conv(12, 3, **sign, **same),
        pool,
        norm,
        flatten,
        dense(24, **sign),
        norm,
        dense(10, **sign),
    ),
    "lstm": net(steps, lstm(8)),
    "lstm_sequences": net((40, 5), lstm(7, return_sequences=True)),
    "lstm_one_hot": net((5, 1), lstm(8, one_hot=11), dtype="int32"),
    "gru": net(steps, gru(8)),
    "gru_reset_before": net(steps, gru(8, reset_after=False)),
    "simple_rnn": net(steps, rnn(8)),
    "stacked": net(steps, lstm(8, return_sequences=True), gru(6), dense(5)),
    "bidirectional": net(
        steps, lambda: layers.Bidirectional(keras_lab.BinaryLSTM(8))
    ),
    "bidirectional_one_hot": net(
        (5, 1),
        lambda: layers.Bidirectional(keras_lab.BinaryLSTM(8, one_hot=11)),
        dtype="int32",
    ),
    "cells": net(
        steps,
        lambda: layers.RNN(
            [keras_lab.BinaryLSTMCell(8), keras_lab.BinaryGRUCell(7)]
        ),
    ),
    "lstm_sign_activation": net(steps, lstm(8, activation="sign")),
    "lstm_sign_state": net(steps, lstm(8, **sign)),
    "gru_sign_state": net(steps, gru(8, **sign)),
    "simple_rnn_all_signs": net(steps, rnn(8, binarize_inputs=True, **sign)),
}
