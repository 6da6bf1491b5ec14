"""Every layer in every format, in every way that the runtimes can run it."""

import numpy as np
import pytest

from tests.tflite_export.models import CASES
from tests.tflite_export.support import (
    BINARY_FORMATS,
    FORMATS,
    RUNTIMES,
    exported,
    mostly_slow,
    operators,
    tolerance,
)
from tflite_export import inspect
from tflite_export.flatbuffer.model import FlatModel, name_of
from tflite_export.graph.weights import ALWAYS_PER_CHANNEL

# The other cases are slow. These go through every transformation.
REPRESENTATIVES = """
    dense_folded dense_after_norm dense_nested_after_norm dense_of_integers
    rows_per_channel conv2d_skipping winograd conv3d depthwise transpose
    sign_network lstm_sequences lstm_one_hot gru lstm_sign_state
""".split()


def every_file(formats):
    cases = pytest.mark.parametrize("case", mostly_slow(CASES, REPRESENTATIVES))
    return lambda test: cases(pytest.mark.parametrize("format", formats)(test))


@every_file(FORMATS)
def test_outputs_are_those_of_keras_in_every_runtime(case, format):
    for samples, threads in ((1, 1), (7, 2)):
        for options in RUNTIMES:
            model = exported(case)
            error = model.error(format, samples, threads=threads, **options)
            assert error <= tolerance(format, case), (samples, options)


@every_file(BINARY_FORMATS)
def test_signs_and_alpha_are_read_back_to_the_bit(case, format):
    exported(case).check_read_back(format)


@every_file(FORMATS)
def test_a_weight_takes_the_bits_of_its_format(case, format):
    for row in inspect(exported(case).content(format)).layers:
        assert row.kind == "binary"
        if format == "float":
            assert row.bits == 32
        elif format == "fast":
            assert row.bits <= 8
        else:
            assert row.bytes == 2 * -(-row.weights // 15)


# Other operators with INT8 inputs fail, or are silently wrong, in one runtime.
INT8_PRODUCTS = {"FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D"}
INT8_PRODUCTS |= {"TRANSPOSE_CONV", "DEQUANTIZE"}
INT8_MOVES = {"GATHER", "RESHAPE", "CONCATENATION", "STRIDED_SLICE", "WHILE"}


@every_file(FORMATS)
def test_the_file_has_nothing_that_a_runtime_gets_wrong(case, format):
    content = exported(case).content(format)
    for name, types, constant, tensors in operators(content):
        assert not name.startswith("CUSTOM") and "FLEX" not in name
        # With it the converter is kept from folding a scale into a kernel.
        assert name != "MAXIMUM"
        assert "INT2" not in types
        if "INT4" in types:
            assert name == "FULLY_CONNECTED"
            # XNNPACK's kernel takes a scale per channel and even inputs.
            assert tensors[1].shape[1] % 2 == 0
            assert len(tensors[1].quantization.scale) == tensors[1].shape[0]
        if "INT8" in types:
            assert name in INT8_PRODUCTS | INT8_MOVES
        if name in INT8_PRODUCTS and "INT8" in types:
            scales = tensors[types.index("INT8")].quantization.scale
            assert np.all(scales > 0) and np.all(np.isfinite(scales))
            if name in ALWAYS_PER_CHANNEL:
                assert len(scales) > 1 or 1 in tensors[1].shape
            else:
                # Older runtimes return zeros if several scales are all equal.
                assert len(scales) == 1 or np.unique(scales).size > 1
            if name == "CONV_2D":
                assert constant[1]
        if name == "CONCATENATION":
            assert all(len(tensor.shape) < 7 for tensor in tensors)
    # What is unpacked in a loop is unpacked in each call.
    for subgraph in FlatModel(content).subgraphs[1:]:
        names = [name_of(tensor) for tensor in subgraph.tensors]
        assert not any(name.endswith("/sign_bits") for name in names)
