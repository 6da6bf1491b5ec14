"""Which constant of a file is which trained kernel."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.tflite_export.support import (
    Exported,
    check_weights_are_read_back,
    max_error,
    randomize,
)
from tflite_export import (
    Format,
    export_tflite,
    inspect,
    read_packed,
    run,
)
from tflite_export import plan as plan_module
from tflite_export.find import find_binary_constants
from tflite_export.flatbuffer.model import FlatModel
from tflite_export.graph.weights import Kernel
from tflite_export.prepare import trained_kernels
from tflite_export.rewrite import rewrite

BINARY_FORMATS = ["packed", "packed_float", "fast"]


def signs(rng, *shape):
    return np.where(rng.normal(size=shape) >= 0, 1.0, -1.0).astype("f")


def tower(name, kernel, alpha, units=8):
    """A model whose layer has the same name as that of another tower."""
    inputs = keras.Input((8,))
    layer = keras_lab.BinaryDense(units, use_bias=False, name="fc")
    model = keras.Model(inputs, layers.ReLU()(layer(inputs)), name=name)
    layer.kernel.assign(kernel)
    layer.alpha.assign(alpha)
    return model


def towers(kernels, alphas):
    left, right = keras.Input((8,)), keras.Input((8,))
    y = [
        tower("left", kernels[0], alphas[0])(left),
        tower("right", kernels[1], alphas[1])(right),
    ]
    return keras.Model([left, right], layers.Add()(y))


@pytest.mark.parametrize("format", BINARY_FORMATS)
@pytest.mark.parametrize("alphas", [(0.5, 0.5), (0.5, 0.25)])
@pytest.mark.parametrize("equal", [False, True])
def test_layers_of_one_name_in_two_models_are_two_kernels(
    rng, equal, alphas, format
):
    kernels = [signs(rng, 8, 8), signs(rng, 8, 8)]
    model = towers(kernels[:1] * 2 if equal else kernels, alphas)
    content = Exported(model).content(format)
    check_weights_are_read_back(model, content)
    assert len(read_packed(content)) == 2
    rows = {row.layer: row.alpha for row in inspect(content).layers}
    assert rows == {
        "left/fc/kernel": alphas[:1],
        "right/fc/kernel": alphas[1:],
    }


@pytest.mark.parametrize("format", BINARY_FORMATS)
def test_equal_kernels_in_towers_of_different_sizes_are_read_back(rng, format):
    kernel, other = signs(rng, 8, 8), signs(rng, 8, 8)
    inputs = keras.Input((8,))
    small = tower("small", kernel, 0.5)
    large = keras.Sequential(
        [
            keras.Input((8,)),
            keras_lab.BinaryDense(8, use_bias=False, name="fc"),
            keras_lab.BinaryDense(8, use_bias=False, name="fc_2"),
        ],
        name="large",
    )
    for layer, value in zip(large.layers, (kernel, other)):
        layer.kernel.assign(value)
        layer.alpha.assign(0.5)
    y = layers.Add()([small(inputs), large(inputs)])
    model = keras.Model(inputs, y)
    exported = Exported(model)
    check_weights_are_read_back(model, exported.content(format))
    x = exported.inputs(5)
    actual = run(exported.content(format), x)
    assert max_error(exported.expected(x), actual) < 0.02


@keras.saving.register_keras_serializable("tests")
class TwoOfOneName(layers.Layer):
    """A layer with two inner layers of the same name."""

    def build(self, shape):
        self.first, self.second = (
            keras_lab.BinaryDense(2, use_bias=False, name="fc")
            for _ in range(2)
        )
        self.first.build(shape)
        self.second.build(shape)
        super().build(shape)

    def call(self, x):
        return self.first(x) + keras.ops.relu(self.second(x))


@pytest.mark.parametrize("format", BINARY_FORMATS)
def test_inner_layers_of_one_name_and_equal_signs_keep_their_alpha(format):
    model = keras.Sequential([keras.Input((2,)), TwoOfOneName(name="block")])
    for alpha, weight in zip(
        (0.25, 0.5), keras_lab.binary_weights(model).values()
    ):
        weight.latent.assign([[1, -1], [1, 1]])
        weight.alpha.assign(alpha)
    check_weights_are_read_back(model, Exported(model).content(format))


def test_kernels_with_the_same_signs_keep_their_names():
    model = keras.Sequential([keras.Input((2,))])
    for number in range(4):
        model.add(keras_lab.BinaryDense(2, name=f"layer_{number}"))
    for number, layer in enumerate(model.layers):
        layer.kernel.assign([[1, -1], [1, 1]])
        layer.alpha.assign(0.25 * (number + 1))
    packed = read_packed(Exported(model).content("packed"))
    assert {w.path: float(w.alpha) for w in packed} == {
        "layer_0/kernel": 0.25,
        "layer_1/kernel": 0.5,
        "layer_2/kernel": 0.75,
        "layer_3/kernel": 1.0,
    }


def test_a_folded_batch_norm_gives_the_signs_and_alpha_that_were_trained():
    model = randomize(
        keras.Sequential(
            [
                keras.Input((33,)),
                keras_lab.BinaryDense(8, use_bias=False),
                layers.BatchNormalization(),
            ]
        )
    )
    gamma = np.array([1, -1, 0, 2, -2, 0, 0.5, -0.5])
    model.layers[1].gamma.assign(gamma)
    exported = Exported(model)
    (constant,) = find_binary_constants(
        FlatModel(exported.converted), trained_kernels(model)
    )
    assert constant.flipped.tolist() == [1, 4, 7]
    assert np.flatnonzero(constant.scales == 0).tolist() == [2, 5]
    latent = model.layers[0].kernel.numpy()
    for format in ("packed", "packed_float", "fast"):
        (weight,) = read_packed(exported.content(format))
        np.testing.assert_array_equal(
            weight.signs, np.where(latent >= 0, 1, -1)
        )
        np.testing.assert_array_equal(weight.alpha, model.layers[0].alpha)


def test_two_uses_of_one_kernel_are_stored_once():
    shared = keras_lab.BinaryDense(30, use_bias=False)
    inputs = keras.Input((30,))
    x = layers.ReLU()(shared(inputs))
    model = randomize(keras.Model(inputs, shared(x)))
    exported = Exported(model)
    assert len(read_packed(exported.content("packed"))) == 1
    x = exported.inputs(5)
    for format in ("packed", "packed_float", "fast"):
        actual = run(exported.content(format), x)
        assert max_error(exported.expected(x), actual) < 0.02


@pytest.mark.parametrize("alpha", [1e-6, 10.0])
@pytest.mark.parametrize("format", ["packed", "packed_float", "fast"])
def test_alpha_may_be_small_or_large(alpha, format):
    model = keras.Sequential(
        [keras.Input((24,)), keras_lab.BinaryDense(8, use_bias=False)]
    )
    model.layers[0].alpha.assign(alpha)
    exported = Exported(model)
    x = exported.inputs(5)
    actual = run(exported.content(format), x)
    assert max_error(exported.expected(x), actual) < 0.02
    (weight,) = read_packed(exported.content(format))
    assert weight.alpha == np.float32(alpha)


@pytest.mark.parametrize("weights", [14, 15, 16, 29, 30, 31])
def test_any_number_of_weights_can_be_packed(weights):
    model = randomize(
        keras.Sequential([keras.Input((weights,)), keras_lab.BinaryDense(1)])
    )
    exported = Exported(model)
    x = exported.inputs(5)
    for format in ("packed", "packed_float", "fast"):
        actual = run(exported.content(format), x)
        assert max_error(exported.expected(x), actual) < 0.02


def test_layers_with_equal_kernels_are_both_read_back(rng):
    kernel = signs(rng, 8, 8)
    model = keras.Sequential([keras.Input((8,))])
    for name in ("one", "two", "three"):
        model.add(keras_lab.BinaryDense(8, use_bias=False, name=name))
        model.add(layers.ReLU())
        model.layers[-2].kernel.assign(kernel)
        model.layers[-2].alpha.assign(0.5)
    for format in ("packed", "packed_float", "fast"):
        packed = read_packed(Exported(model).content(format))
        assert [w.path for w in packed] == [
            "one/kernel",
            "two/kernel",
            "three/kernel",
        ]
        for weight in packed:
            np.testing.assert_array_equal(weight.signs, kernel)
            assert weight.alpha == 0.5


@pytest.mark.parametrize("format", ["packed", "packed_float", "fast"])
def test_a_binary_kernel_that_is_not_in_the_file_is_named(rng, format):
    model = randomize(
        keras.Sequential([keras.Input((8,)), keras_lab.BinaryDense(6)])
    )
    absent = Kernel("net/other/kernel", signs(rng, 8, 6), np.float32(1))
    report = inspect(
        rewrite(
            Exported(model).flat(),
            Format(format),
            [*trained_kernels(model), absent],
        )
    )
    assert report.not_packed == ("net/other/kernel",)
    assert "not packed    net/other/kernel" in str(report)


def test_a_kernel_that_stays_float_is_named_in_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(plan_module, "_why_float", lambda *args: "a reason")
    model = keras.Sequential([keras.Input((8,)), keras_lab.BinaryDense(6)])
    with pytest.warns(UserWarning, match="32 bits per weight: .*/kernel"):
        report = export_tflite(model, tmp_path / "m.tflite")
    assert report.not_packed == tuple(keras_lab.binary_weights(model))
