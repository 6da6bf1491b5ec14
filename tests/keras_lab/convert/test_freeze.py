"""`freeze`: the same network in plain Keras layers."""

import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from keras_lab.quantizers import LAB, SignActivation
from tests.keras_lab.convert.support import random

# name: (layer, arguments, shape of an input)
CASES = {
    "dense": ("Dense", (5,), (7,)),
    "dense_3d": ("Dense", (5,), (3, 7)),
    "conv1d": ("Conv1D", (4, 3), (9, 2)),
    "conv2d": ("Conv2D", (4, 3), (8, 7, 2)),
    "conv3d": ("Conv3D", (4, 2), (4, 5, 6, 2)),
    "depthwise": ("DepthwiseConv2D", (3,), (8, 7, 3)),
    "separable": ("SeparableConv2D", (4, 3), (8, 7, 3)),
    "transpose": ("Conv2DTranspose", (4, 3), (8, 7, 2)),
}
OPTIONS = [
    ("dense", {"activation": "relu", "use_bias": False}),
    ("conv1d", {"padding": "causal", "dilation_rate": 2}),
    ("conv2d", {"strides": (2, 1), "padding": "same", "use_bias": False}),
    ("conv2d", {"dilation_rate": 2, "groups": 2, "activation": "relu"}),
    ("depthwise", {"depth_multiplier": 2, "strides": 2, "padding": "same"}),
    ("separable", {"depth_multiplier": 2, "activation": "relu"}),
    ("transpose", {"strides": 2, "padding": "same", "output_padding": 1}),
]


def make(case, **options):
    name, arguments, shape = CASES[case]
    layer = getattr(keras_lab, f"Binary{name}")(*arguments, **options)
    return layer, (2, *shape)


def binary_values(model):
    """The ŵ of each binary weight, by the name of its variable."""
    return [
        weight.value().numpy()
        for layer in model.layers
        for weight in getattr(layer, "binary_weights", {}).values()
    ]


def check_freeze(model, inputs, tolerance=0):
    """`freeze` keeps the outputs and leaves the model alone."""
    before = [weight.numpy() for weight in model.weights]
    expected = model(inputs)
    frozen = keras_lab.freeze(model)
    keras.tree.map_structure(
        lambda x, y: np.testing.assert_allclose(x, y, 0, tolerance),
        frozen(inputs),
        expected,
    )
    for weight, value in zip(model.weights, before):
        np.testing.assert_array_equal(weight, value)
    assert "keras_lab" not in frozen.to_json()
    assert not frozen.compiled
    assert [layer.name for layer in frozen.layers] == [
        layer.name for layer in model.layers
    ]
    return frozen


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("inputs", [None, "sign"])
@pytest.mark.parametrize(
    "quantizer",
    ["lab", pytest.param(None, marks=pytest.mark.slow), LAB(scale="channel")],
)
def test_a_frozen_layer_is_the_keras_layer_with_the_binary_kernel(
    case, inputs, quantizer
):
    layer, shape = make(
        case, kernel_quantizer=quantizer, input_quantizer=inputs
    )
    model = keras.Sequential([keras.Input(shape[1:]), layer])
    frozen = check_freeze(model, random(shape))
    kernels = [
        weight.numpy() for weight in frozen.weights if "kernel" in weight.name
    ]
    for kernel, expected in zip(kernels, binary_values(model), strict=False):
        np.testing.assert_array_equal(kernel, expected)


@pytest.mark.parametrize(("case", "options"), OPTIONS)
def test_a_frozen_layer_keeps_every_option(case, options):
    layer, shape = make(case, **options)
    model = keras.Sequential([keras.Input(shape[1:]), layer])
    check_freeze(model, random(shape))


def test_the_sign_of_zero_and_of_minus_zero_stays_plus_one():
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras_lab.BinaryDense(3, input_quantizer="sign"),
        ]
    )
    check_freeze(model, np.array([[0.0, -0.0, 1e-30, -1e-30]], "float32"))


