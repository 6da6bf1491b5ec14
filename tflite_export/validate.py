"""Compares models before a file is written: Keras, rebuilt, and exported."""

import keras
import numpy as np

from tflite_export.agreement import Agreement, compare
from tflite_export.errors import ConversionError, ValidationError
from tflite_export.formats import Format, OtherWeights
from tflite_export.interpreter import MOST_SAMPLES, interpreter_class, run
from tflite_export.prepare import (
    as_functional,
    channels_first_note,
    input_names,
    output_names,
)

# The largest ‖y' − y‖ / ‖y‖. Float arithmetic differs in the order of sums,
# int8 arithmetic rounds the inputs of each layer to 8 bits.
# Weights of 16 bits have rounding errors of their own.
FLOAT_TOLERANCE, FLOAT16_TOLERANCE, INT8_TOLERANCE = 1e-3, 1e-2, 0.1
# On how many samples the rebuilt model is compared with the given one, and how
# large the relative difference may be: in half precision it is not zero.
FEW_SAMPLES, MOST_DIFFERENCE = 8, 0.05


def check_rebuilt(model: keras.Model, rebuilt: keras.Model, inputs) -> None:
    """Raises ConversionError if a rebuilt model computes something else."""
    few = {name: x[:FEW_SAMPLES] for name, x in inputs.items()}
    given = predict(as_functional(model), few)
    for y, other in zip(given.values(), predict(rebuilt, few).values()):
        y, other = y.astype("float64"), other.astype("float64")
        difference, size = np.linalg.norm(other - y), np.linalg.norm(y)
        if difference > MOST_DIFFERENCE * size:
            raise ConversionError(
                f"Model '{model.name}' computes something else when it is "
                "rebuilt from its layers: one of them has a state that is "
                "neither in its config nor in its weights."
            )


def expected_outputs(model: keras.Model, inputs: dict, origin: str) -> dict:
    """The outputs of a model. Raises ValidationError if one is not finite."""
    expected = predict(model, inputs)
    if not all(np.all(np.isfinite(y)) for y in expected.values()):
        raise ValidationError(
            f"Model '{model.name}' itself has a NaN or an infinite number in "
            f"its outputs, for {origin} inputs."
        )
    return expected


def default_tolerance(format: Format, other_weights: OtherWeights) -> float:
    """The largest ‖y' − y‖ / ‖y‖ to accept unless the user says otherwise."""
    if not format.is_exact or other_weights == OtherWeights.INT8:
        return INT8_TOLERANCE
    if other_weights == OtherWeights.FLOAT16:
        return FLOAT16_TOLERANCE
    return FLOAT_TOLERANCE


def validate(
    content: bytes,
    inputs: dict,
    expected: dict,
    origin: str,
    format: Format,
    tolerance: float,
) -> Agreement:
    """Runs a file and compares its outputs with the expected ones.

    Raises ValidationError if the runtime cannot run the file, if an output is
    not finite, or if the relative error is larger than the tolerance. `origin`
    of the inputs is `"given"` or `"random"`.
    """
    _, runtime = interpreter_class()
    try:
        actual = run(content, inputs)
    except (RuntimeError, ValueError) as error:
        raise ValidationError(
            f"The runtime {runtime} cannot run the exported model: {error}"
        ) from error
    if not all(np.all(np.isfinite(y)) for y in actual.values()):
        raise ValidationError(
            "The exported model has a NaN or an infinite number in its "
            f"outputs, in {runtime}, for {origin} inputs."
        )
    agreement = compare(expected, actual, runtime, origin)
    _check_agreement(agreement, format, tolerance)
    return agreement


def predict(model: keras.Model, inputs: dict) -> dict:
    """The outputs of a functional model by name."""
    import tensorflow as tf

    arrays, batches = [inputs[name] for name in input_names(model)], []
    for start in range(0, len(arrays[0]), MOST_SAMPLES):
        batch = [array[start : start + MOST_SAMPLES] for array in arrays]
        batch = keras.tree.pack_sequence_as(model.input, batch)
        try:
            outputs = model(batch, training=False)
        except tf.errors.OpError as error:
            raise ConversionError(
                f"TensorFlow cannot run model '{model.name}' on this machine."
                f"{channels_first_note(model)} {error}"
            ) from error
        batches.append(keras.tree.flatten(outputs))
    return {
        name: np.concatenate([np.asarray(part) for part in parts])
        for name, parts in zip(output_names(model), zip(*batches))
    }


def _check_agreement(agreement, format, tolerance):
    if agreement.relative_error <= tolerance:
        return
    advice = "Check it on real inputs with `validation_data`, or "
    if format.is_exact:
        advice += "accept the error with a larger `tolerance`"
    else:
        advice += "choose the format 'packed_float'"
    raise ValidationError(
        f"The exported model disagrees with Keras on {agreement.samples} "
        f"{agreement.data} inputs: the relative error is "
        f"{agreement.relative_error:.3g}, the tolerance {tolerance:g}. "
        f"{advice}. Received: format='{format}'"
    )
