"""Recurrent layers: loops of built-in operators, in every format."""

import functools

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from keras_lab.binary_weight import weights_of
from tests.tflite_export.support import (
    FORMATS,
    Exported,
    inputs,
    max_error,
    operators,
    part,
    randomize,
    sequential,
)
from tests.tflite_export.test_formats import RUNTIMES, check_no_traps, tolerance
from tflite_export import ValidationError, export_tflite, read_packed
from tflite_export.validate import make_interpreter, run

steps = inputs(6, 6)
CASES = {
    "lstm": sequential(steps, part("BinaryLSTM", 8)),
    "lstm_sequences": sequential(
        inputs(4, 5), part("BinaryLSTM", 7, return_sequences=True)
    ),
    "gru": sequential(steps, part("BinaryGRU", 8)),
    "gru_reset_before": sequential(
        steps, part("BinaryGRU", 8, reset_after=False)
    ),
    "simple_rnn": sequential(steps, part("BinarySimpleRNN", 8)),
    "stacked": sequential(
        steps,
        part("BinaryLSTM", 8, return_sequences=True),
        part("BinaryGRU", 6),
        part("BinaryDense", 5),
    ),
    "bidirectional": sequential(
        steps,
        lambda: layers.Bidirectional(keras_lab.BinaryLSTM(8)),
    ),
    "cells": sequential(
        steps,
        lambda: layers.RNN(
            [keras_lab.BinaryLSTMCell(8), keras_lab.BinaryGRUCell(7)]
        ),
    ),
}
# h = σ(o)·sign(c), or the sign of h where it is multiplied.
SIGN_CASES = {
    "lstm_sign_activation": sequential(
        steps, part("BinaryLSTM", 8, activation="sign")
    ),
    "lstm_sign_state": sequential(
        steps, part("BinaryLSTM", 8, input_quantizer="sign")
    ),
    "gru_sign_state": sequential(
        steps, part("BinaryGRU", 8, input_quantizer="sign")
    ),
    "simple_rnn_all_signs": sequential(
        steps,
        part(
            "BinarySimpleRNN",
            8,
            input_quantizer="sign",
            binarize_inputs=True,
        ),
    ),
}


@functools.cache
def exported(case, batch_size=None):
    make = {**CASES, **SIGN_CASES}[case]
    model = randomize(make())
    for weight in weights_of(model.weights):
        # α·√units is 0.7 then: a state forgets errors. Above 1 it amplifies
        # them from step to step, those of float arithmetic too.
        weight.latent.assign(0.3 * weight.latent.numpy())
        weight.refresh()
    return Exported(model, batch_size)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_outputs_are_those_of_keras_in_every_runtime(case, format):
    model = exported(case)
    data = model.inputs(3)
    expected = model.expected(data)
    for options in RUNTIMES:
        actual = run(model.content(format), data, **options)
        assert max_error(expected, actual) <= tolerance(format), options


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("case", SIGN_CASES)
def test_signs_of_the_state_are_exact_in_every_format(case, format):
    model = exported(case)
    data = model.inputs(3)
    expected = model.expected(data)
    for options in RUNTIMES:
        actual = run(model.content(format), data, **options)
        assert max_error(expected, actual) <= 1e-5, options


@pytest.mark.parametrize("format", FORMATS)
def test_a_fixed_batch_size_may_be_chosen(format):
    model = exported("lstm", batch_size=3)
    data = model.inputs(7)
    actual = run(model.content(format), data)
    assert max_error(model.expected(data), actual) <= tolerance(format)
    interpreter = make_interpreter(model.content(format))
    assert interpreter.get_input_details()[0]["shape"].tolist() == [3, 6, 6]


@pytest.mark.parametrize("format", ["packed", "packed_float", "fast"])
@pytest.mark.parametrize("case", [*CASES, *SIGN_CASES])
def test_signs_and_the_alpha_of_each_gate_are_read_back(case, format):
    model = exported(case)
    trained = {
        weight.latent.path: weight for weight in weights_of(model.model.weights)
    }
    packed = read_packed(model.content(format))
    assert {weight.path for weight in packed} == set(trained)
    for weight in packed:
        latent = trained[weight.path].latent.numpy()
        np.testing.assert_array_equal(
            weight.signs, np.where(latent >= 0, 1, -1)
        )
        np.testing.assert_array_equal(weight.alpha, trained[weight.path].alpha)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("case", [*CASES, *SIGN_CASES])
def test_no_flex_operator_and_no_trap_is_emitted(case, format):
    check_no_traps(exported(case).content(format))


@pytest.mark.parametrize("format", ["packed", "fast"])
def test_inputs_are_projected_outside_of_the_loop(format):
    for case in ("lstm", "gru", "simple_rnn"):
        content = exported(case).content(format)
        names = [name for name, *_ in operators(content)]
        loop = names.index("WHILE")
        assert "FULLY_CONNECTED" in names[:loop]
        assert names[loop:].count("FULLY_CONNECTED") == 1


def test_a_state_that_amplifies_errors_is_refused_in_int8_not_in_float(
    tmp_path,
):
    # α·√units is 6.
    model = randomize(
        keras.Sequential([keras.Input((40, 16)), keras_lab.BinaryLSTM(64)])
    )
    path = tmp_path / "m.tflite"
    for format in ("packed", "fast"):
        with pytest.raises(ValidationError, match="format 'packed_float'"):
            export_tflite(model, path, format)
    for format in ("packed_float", "float"):
        export_tflite(model, path, format)


def test_one_hot_indices_stay_integers(tmp_path):
    model = keras.Sequential(
        [
            keras.Input((5, 1), dtype="int32", name="letters"),
            keras_lab.BinaryLSTM(8, one_hot=11),
        ]
    )
    rng = np.random.default_rng(0)
    letters = rng.integers(0, 11, (4, 5, 1)).astype("int32")
    for format in FORMATS:
        path = tmp_path / f"{format}.tflite"
        report = export_tflite(model, path, format, validation_data=letters)
        assert report.agreement.max_error <= tolerance(format)


def test_a_layer_of_512_cells_is_a_small_fraction_of_the_float_one():
    model = keras.Sequential(
        [keras.Input((32, 512)), keras_lab.BinaryLSTM(512)]
    )
    large = Exported(model)
    for format in ("packed", "packed_float"):
        ratio = len(large.content("float")) / len(large.content(format))
        assert ratio >= 24


@pytest.mark.parametrize("format", ["packed", "packed_float", "fast"])
def test_the_zeros_that_a_loop_begins_with_are_not_stored(format):
    model = keras.Sequential(
        [
            keras.Input((50, 8)),
            keras_lab.BinaryLSTM(64, return_sequences=True),
        ]
    )
    model = Exported(model)
    names = [name for name, *_ in operators(model.content(format))]
    assert "FILL" in names
    zeros = 50 * 64 * 4
    assert len(model.content(format)) < len(model.content("float")) - zeros
    data = model.inputs(1)
    actual = run(model.content(format), data)
    assert max_error(model.expected(data), actual) < 0.02


def test_a_scale_a_gate_is_stored_once_not_for_each_row():
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