def test_sign_activations_are_kept_wherever_they_stand():
    model = keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            keras_lab.BinaryConv2D(4, 3, activation=SignActivation()),
            layers.Activation(SignActivation()),
            layers.Flatten(),
            layers.Dense(5, activation=SignActivation()),
            keras_lab.BinaryDense(3, input_quantizer="sign"),
        ]
    )
    check_freeze(model, random((5, 6, 6, 2)))


def test_nested_and_shared_models_keep_their_structure():
    inner = keras.Sequential(
        [
            keras.Input((8,)),
            keras_lab.BinaryDense(8, input_quantizer="sign"),
            layers.BatchNormalization(),
        ],
        name="inner",
    )
    a, b = keras.Input((8,), name="a"), keras.Input((8,), name="b")
    shared = keras_lab.BinaryDense(8, name="shared")
    block = keras.Model(a, inner(shared(a)), name="block")
    x = layers.Add()([block(a), block(b), inner(shared(b))]) * 0.5
    model = keras.Model(
        {"a": a, "b": b}, {"sum": x, "shared": shared(x)}, name="outer"
    )
    inputs = {"a": random((5, 8)), "b": random((5, 8), 1)}
    frozen = check_freeze(model, inputs)
    assert len(frozen.weights) == len(model.weights) - 2  # without the α


def test_a_shared_layer_with_sign_inputs_takes_inputs_of_several_sizes():
    small, large = keras.Input((6, 6, 2)), keras.Input((9, 7, 2))
    shared = keras_lab.BinaryConv2D(3, 3, input_quantizer="sign")
    model = keras.Model([small, large], [shared(small), shared(large)])
    check_freeze(model, [random((2, 6, 6, 2)), random((2, 9, 7, 2))])


@pytest.mark.parametrize("inputs", [None, "sign"])
def test_layers_in_wrappers_are_frozen(inputs):
    dense = keras_lab.BinaryDense(3, input_quantizer=inputs)
    model = keras.Sequential(
        [
            keras.Input((5, 4)),
            layers.TimeDistributed(dense),
            layers.Bidirectional(layers.LSTM(2)),
        ]
    )
    check_freeze(model, random((2, 5, 4)))


RECURRENT = {
    "lstm": lambda: keras_lab.BinaryLSTM(5),
    "gru": lambda: keras_lab.BinaryGRU(5, reset_after=False),
    "simple_rnn": lambda: keras_lab.BinarySimpleRNN(5, return_sequences=True),
    "bidirectional": lambda: layers.Bidirectional(keras_lab.BinaryLSTM(5)),
    "cell": lambda: layers.RNN(keras_lab.BinaryLSTMCell(5)),
    "cells": lambda: layers.RNN(
        [keras_lab.BinaryGRUCell(5), keras_lab.BinarySimpleRNNCell(4)]
    ),
    "binary cells": lambda: keras_lab.BinaryRNN(
        [keras_lab.BinaryGRUCell(5), keras_lab.BinarySimpleRNNCell(4)]
    ),
    "full precision": lambda: keras_lab.BinaryLSTM(5, kernel_quantizer=None),
}


@pytest.mark.parametrize("case", RECURRENT)
def test_recurrent_layers_are_frozen(case):
    model = keras.Sequential([keras.Input((6, 4)), RECURRENT[case]()])
    check_freeze(model, random((3, 6, 4)), tolerance=1e-6)


def test_one_hot_indices_are_spelled_out():
    model = keras.Sequential(
        [
            keras.Input((6, 1), dtype="int32"),
            keras_lab.BinaryLSTM(5, one_hot=7),
        ]
    )
    letters = np.random.default_rng(0).integers(0, 7, (3, 6, 1))
    check_freeze(model, letters, tolerance=1e-6)


