"""`pack`: binary weights are recognized in a file of any origin."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tests.tflite_export.support import max_error
from tflite_export import (
    InvalidModelError,
    NothingBinaryError,
    inspect,
    make_interpreter,
    pack,
    read_packed,
    run,
)
from tflite_export.convert import convert as to_flat_model
from tflite_export.flatbuffer.model import FlatModel
from tflite_export.prepare import as_functional


def convert(model):
    return to_flat_model(model).to_bytes()


def plain_model(*kernels, **dense):
    """A model of plain Keras layers with the given kernels."""
    model = keras.Sequential([keras.Input((kernels[0].shape[0],))])
    for kernel in kernels:
        layer = layers.Dense(kernel.shape[1], use_bias=False, **dense)
        model.add(layer)
        layer.kernel.assign(kernel)
    return as_functional(model)


def signs(rng, *shape):
    return np.where(rng.normal(size=shape) >= 0, 1.0, -1.0).astype("f")


def test_a_model_that_is_not_ours_is_packed_too(rng):
    first, second = 0.3 * signs(rng, 64, 48), signs(rng, 48, 40)
    second *= rng.uniform(0.1, 1, 40).astype("f")
    model = plain_model(first, second)
    content = convert(model)
    packed = pack(content)
    assert len(packed) < len(content)
    weights = read_packed(packed)
    np.testing.assert_array_equal(weights[0].signs, np.sign(first))
    np.testing.assert_array_equal(weights[0].alpha, np.float32(0.3))
    np.testing.assert_array_equal(weights[1].signs * weights[1].alpha, second)
    (name,) = FlatModel(content).signature()[0]
    x = {name: rng.normal(size=(5, 64)).astype("f")}
    assert max_error(run(content, x), run(packed, x)) < 0.02


def test_float_weights_are_left_as_they_are(rng):
    kernel, other = signs(rng, 32, 16), rng.normal(size=(16, 8)).astype("f")
    packed = FlatModel(pack(convert(plain_model(kernel, other))))
    constants = [
        packed.constant(tensor)
        for tensor in packed.subgraphs[0].tensors
        if packed.is_constant(tensor) and packed.type_name(tensor) == "FLOAT32"
    ]
    assert any(
        value.shape == (8, 16) and np.array_equal(value, other.T)
        for value in constants
    )


def test_one_different_weight_makes_a_tensor_float(rng):
    kernel = signs(rng, 32, 16)
    kernel[3, 5] *= 1.0000001
    with pytest.raises(NothingBinaryError, match="no binary weights"):
        pack(convert(plain_model(kernel)))


def test_one_scale_per_weight_is_not_binary(rng):
    kernel = rng.normal(size=(1, 32)).astype("f")
    with pytest.raises(NothingBinaryError):
        pack(convert(plain_model(kernel)))


def test_tensors_of_one_name_are_two_weights(rng):
    kernels = signs(rng, 40, 40), signs(rng, 40, 40)
    flat = FlatModel(convert(plain_model(*kernels)))
    for operator in flat.subgraphs[0].operators:
        flat.subgraphs[0].tensors[int(operator.inputs[1])].name = "weights"
    packed = read_packed(pack(flat.to_bytes()))
    assert [weight.path for weight in packed] == ["weights", "weights_1"]
    for weight, kernel in zip(packed, kernels):
        np.testing.assert_array_equal(weight.signs, kernel)


def foreign_conv(depthwise=False):
    layer = layers.Conv2D(8, 3, padding="same")
    if depthwise:
        layer = layers.DepthwiseConv2D(3, depth_multiplier=2)
    model = keras.Sequential([keras.Input((6, 6, 3)), layer])
    kernel = layer.kernel
    rng = np.random.default_rng(0)
    kernel.assign(0.25 * signs(rng, *kernel.shape))
    return kernel.numpy(), FlatModel(convert(as_functional(model)))


@pytest.mark.parametrize("depthwise", [False, True])
def test_a_foreign_convolution_has_the_shape_of_keras(depthwise):
    kernel, flat = foreign_conv(depthwise)
    (weight,) = read_packed(pack(flat.to_bytes()))
    assert weight.shape == kernel.shape
    np.testing.assert_array_equal(weight.signs * weight.alpha, kernel)


def test_a_foreign_alpha_is_one_per_tensor_or_per_channel(rng):
    kernel = signs(rng, 40, 12) * np.repeat([0.1, 0.2, 0.3], 4).astype("f")
    (weight,) = read_packed(pack(convert(plain_model(kernel))))
    assert weight.alpha.shape == (12,)
    np.testing.assert_array_equal(weight.signs * weight.alpha, kernel)


def test_weights_that_are_an_output_too_stay_as_they_are(rng):
    flat = FlatModel(convert(plain_model(signs(rng, 40, 12))))
    main = flat.subgraphs[0]
    main.outputs = np.append(main.outputs, main.operators[0].inputs[1])
    report = inspect(pack(flat.to_bytes()))
    assert [row.note for row in report.layers] == ["its weights are an output"]
    make_interpreter(pack(flat.to_bytes())).allocate_tensors()


def test_weights_of_a_second_signature_stay_and_the_note_says_why(rng):
    class Module(tf.Module):
        first, second = signs(rng, 20, 12), signs(rng, 20, 30)

        @tf.function(input_signature=[tf.TensorSpec([None, 20])])
        def a(self, x):
            return {"y": x @ self.first}

        @tf.function(input_signature=[tf.TensorSpec([None, 20])])
        def b(self, x):
            return {"y": x @ self.second}

    module = Module()
    functions = [f.get_concrete_function() for f in (module.a, module.b)]
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        functions, module
    )
    notes = [row.note for row in inspect(pack(converter.convert())).layers]
    assert notes == ["", "neither in the main subgraph nor in one loop of it"]


def test_what_pack_does_not_know_is_not_called_damage_alone():
    _, flat = foreign_conv()
    flat.subgraphs[0].operators[0].builtinOptions = None
    with pytest.raises(InvalidModelError, match="`pack` does not know"):
        pack(flat.to_bytes())


def foreign(function, *shape, quantize=False):
    """The file of a function of TensorFlow."""
    spec = tf.TensorSpec(shape)
    concrete = tf.function(function, [spec]).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])
    if quantize:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    return converter.convert()


def check_pack(content, x, tolerance=0.02):
    (name,) = FlatModel(content).signature()[0]
    expected = run(content, {name: x})
    assert max_error(expected, run(pack(content), {name: x})) < tolerance


def test_zeros_that_are_an_output_too_stay(rng):
    kernel = signs(rng, 20, 12)

    def function(x):
        zeros = tf.zeros([1, 400])
        _, state = tf.while_loop(
            lambda i, _: i < 3,
            lambda i, state: (i + 1, state + tf.reduce_sum(x)),
            [0, zeros],
        )
        return state, zeros, tf.matmul(x, kernel)

    check_pack(foreign(function, 1, 20), rng.normal(size=(1, 20)).astype("f"))


@pytest.mark.parametrize("quantize", [False, True])
def test_a_foreign_loop_keeps_its_own_quantization(rng, quantize):
    inner, outer, last = (
        rng.normal(size=(64, 128)).astype("f"),
        0.05 * rng.normal(size=(128, 128)).astype("f"),
        signs(rng, 128, 6),
    )

    def function(x):
        steps = tf.transpose(x, [1, 0, 2])
        _, state = tf.while_loop(
            lambda i, _: i < 5,
            lambda i, state: (
                i + 1,
                tf.tanh(tf.gather(steps, i) @ inner + state @ outer),
            ),
            [0, tf.zeros([1, 128])],
        )
        return state @ last

    content = foreign(function, 1, 5, 64, quantize=quantize)
    x = 0.1 * rng.normal(size=(1, 5, 64)).astype("f")
    check_pack(content, x, tolerance=0.05)


def test_a_scale_may_be_as_small_as_a_float_can_be(rng):
    kernel = signs(rng, 20, 4) * np.array([1e-38, 2, 3, 4], "f")
    bias = np.array([100, 2, 3, 4], "f")
    content = foreign(lambda x: x @ kernel + bias, 1, 20)
    check_pack(content, rng.normal(size=(1, 20)).astype("f"))
