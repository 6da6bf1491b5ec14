"""`export_tflite`: the pipeline from a Keras model to a file."""

import warnings

import keras
import numpy as np

import keras_lab
from keras_lab.binary_weight import weights_of
from keras_lab.files import check_target, replacing
from tflite_export.convert import convert
from tflite_export.errors import ConversionError, ValidationError
from tflite_export.find import Kernel
from tflite_export.inputs import (
    check_batch_size,
    check_model,
    check_tolerance,
    validation_inputs,
)
from tflite_export.plan import Format
from tflite_export.prepare import (
    as_functional,
    channels_first_note,
    compute_in_float32,
    fixed_batch_size,
    input_names,
    output_names,
)
from tflite_export.report import ExportReport, describe
from tflite_export.rewrite import rewrite
from tflite_export.validate import (
    MOST_SAMPLES,
    agreement,
    interpreter_class,
    run,
)

__all__ = ["export_tflite"]

SUFFIX = ".tflite"
# ‖y' − y‖ / ‖y‖. Float arithmetic differs in the order of summation; int8
# arithmetic rounds the activations of each layer to 8 bits.
FLOAT_TOLERANCE, INT8_TOLERANCE = 1e-3, 0.1
# On how many samples the frozen model is compared with the given one, and how
# large the relative difference may be: in half precision, not zero.
FEW_SAMPLES, MOST_DIFFERENCE = 8, 0.05


def export_tflite(
    model: keras.Model,
    path,
    format: str = "packed",
    *,
    batch_size: int | None = None,
    validation_data=None,
    tolerance: float | None = None,
) -> ExportReport:
    """Writes a trained model as a `.tflite` file for the stock runtime.

    The file is run once, in the stock interpreter, and compared with the model
    before it appears under its name.

    Args:
        model: A built Keras model with binary layers.
        path: Where to write, ending in `.tflite`. A file that is there already
            is replaced.
        format: `"packed"`, 1 bit a weight, int8 arithmetic, but float for
            convolutions and dense layers on many rows; `"packed_float"`, 1 bit
            a weight, float arithmetic; `"fast"`, native low-bit constants, int8
            arithmetic; `"float"`, float32.
        batch_size: A fixed batch size. `None` is the one of the model's inputs;
            where they leave it open any, but 1 for a model with recurrent
            layers, which cannot leave it open.
        validation_data: Inputs to compare with Keras on: an array, or for
            several inputs a list of arrays, or a dict by the inputs' names.
            Defaults to random numbers.
        tolerance: The largest ‖y' − y‖ / ‖y‖ to accept. Defaults to 0.001 for
            float arithmetic and 0.1 for int8.

    Returns:
        An `ExportReport`.

    Example:

    >>> report = export_tflite(model, "digits.tflite", validation_data=x_test)
    >>> print(report)
    """
    path = check_target("path", path, (SUFFIX,))
    format = check_format(format)
    check_model(model)
    check_batch_size(batch_size)
    check_tolerance(tolerance)
    frozen = as_functional(keras_lab.freeze(model, strict=False))
    batch_size = fixed_batch_size(frozen, batch_size)
    inputs, origin = validation_inputs(frozen, validation_data)
    _check_frozen(model, frozen, inputs)
    compute_in_float32(frozen)
    expected = _expected(frozen, inputs, origin)

    content = rewrite(
        convert(frozen, batch_size), format, trained_kernels(model)
    )
    result = _compare(expected, content, inputs, origin)
    _check_agreement(result, format, tolerance)
    report = describe(content, str(format), result)
    with replacing(path) as partial:
        partial.write_bytes(content)
    if report.not_packed:
        warnings.warn(
            "These binary kernels are stored in 32 bits a weight: "
            f"{', '.join(report.not_packed)}.",
            stacklevel=2,
        )
    return report


def trained_kernels(model: keras.Model) -> list[Kernel]:
    """The binary kernels of a model of keras_lab."""
    return [
        Kernel(
            weight.latent.path,
            np.where(weight.latent.numpy() >= 0, np.int8(1), np.int8(-1)),
            weight.alpha.numpy().astype(np.float32),
        )
        for weight in weights_of(model.weights)
    ]


def check_format(format) -> Format:
    """The format that a name means."""
    try:
        return Format(format)
    except ValueError:
        names = ", ".join(repr(str(name)) for name in Format)
        raise ValueError(
            f"`format` must be one of {names}. Received: format={format!r}"
        ) from None


def _check_frozen(model, frozen, inputs):
    """Whether the frozen model computes what the given one does."""
    few = {name: x[:FEW_SAMPLES] for name, x in inputs.items()}
    given = predict(as_functional(model), few)
    for y, other in zip(given.values(), predict(frozen, few).values()):
        y, other = y.astype("float64"), other.astype("float64")
        difference, size = np.linalg.norm(other - y), np.linalg.norm(y)
        if difference > MOST_DIFFERENCE * size:
            raise ConversionError(
                f"Model '{model.name}' computes something else when it is "
                "rebuilt of its layers: one of them has a state that neither "
                "its config nor its weights hold."
            )


def _expected(model, inputs, origin):
    expected = predict(model, inputs)
    if not all(np.all(np.isfinite(y)) for y in expected.values()):
        raise ValidationError(
            f"Model '{model.name}' itself has a NaN or an infinite number in "
            f"its outputs, for {origin} inputs."
        )
    return expected


def _compare(expected, content, inputs, origin):
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
    return agreement(expected, actual, runtime, origin)


def predict(model: keras.Model, inputs: dict) -> dict:
    """A functional model's outputs by name."""
    import tensorflow as tf

    batches = []
    for start in range(0, len(next(iter(inputs.values()))), MOST_SAMPLES):
        batch = [
            inputs[name][start : start + MOST_SAMPLES]
            for name in input_names(model)
        ]
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


def _check_agreement(result, format, tolerance):
    if tolerance is None:
        tolerance = FLOAT_TOLERANCE if format.is_exact else INT8_TOLERANCE
    if result.relative_error <= tolerance:
        return
    advice = "Check it on real inputs with `validation_data`, or "
    if format.is_exact:
        advice += "accept the error with a larger `tolerance`"
    else:
        advice += "choose the format 'packed_float'"
    raise ValidationError(
        f"The exported model disagrees with Keras on {result.samples} "
        f"{result.data} inputs: the relative error is "
        f"{result.relative_error:.3g}, the tolerance {tolerance:g}. {advice}. "
        f"Received: format='{format}'"
    )
