"""Every layer in every format, in every way that the runtime can run it."""

import numpy as np
import pytest

from keras_lab.binary_weight import weights_of
from tests.tflite_export.support import (
    CASES,
    FORMATS,
    SIGN_CASES,
    exported,
    exported_signs,
    max_error,
    operators,
)
from tflite_export import inspect, read_packed
from tflite_export.flatbuffer.model import FlatModel, name_of
from tflite_export.validate import run

FLOAT_TOLERANCE = 1e-5
INT8_TOLERANCE = 0.02
RUNTIMES = [
    {"runtime": "litert"},
    {"runtime": "litert", "threads": 2},
    {"runtime": "litert", "xnnpack": False},
    {"runtime": "litert", "xnnpack": False, "threads": 2},
    {"runtime": "tf"},
    {"runtime": "tf", "threads": 2},
    {"runtime": "tf", "xnnpack": False},
    {"runtime": "tf", "xnnpack": False, "threads": 2},
]


def tolerance(format):
    return FLOAT_TOLERANCE if "float" in format else INT8_TOLERANCE


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_outputs_are_those_of_keras_in_every_runtime(case, format):
    model = exported(case)
    for samples in (1, 7):
        inputs = model.inputs(samples)
        expected = model.expected(inputs)
        for options in RUNTIMES:
            actual = run(model.content(format), inputs, **options)
            error = max_error(expected, actual)
            assert error <= tolerance(format), (samples, options)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("case", SIGN_CASES)
def test_sign_inputs_are_exact_in_every_format_and_runtime(case, format):
    model = exported_signs(case)
    for samples in (1, 7):
        inputs = model.inputs(samples)
        expected = model.expected(inputs)
        for options in RUNTIMES:
            actual = run(model.content(format), inputs, **options)
            assert max_error(expected, actual) <= 1e-5, (samples, options)


@pytest.mark.parametrize("format", ["packed", "packed_float", "fast"])
@pytest.mark.parametrize(
    ("case", "make"),
    [(case, exported) for case in CASES]
    + [(case, exported_signs) for case in SIGN_CASES],
)
def test_signs_and_alpha_are_read_back_to_the_bit(case, make, format):
    model = make(case)
    trained = {
        weight.latent.path: weight for weight in weights_of(model.model.weights)
    }
    packed = read_packed(model.content(format))
    assert {weight.path for weight in packed} == set(trained)
    for weight in packed:
        latent = trained[weight.path].latent.numpy()
        assert weight.shape == weight.signs.shape == latent.shape
        np.testing.assert_array_equal(
            weight.signs, np.where(latent >= 0, 1, -1)
        )
        np.testing.assert_array_equal(weight.alpha, trained[weight.path].alpha)


# All else with INT8 is silently wrong, or an error, in one of the runtimes.
INT8_OPERATORS = {
    "FULLY_CONNECTED",
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    "TRANSPOSE_CONV",
    "DEQUANTIZE",
}
MOVING_OPERATORS = {
    "GATHER",
    "RESHAPE",
    "CONCATENATION",
    "STRIDED_SLICE",
    "WHILE",
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("case", "make"),
    [(case, exported) for case in CASES]
    + [(case, exported_signs) for case in SIGN_CASES],
)
def test_no_trap_of_the_runtime_is_emitted(case, make, format):
    check_no_traps(make(case).content(format))


def check_no_traps(content):
    for name, types, constant, tensors in operators(content):
        assert not name.startswith("CUSTOM") and "FLEX" not in name
        assert "INT2" not in types
        if "INT4" in types:
            assert name == "FULLY_CONNECTED"
            # XNNPACK's kernel wants a scale a channel and even inputs.
            assert tensors[1].shape[1] % 2 == 0
            assert len(tensors[1].quantization.scale) == tensors[1].shape[0]
        if "INT8" in types:
            assert name in INT8_OPERATORS | MOVING_OPERATORS
        if name in INT8_OPERATORS and "INT8" in types:
            scales = tensors[types.index("INT8")].quantization.scale
            assert np.all(scales > 0) and np.all(np.isfinite(scales))
            if name != "FULLY_CONNECTED":
                assert len(scales) > 1 or 1 in tensors[1].shape
            if name == "CONV_2D":
                assert constant[1]
        if name == "CONCATENATION":
            assert all(len(tensor.shape) < 7 for tensor in tensors)
    # What is unpacked in a loop is unpacked at each call.
    for subgraph in FlatModel(content).subgraphs[1:]:
        names = [name_of(tensor) for tensor in subgraph.tensors]
        assert not any(name.endswith("/sign_bits") for name in names)


@pytest.mark.parametrize("case", CASES)
def test_a_packed_weight_takes_a_bit_and_a_float_one_32(case):
    model = exported(case)
    for format in ("packed", "packed_float"):
        for row in inspect(model.content(format)).layers:
            assert row.kind == "binary"
            assert row.bytes == 2 * -(-row.weights // 15)
    for row in inspect(model.content("fast")).layers:
        assert row.bits <= 8
    for row in inspect(model.content("float")).layers:
        assert row.bits == 32
