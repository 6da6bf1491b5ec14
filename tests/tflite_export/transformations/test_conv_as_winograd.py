"""Convolutions as smaller products: Winograd's F(4, 3)."""

import keras
import numpy as np
import pytest

import keras_lab
from tests.tflite_export.models import (
    CASES,
    SIGN_CASES,
    inputs,
    norm,
    part,
    sequential,
)
from tests.tflite_export.support import (
    Exported,
    exported,
    exported_signs,
    max_error,
    names_of,
    randomize,
)
from tflite_export import make_interpreter, run
from tflite_export.transformations import conv_as_winograd as winograd


def test_the_three_matrices_make_a_convolution(rng):
    for _ in range(100):
        d, g = rng.normal(size=6), rng.normal(size=3)
        products = (winograd.WEIGHTS @ g) * (winograd.INPUTS @ d)
        expected = [d[n : n + 3] @ g for n in range(4)]
        np.testing.assert_allclose(winograd.SUMS @ products, expected)


def count(content, name):
    return names_of(content).count(name)


def is_winograd(content):
    # The product, and the two matrices of numbers around it.
    return count(content, "BATCH_MATMUL") == 3


@pytest.mark.parametrize("case", [c for c in CASES if "winograd" in c])
def test_a_packed_file_has_them_and_is_nearly_exact(case):
    model = exported(case)
    assert is_winograd(model.content("packed"))
    data = model.inputs(5)
    error = max_error(model.expected(data), run(model.content("packed"), data))
    # All others compute in int8, and are off by 10⁻³.
    assert error < 1e-5


@pytest.mark.parametrize("case", [c for c in CASES if "winograd" in c])
def test_an_exact_file_has_none(case):
    assert count(exported(case).content("packed_float"), "BATCH_MATMUL") == 1


CONV = {"filters": 8, "kernel_size": 3, "padding": "same"}


@pytest.mark.parametrize(
    ("size", "options"),
    [
        ((8, 8, 3), {}),  # too few inputs
        ((8, 5, 16), {}),  # two tiles of four columns for five
        ((8, 8, 16), {"kernel_size": 5}),
        ((8, 8, 16), {"strides": 2}),
        ((8, 8, 16), {"input_quantizer": "sign"}),
    ],
)
def test_others_are_one_product(size, options):
    layer = part("BinaryConv2D", **{**CONV, **options})
    model = Exported(randomize(sequential(inputs(*size), layer)()))
    assert count(model.content("packed"), "BATCH_MATMUL") == 1


def test_where_signs_are_taken_of_the_outputs_all_is_exact():
    model = sequential(
        inputs(8, 8, 16),
        part("BinaryConv2D", **CONV),
        norm,
        part("BinaryConv2D", **CONV, input_quantizer="sign"),
    )
    model = Exported(randomize(model()))
    assert count(model.content("packed"), "BATCH_MATMUL") == 2


def test_sign_networks_have_none():
    for case in SIGN_CASES:
        assert not is_winograd(exported_signs(case).content("packed"))


def test_two_layers_may_share_a_kernel():
    image = keras.Input((8, 8, 16))
    conv = keras_lab.BinaryConv2D(16, 3, padding="same", name="shared")
    hidden = keras.layers.ReLU()(conv(image))
    model = Exported(randomize(keras.Model(image, conv(hidden))))
    content = model.content("packed")
    assert count(content, "BATCH_MATMUL") == 6
    data = model.inputs(2)
    assert max_error(model.expected(data), run(content, data)) < 1e-5


def test_xnnpack_gets_all_that_runs_at_an_inference():
    interpreter = make_interpreter(exported("winograd").content("packed"))
    interpreter.allocate_tensors()
    names = [o["op_name"] for o in interpreter._get_ops_details()]
    assert names.count("DELEGATE") == 1
