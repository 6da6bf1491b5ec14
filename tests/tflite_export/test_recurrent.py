"""Recurrent layers: loops of built-in operators, in every format."""

import functools

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.tflite_export.models import inputs, part, sequential
from tests.tflite_export.support import (
    FORMATS,
    RUNTIMES,
    Exported,
    check_no_traps,
    check_weights_are_read_back,
    max_error,
    randomize,
    representatives,
    tolerance,
)
from tflite_export import ValidationError, export_tflite, make_interpreter, run

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
    for weight in keras_lab.binary_weights(model).values():
        # Then α·√units is 0.7, and a state forgets errors. Above 1 it amplifies
        # them from step to step, even those of float arithmetic.
        weight.latent.assign(0.3 * weight.latent.numpy())
        weight.refresh()
    return Exported(model, batch_size)


def check_outputs(model, format, most_error):
    data = model.inputs(3)
    expected = model.expected(data)
    for options in RUNTIMES:
        actual = run(model.content(format), data, **options)
        assert max_error(expected, actual) <= most_error, options


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "case", representatives(CASES, "lstm", "gru", "bidirectional")
)
def test_outputs_are_those_of_keras_in_every_runtime(case, format):
    check_outputs(exported(case), format, tolerance(format))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("case", representatives(SIGN_CASES, "lstm_sign_state"))
def test_signs_of_the_state_are_exact_in_every_format(case, format):
    check_outputs(exported(case), format, 1e-5)


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
    check_weights_are_read_back(model.model, model.content(format))


@pytest.mark.parametrize("format", FORMATS)
def test_no_flex_operator_and_no_trap_is_emitted(format):
    for case in (*CASES, *SIGN_CASES):
        check_no_traps(exported(case).content(format))


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
