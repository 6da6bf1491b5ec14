"""Each trained kernel is found in the file, under its own unique path."""

import itertools

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.tflite_export.models import dense, net, norm
from tests.tflite_export.support import (
    BINARY_FORMATS,
    Exported,
    random_signs,
    randomize,
    sign_bits,
    slow_param,
)
from tflite_export import export as export_module
from tflite_export import export_tflite, inspect, pack, read_packed, run
from tflite_export.find import _choose, _Match
from tflite_export.flatbuffer.model import FlatModel
from tflite_export.graph.weights import Kernel
from tflite_export.prepare import trained_kernels


def binary(name, **options):
    return keras_lab.BinaryDense(8, use_bias=False, name=name, **options)


def tower(name, *names):
    inner = [keras.Input((8,)), *map(binary, names), layers.ReLU()]
    return keras.Sequential(inner, name=name)


def towers():
    x, y = keras.Input((8,)), keras.Input((8,))
    outputs = [tower("left", "fc")(x), tower("right", "fc")(y)]
    return keras.Model([x, y], layers.Add()(outputs))


def towers_of_different_sizes():
    x = keras.Input((8,))
    outputs = [tower("small", "fc")(x), tower("large", "fc", "fc_2")(x)]
    return keras.Model(x, layers.Add()(outputs))


def a_block_used_twice():
    x = keras.Input((8,))
    block = tower("block", "one", "two")
    return keras.Model(x, layers.Add()([x, block(block(x))]))


@keras.saving.register_keras_serializable("tests")
class TwoOfOneName(layers.Layer):
    """A layer with two inner layers of the same name."""

    def build(self, shape):
        self.first, self.second = binary("fc"), binary("fc")
        self.first.build(shape)
        self.second.build(shape)
        super().build(shape)

    def call(self, x):
        return self.first(x) + keras.ops.relu(self.second(x))


def inner_layers():
    return keras.Sequential([keras.Input((8,)), TwoOfOneName(name="block")])


def a_row():
    return tower("row", "one", "two", "three", "four")


def odd_names():
    model = keras.Sequential([keras.Input((8,))])
    for name in ("a.b", "a-b", "a_b"):
        model.add(binary(name))
        model.add(layers.BatchNormalization(gamma_initializer="ones"))
    return model


MODELS = [towers, towers_of_different_sizes, a_block_used_twice]
MODELS += [inner_layers, a_row, odd_names]


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize(
    ("equal", "alphas"),
    [
        (True, (0.5,)),
        slow_param(True, (0.25, 0.5, 0.75, 1)),
        slow_param(False, (0.25, 0.5, 0.75, 1)),
        slow_param(False, (0.5,)),
    ],
)
def test_every_kernel_has_a_path_of_its_own(rng, make, equal, alphas):
    model = make()
    kernel = random_signs(rng, 8, 8)
    trained = keras_lab.binary_weights(model)
    for weight, alpha in zip(trained.values(), itertools.cycle(alphas)):
        weight.latent.assign(kernel if equal else random_signs(rng, 8, 8))
        weight.alpha.assign_unchecked(alpha)
    exported = Exported(model)
    for format in BINARY_FORMATS:
        exported.check_read_back(format)
        rows = inspect(exported.content(format)).layers
        assert sorted((row.layer, row.alpha) for row in rows) == sorted(
            (path, (float(weight.alpha.numpy()),))
            for path, weight in trained.items()
        )
        assert exported.error(format) < 0.02


def beside_ones():
    ones = layers.Dense(8, kernel_initializer="ones", name="float")
    return net((8,), ones, dense(8))()


def beside_a_blur():
    options = {"depthwise_initializer": keras.initializers.Constant(1 / 9)}
    blur = layers.DepthwiseConv2D(3, name="float", **options)
    return net((8, 8, 3), blur, norm, layers.Flatten, dense(6))()


