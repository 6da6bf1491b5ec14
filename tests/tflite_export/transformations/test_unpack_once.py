"""Sign bits, and the operators that unpack them."""

import time

import keras
import numpy as np
import pytest

import keras_lab
from tests.tflite_export.support import Exported, operators
from tflite_export.transformations.unpack_once import (
    SIGNS_PER_INDEX,
    pack_signs,
    unpack_signs,
)
from tflite_export.validate import make_interpreter


def random_signs(rng, shape):
    return np.where(rng.normal(size=shape) >= 0, 1, -1).astype(np.int8)


@pytest.mark.parametrize("size", [1, 7, 14, 15, 16, 29, 30, 31, 1000])
def test_the_bits_are_those_that_the_readme_documents(rng, size):
    signs = random_signs(rng, size)
    indices = pack_signs(signs)
    assert indices.dtype == np.int16
    assert len(indices) == -(-size // SIGNS_PER_INDEX)
    for number, sign in enumerate(signs):
        word, bit = divmod(number, SIGNS_PER_INDEX)
        assert (int(indices[word]) >> bit) & 1 == (sign > 0)
    assert np.all(indices >= 0)
    np.testing.assert_array_equal(unpack_signs(indices, signs.shape), signs)


def test_signs_are_packed_in_the_order_of_the_array(rng):
    signs = random_signs(rng, (3, 5, 7))
    np.testing.assert_array_equal(
        pack_signs(signs), pack_signs(np.ascontiguousarray(signs).ravel())
    )
    np.testing.assert_array_equal(
        unpack_signs(pack_signs(signs), signs.shape), signs
    )


@pytest.fixture(scope="module")
def large():
    model = keras.Sequential(
        [keras.Input((2048,)), keras_lab.BinaryDense(2048, use_bias=False)]
    )
    return Exported(model)


def best_time(function, rounds=5):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.parametrize("format", ["packed", "packed_float"])
@pytest.mark.parametrize("runtime", ["litert", "tf"])
def test_weights_are_unpacked_once_not_at_each_inference(
    large, format, runtime
):
    def allocated():
        interpreter = make_interpreter(large.content(format), runtime)
        interpreter.allocate_tensors()
        return interpreter

    load = best_time(allocated)
    interpreter = allocated()
    # Four million weights take milliseconds to unpack.
    assert best_time(interpreter.invoke, rounds=20) < load / 4


def test_xnnpack_gets_none_of_the_operators_that_unpack(large):
    for format in ("packed", "packed_float"):
        interpreter = make_interpreter(large.content(format))
        interpreter.allocate_tensors()
        names = [o["op_name"] for o in interpreter._get_ops_details()]
        assert "DELEGATE" not in names


def test_the_table_costs_a_few_kilobytes_a_file(large):
    for format in ("packed", "packed_float"):
        bits = 2 * -(-(2048 * 2048) // SIGNS_PER_INDEX)
        assert len(large.content(format)) - bits < 16_000


def test_the_file_has_no_float_weights_left(large):
    for format in ("packed", "packed_float"):
        for _, types, constant, tensors in operators(large.content(format)):
            for type_name, is_constant, tensor in zip(types, constant, tensors):
                if is_constant and type_name == "FLOAT32":
                    assert np.prod(tensor.shape) <= 2 * 2048
