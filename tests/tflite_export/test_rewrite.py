"""`pack`: binary weights are recognized in a file of any origin."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tests.tflite_export.support import max_error, random_signs
from tflite_export import (
    InvalidModelError,
    NothingBinaryError,
    inspect,
    make_interpreter,
    pack,
    read_packed,
    run,
)
from tflite_export.convert import convert
from tflite_export.flatbuffer.model import FlatModel
from tflite_export.prepare import as_functional

pytestmark = pytest.mark.filterwarnings("ignore:The packed file is not small")


def file_of(shape, *parts):
    """The flat model of plain Keras layers, each given with its kernel."""
    model = keras.Sequential([keras.Input(shape)])
    for layer, kernel in parts:
        model.add(layer)
        layer.kernel.assign(kernel)
    return FlatModel(convert(as_functional(model)))


def dense_file(*kernels):
    parts = [(layers.Dense(k.shape[1], use_bias=False), k) for k in kernels]
    return file_of((kernels[0].shape[0],), *parts)


def check_pack(content, x, tolerance=0.02):
    (name,) = FlatModel(content).signature()[0]
    expected = run(content, {name: x.astype("f")})
    actual = run(pack(content), {name: x.astype("f")})
    assert max_error(expected, actual) < tolerance


def test_dense_layers_that_are_not_ours_are_packed_and_others_stay(rng):
    scales = np.repeat([0.1, 0.2, 0.3, 0.4], 10).astype("f")
    first = 0.3 * random_signs(rng, 64, 48)
    second = scales * random_signs(rng, 48, 40)
    third = rng.normal(size=(40, 8)).astype("f")
    content = dense_file(first, second, third).to_bytes()
    packed = pack(content)
    assert len(packed) < len(content)
    for weight, kernel in zip(read_packed(packed), (first, second)):
        np.testing.assert_array_equal(weight.signs * weight.alpha, kernel)
    assert [w.alpha.shape for w in read_packed(packed)] == [(), (40,)]
    flat = FlatModel(packed)
    assert any(
        np.array_equal(flat.constant(tensor), third.T)
        for tensor in flat.subgraphs[0].tensors
        if flat.is_constant(tensor) and flat.type_name(tensor) == "FLOAT32"
    )
    check_pack(content, rng.normal(size=(5, 64)))


CONVOLUTIONS = [
    lambda: layers.Conv2D(8, 3, padding="same"),
    lambda: layers.DepthwiseConv2D(3, depth_multiplier=2),
]


@pytest.mark.parametrize("make", CONVOLUTIONS)
def test_a_foreign_convolution_has_the_shape_of_keras(rng, make):
    layer = make()
    layer.build((None, 6, 6, 3))
    kernel = 0.25 * random_signs(rng, *layer.kernel.shape)
    flat = file_of((6, 6, 3), (layer, kernel))
    (weight,) = read_packed(pack(flat.to_bytes()))
    assert weight.shape == kernel.shape
    np.testing.assert_array_equal(weight.signs * weight.alpha, kernel)
    flat.subgraphs[0].operators[0].builtinOptions = None
    with pytest.raises(InvalidModelError, match="a part is missing") as raised:
        pack(flat.to_bytes())
    assert "Error" not in str(raised.value)
    assert "NoneType" not in str(raised.value)


def test_a_dense_layer_may_leave_out_its_options(rng):
    flat = dense_file(random_signs(rng, 200, 80))
    flat.subgraphs[0].operators[0].builtinOptions = None
    flat.subgraphs[0].operators[0].builtinOptionsType = 0
    check_pack(flat.to_bytes(), rng.normal(size=(3, 200)))


def test_pack_warns_if_the_result_is_not_smaller(rng):
    with pytest.warns(UserWarning, match="is not smaller: .* instead of"):
        pack(dense_file(random_signs(rng, 20, 12)).to_bytes())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pack(dense_file(random_signs(rng, 200, 80)).to_bytes())


def sparse(rng, rows, columns):
    """Blocks of four zeros or four other numbers."""
    blocks = rng.random((rows, columns // 4)) < 0.2
    return rng.normal(size=(rows, columns)) * np.repeat(blocks, 4, axis=1)


@pytest.mark.parametrize(
    ("storage", "kind", "largest"),
    [("float16", "float16", 16.0), ("sparsity", "sparse", 12.0)],
)
def test_weights_that_are_stored_in_another_form(rng, storage, kind, largest):
    """Binary float16 weights are packed, the others stay as they are."""
    first = 0.25 * random_signs(rng, 300, 64)
    second = sparse(rng, 64, 64).T.astype("f")
    content = foreign(lambda x: (x @ first) @ second, 1, 300, storage=storage)
    packed = pack(content)
    assert len(packed) < len(content) / 1.5
    for file, bits in (
        (content, 16.0 if kind == "float16" else 32.0),
        (packed, 1.1),
    ):
        binary, other = inspect(file).layers
        assert binary.kind == "binary" and binary.alpha == (0.25,)
        assert binary.weights == 300 * 64 and binary.bits <= bits
        assert other.kind == kind and other.bits <= largest
        assert other.weights == 64 * 64
    (weight,) = read_packed(packed)
    np.testing.assert_array_equal(weight.signs * weight.alpha, first)
    check_pack(content, rng.normal(size=(1, 300)))


def test_one_different_weight_or_a_scale_per_weight_is_not_binary(rng):
    different = random_signs(rng, 32, 16)
    different[3, 5] *= 1.0000001
    for kernel in (different, rng.normal(size=(1, 32))):
        with pytest.raises(NothingBinaryError, match="no binary weights"):
            pack(dense_file(kernel).to_bytes())


def test_tensors_of_one_name_are_two_weights(rng):
    kernels = random_signs(rng, 40, 40), random_signs(rng, 40, 40)
    flat = dense_file(*kernels)
    for operator in flat.subgraphs[0].operators:
        flat.subgraphs[0].tensors[int(operator.inputs[1])].name = "weights"
    packed = read_packed(pack(flat.to_bytes()))
    assert [weight.path for weight in packed] == ["weights", "weights_1"]
    for weight, kernel in zip(packed, kernels):
        np.testing.assert_array_equal(weight.signs, kernel)


def test_weights_that_are_an_output_too_stay_as_they_are(rng):
    flat = dense_file(random_signs(rng, 40, 12))
    main = flat.subgraphs[0]
    main.outputs = np.append(main.outputs, main.operators[0].inputs[1])
    packed = pack(flat.to_bytes())
    report = inspect(packed)
    (row,) = report.layers
    assert row.note == "its weights are an output" and row.note in str(report)
    assert report.not_packed == (row.layer,)
    make_interpreter(packed).allocate_tensors()


def convert_functions(*functions, module=None, quantize=False, storage=None):
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [function.get_concrete_function() for function in functions], module
    )
    if quantize:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if storage == "float16":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = [tf.float16]
    elif storage == "sparsity":
        converter.optimizations = [tf.lite.Optimize.EXPERIMENTAL_SPARSITY]
    return converter.convert()


def foreign(function, *shape, **options):
    """The file of a function of TensorFlow."""
    signature = [tf.TensorSpec(shape)]
    return convert_functions(tf.function(function, signature), **options)


def test_weights_of_a_second_signature_stay_and_the_note_says_why(rng):
    class Module(tf.Module):
        first, second = random_signs(rng, 20, 12), random_signs(rng, 20, 30)

        @tf.function(input_signature=[tf.TensorSpec([None, 20])])
        def a(self, x):
            return {"y": x @ self.first}

        @tf.function(input_signature=[tf.TensorSpec([None, 20])])
        def b(self, x):
            return {"y": x @ self.second}

    module = Module()
    content = convert_functions(module.a, module.b, module=module)
    notes = [row.note for row in inspect(pack(content)).layers]
    assert notes == ["", "neither in the main subgraph nor in one loop of it"]


def test_zeros_that_are_an_output_too_stay(rng):
    kernel = random_signs(rng, 20, 12)

    def function(x):
        zeros = tf.zeros([1, 400])
        _, state = tf.while_loop(
            lambda i, _: i < 3,
            lambda i, state: (i + 1, state + tf.reduce_sum(x)),
            [0, zeros],
        )
        return state, zeros, tf.matmul(x, kernel)

    check_pack(foreign(function, 1, 20), rng.normal(size=(1, 20)))


@pytest.mark.parametrize("quantize", [False, True])
def test_a_foreign_loop_keeps_its_own_quantization(rng, quantize):
    inner, last = rng.normal(size=(64, 128)), random_signs(rng, 128, 6)
    outer = 0.05 * rng.normal(size=(128, 128))

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
    check_pack(content, 0.1 * rng.normal(size=(1, 5, 64)), tolerance=0.05)


def test_a_scale_may_be_as_small_as_a_float_can_be(rng):
    kernel = random_signs(rng, 20, 4) * np.array([1e-38, 2, 3, 4], "f")
    bias = np.array([100, 2, 3, 4], "f")
    content = foreign(lambda x: x @ kernel + bias, 1, 20)
    check_pack(content, rng.normal(size=(1, 20)))
