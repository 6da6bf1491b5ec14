"""The operators that unpack sign bits, once."""

import time

import keras
import numpy as np
import pytest

import keras_lab
from tests.tflite_export.support import Exported, operators
from tflite_export import make_interpreter
from tflite_export.graph.packed_bits import SIGNS_PER_WORD


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


def test_the_tables_take_a_few_kilobytes_per_file(large):
    for format in ("packed", "packed_float"):
        bits = 2 * -(-(2048 * 2048) // SIGNS_PER_WORD)
        assert len(large.content(format)) - bits < 16_000


def test_the_file_has_no_float_weights_left(large):
    for format in ("packed", "packed_float"):
        for _, types, constant, tensors in operators(large.content(format)):
            for type_name, is_constant, tensor in zip(types, constant, tensors):
                if is_constant and type_name == "FLOAT32":
                    assert np.prod(tensor.shape) <= 2 * 2048
