"""Every layer in every format, in every way that the runtimes can run it."""

import pytest

import tflite_export
from tests.tflite_export.models import CASES, SIGN_CASES
from tests.tflite_export.support import (
    FORMATS,
    RUNTIMES,
    check_no_traps,
    check_weights_are_read_back,
    exported,
    exported_signs,
    max_error,
    representatives,
    tolerance,
)
from tflite_export import Format, inspect, run

LAYERS = representatives(
    CASES,
    "dense",
    "dense_folded",
    "rows_folded",
    "conv2d_folded",
    "conv2d_skipping",
    "winograd",
    "depthwise",
    "transpose",
)
SIGN_LAYERS = representatives(SIGN_CASES, "conv2d_same", "network")
BINARY_FORMATS = [format for format in FORMATS if format != "float"]


def check_outputs(model, format, most_error):
    for samples in (1, 7):
        inputs = model.inputs(samples)
        expected = model.expected(inputs)
        for options in RUNTIMES:
            actual = run(model.content(format), inputs, **options)
            error = max_error(expected, actual)
            assert error <= most_error, (samples, options)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("case", LAYERS)
def test_outputs_are_those_of_keras_in_every_runtime(case, format):
    check_outputs(exported(case), format, tolerance(format))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("case", SIGN_LAYERS)
def test_sign_inputs_are_exact_in_every_format_and_runtime(case, format):
    check_outputs(exported_signs(case), format, 1e-5)


@pytest.mark.parametrize("format", BINARY_FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_signs_and_alpha_are_read_back_to_the_bit(case, format):
    model = exported(case)
    check_weights_are_read_back(model.model, model.content(format))


@pytest.mark.parametrize("format", BINARY_FORMATS)
@pytest.mark.parametrize("case", SIGN_CASES)
def test_sign_layers_are_read_back_to_the_bit(case, format):
    model = exported_signs(case)
    check_weights_are_read_back(model.model, model.content(format))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("make", [exported, exported_signs])
def test_no_trap_of_the_runtime_is_emitted(make, format):
    for case in CASES if make is exported else SIGN_CASES:
        check_no_traps(make(case).content(format))


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


def test_a_format_is_its_name_and_an_unknown_name_is_an_error():
    assert tflite_export.Format("fast") is Format.FAST
    assert Format.FAST == "fast" and str(Format.FAST) == "fast"
    with pytest.raises(ValueError, match=r"'packed', .*Received: .*'onebit'"):
        Format("onebit")
