"""Recurrent layers: what stands in front of a loop, and what a loop gets."""

import keras
import pytest

import keras_lab
from tests.tflite_export.models import inputs, part, sequential
from tests.tflite_export.support import (
    Exported,
    max_error,
    names_of,
    operators,
    randomize,
)
from tflite_export import run


@pytest.mark.parametrize("format", ["packed", "fast"])
@pytest.mark.parametrize("layer", ["BinaryLSTM", "BinaryGRU"])
def test_inputs_are_projected_outside_of_the_loop(layer, format):
    model = Exported(sequential(inputs(6, 6), part(layer, 8))())
    names = names_of(model.content(format))
    loop = names.index("WHILE")
    assert "FULLY_CONNECTED" in names[:loop]
    assert names[loop:].count("FULLY_CONNECTED") == 1


@pytest.mark.parametrize("format", ["packed", "packed_float", "fast"])
def test_the_zeros_that_a_loop_begins_with_are_not_stored(format):
    model = keras.Sequential(
        [
            keras.Input((50, 8)),
            keras_lab.BinaryLSTM(64, return_sequences=True),
        ]
    )
    model = Exported(model)
    assert "FILL" in names_of(model.content(format))
    zeros = 50 * 64 * 4
    assert len(model.content(format)) < len(model.content("float")) - zeros
    data = model.inputs(1)
    actual = run(model.content(format), data)
    assert max_error(model.expected(data), actual) < 0.02


def test_a_scale_per_gate_is_stored_once_and_not_for_each_row():
    model = keras.Sequential([keras.Input((6, 64)), keras_lab.BinaryLSTM(256)])
    model = Exported(randomize(model))
    content = model.content("packed")
    for _, types, _, tensors in operators(content):
        for type_name, tensor in zip(types, tensors):
            if type_name == "INT8" and tensor.quantization is not None:
                assert len(tensor.quantization.scale) == 1
    bits = 2 * sum(-(-n * 4 * 256 // 15) for n in (64, 256))
    # The bias, and the rest.
    assert len(content) < bits + 4 * 4 * 256 + 24_000