@pytest.mark.parametrize(
    "options", [{"activation": "sign"}, {"input_quantizer": "sign"}]
)
def test_the_sign_of_a_state_has_no_counterpart_in_keras(options):
    model = keras.Sequential(
        [keras.Input((6, 4)), keras_lab.BinaryLSTM(5, **options, name="memory")]
    )
    with pytest.raises(ValueError, match="'memory' has no counterpart"):
        keras_lab.freeze(model)
    frozen = keras_lab.freeze(model, strict=False)
    inputs = random((3, 6, 4))
    np.testing.assert_allclose(frozen(inputs), model(inputs), atol=1e-6)
    kernel = frozen.layers[0].cell.kernel.numpy()
    np.testing.assert_array_equal(kernel, model.layers[0].cell.binary_kernel)


def test_a_compiled_lab_model_becomes_a_plain_model():
    inputs = keras.Input((4,))
    outputs = keras_lab.BinaryDense(3)(inputs)
    model = keras_lab.LABModel(inputs, outputs, log_alpha=True)
    model.compile(keras_lab.LABAdam(), "mse")
    model.fit(random((8, 4)), random((8, 3)), verbose=0)
    frozen = check_freeze(model, random((5, 4)))
    assert not isinstance(frozen, keras_lab.LABModel)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_is_kept(policy):
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras_lab.BinaryDense(8, dtype=policy),
            keras_lab.BinaryDense(3, input_quantizer="sign", dtype=policy),
        ]
    )
    check_freeze(model, random((5, 4)))


def test_the_frozen_file_loads_where_keras_lab_cannot_be_imported(tmp_path):
    model = keras.Sequential(
        [
            keras.Input((8, 7, 3)),
            keras_lab.BinarySeparableConv2D(4, 3, activation="relu"),
            layers.BatchNormalization(),
            keras_lab.BinaryConv2D(4, 3, input_quantizer="sign"),
            layers.Flatten(),
            keras_lab.BinaryDense(5),
        ]
    )
    model.compile(keras_lab.LABAdam(), "mse")
    inputs = random((5, 8, 7, 3))
    keras_lab.freeze(model).save(tmp_path / "plain.keras")
    np.save(tmp_path / "inputs.npy", inputs)
    program = """
import sys
sys.modules["keras_lab"] = None
import keras, numpy
model = keras.models.load_model("plain.keras")
outputs = model(numpy.load("inputs.npy"))
numpy.save("outputs.npy", outputs)
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    np.testing.assert_array_equal(
        np.load(tmp_path / "outputs.npy"), model(inputs)
    )


def test_a_model_without_weights_or_config_is_refused_by_name():
    with pytest.raises(ValueError, match="'empty' has no weights yet"):
        keras_lab.freeze(
            keras.Sequential([keras_lab.BinaryDense(3)], name="empty")
        )
    with pytest.raises(TypeError, match="Received: model=3 of type int"):
        keras_lab.freeze(3)

    class Subclassed(keras.Model):
        def __init__(self, units):
            super().__init__()
            self.dense = keras_lab.BinaryDense(units)

        def call(self, x):
            return self.dense(x)

    model = Subclassed(3)
    model(random((2, 4)))
    with pytest.raises(ValueError, match="a model of type Subclassed"):
        keras_lab.freeze(model)


class Block(layers.Layer):
    """Creates a binary layer that its config does not include."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.dense = keras_lab.BinaryDense(units)

    def build(self, input_shape):
        self.dense.build(input_shape)

    def call(self, x):
        return keras.ops.relu(self.dense(x))

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def test_binary_layers_that_no_config_includes_are_refused_or_kept():
    model = keras.Sequential(
        [keras.Input((6,)), Block(5, name="block"), keras_lab.BinaryDense(3)]
    )
    for weight in model.weights:
        weight.assign(random(weight.shape))
    with pytest.raises(ValueError, match=r"'block'.*of type Block"):
        keras_lab.freeze(model)
    x = random((2, 6))
    frozen = keras_lab.freeze(model, strict=False)
    np.testing.assert_array_equal(frozen(x), model(x))