def beside_one_input():
    """With one weight per channel, a float kernel is ±s too."""
    first = layers.Dense(8, use_bias=False, name="float")
    binary = dense(1), dense(8, use_bias=False)
    return net((1,), first, norm, *binary, norm)()


@pytest.mark.parametrize("make", [beside_ones, beside_a_blur, beside_one_input])
@pytest.mark.parametrize(
    "format", ["packed", slow_param("packed_float"), slow_param("fast")]
)
def test_a_float_kernel_that_looks_binary_stays_float(path, make, format):
    model = make()
    report = export_tflite(model, path, format)
    kinds = {row.layer: (row.kind, row.arithmetic) for row in report.layers}
    trained = keras_lab.binary_weights(model)
    assert {p for p, (kind, _) in kinds.items() if kind == "binary"} == set(
        trained
    )
    assert kinds.popitem()[1] == ("float", "float32")


def test_pack_finds_every_kernel_that_is_binary_by_value():
    exported = Exported(beside_ones())
    rows = inspect(pack(exported.converted)).layers
    assert [row.kind for row in rows] == ["binary", "binary"]


def test_small_kernels_before_batch_norms_are_not_mixed_up(rng):
    """Up to the signs of γ there are only four different 2×2 kernels."""
    parts = 8 * [dense(2, use_bias=False), norm]
    exported = Exported(randomize(net((2,), *parts)(), 1))
    exported.check_read_back("packed_float")
    report = inspect(exported.content("packed_float"))
    assert not report.not_packed


def test_a_kernel_makes_room_for_one_that_fits_nowhere_else(rng):
    one, two = (Kernel(name, rng, rng) for name in ("one", "two"))
    first, second = (_Match(k, rng, rng) for k in (one, two))
    chosen = _choose({"any": [first, second], "one": [first]})
    assert chosen == {"any": second, "one": first}


@pytest.mark.parametrize("weights", [1, 15, slow_param(16), slow_param(1000)])
def test_the_bits_in_the_file_are_those_that_the_docs_describe(weights):
    """Fifteen signs in each INT16, the first in the lowest bit, 1 for +."""
    model = randomize(net((weights,), dense(1))())
    exported = Exported(model)
    flat = FlatModel(exported.content("packed"))
    (tensor,) = sign_bits(flat)
    words = flat.constant(tensor)
    assert words.dtype == np.int16 and np.all(words >= 0)
    bits = (words[:, None] >> np.arange(15)) & 1
    latent = model.layers[0].kernel.numpy().ravel()
    np.testing.assert_array_equal(bits.ravel()[:weights] == 1, latent >= 0)
    for format in BINARY_FORMATS:
        assert exported.error(format) < 0.02


@pytest.mark.parametrize("format", BINARY_FORMATS)
@pytest.mark.parametrize("alpha", [0, 10, slow_param(1e-42), slow_param(1e-6)])
def test_alpha_may_be_zero_small_or_large(alpha, format):
    model = net((24,), dense(8, use_bias=False))()
    model.layers[0].alpha.assign_unchecked(alpha)
    exported = Exported(model)
    exported.check_read_back(format)
    inputs, expected = exported.samples(5)
    (y,), (z,) = (
        expected.values(),
        run(exported.content(format), inputs).values(),
    )
    assert np.abs(z - y).max() <= 0.02 * np.abs(y).max() + 1e-20


@pytest.mark.parametrize("format", BINARY_FORMATS)
def test_a_kernel_that_is_not_packed_is_named(path, rng, monkeypatch, format):
    absent = Kernel("net/other", random_signs(rng, 8, 6), np.float32(1))
    monkeypatch.setattr(
        export_module,
        "trained_kernels",
        lambda model: [*trained_kernels(model), absent],
    )
    with pytest.warns(UserWarning, match="32 bits per weight: net/other"):
        report = export_tflite(net((8,), dense(6))(), path, format)
    assert inspect(path).not_packed == report.not_packed == ("net/other",)
    assert "net/other" in str(report)
    assert len(read_packed(path)) == 1
