"""One small layer of each kind, for several tests."""

import keras

import keras_lab

# name: (Keras layer, positional arguments, shape of an input)
CASES = {
    "dense": ("Dense", (5,), (7,)),
    "dense_3d": ("Dense", (5,), (3, 7)),
    "einsum": ("EinsumDense", ("abc,cde->abde", (3, 2, 3)), (3, 7)),
    "conv1d": ("Conv1D", (4, 3), (9, 2)),
    "conv2d": ("Conv2D", (4, 3), (8, 7, 2)),
    "conv3d": ("Conv3D", (4, 2), (4, 5, 6, 2)),
    "depthwise": ("DepthwiseConv2D", (3,), (8, 7, 3)),
    "separable": ("SeparableConv2D", (4, 3), (8, 7, 3)),
    "transpose": ("Conv2DTranspose", (4, 3), (8, 7, 2)),
}
OTHER_CASES = {
    "embedding": ("Embedding", (9, 4), (3,)),
    "lstm": ("LSTM", (4,), (5, 3)),
    "gru": ("GRU", (4,), (5, 3)),
    "simple_rnn": ("SimpleRNN", (4,), (5, 3)),
}
OPTIONS = [
    ("dense", {"activation": "relu", "use_bias": False}),
    ("conv1d", {"padding": "causal", "dilation_rate": 2}),
    ("conv1d", {"strides": 2, "padding": "same", "activation": "tanh"}),
    ("conv2d", {"strides": (2, 1), "padding": "same", "use_bias": False}),
    ("conv2d", {"dilation_rate": 2, "groups": 2, "activation": "relu"}),
    ("conv3d", {"strides": 2, "padding": "same"}),
    ("depthwise", {"depth_multiplier": 2, "strides": 2, "padding": "same"}),
    ("depthwise", {"dilation_rate": 2}),
    ("separable", {"depth_multiplier": 2, "activation": "relu"}),
    ("transpose", {"strides": 2, "padding": "same", "output_padding": 1}),
    ("transpose", {"strides": 3, "use_bias": False}),
    ("conv2d", {"data_format": "channels_first", "padding": "same"}),
    ("depthwise", {"data_format": "channels_first", "strides": 2}),
    ("separable", {"data_format": "channels_first"}),
]


def make(case, prefix="Binary", **options):
    """A layer of keras_lab, or with no prefix of Keras, and a batch's shape."""
    name, arguments, shape = (CASES | OTHER_CASES)[case]
    module = keras_lab if prefix else keras.layers
    return getattr(module, prefix + name)(*arguments, **options), (2, *shape)


def built(case, prefix="Binary", **options):
    layer, shape = make(case, prefix, **options)
    layer.build(shape)
    return layer, shape


def copy_forward_weights(layer, plain):
    """Gives a layer of Keras the weights that a binary one computes with."""
    binary = keras_lab.binary_weights(layer).values()
    values = {id(weight.latent): weight.value() for weight in binary}
    alphas = {id(weight.alpha) for weight in binary}
    weights = [weight for weight in layer.weights if id(weight) not in alphas]
    for target, weight in zip(plain.weights, weights, strict=True):
        target.assign(values.get(id(weight), weight))
