"""`export_tflite`: from a Keras model to a file, stage by stage."""

import warnings

import keras

import keras_lab
from tflite_export.container import shrink
from tflite_export.convert import convert
from tflite_export.errors import ValidationError
from tflite_export.expanders.tflz import expand
from tflite_export.formats import CONTAINER_SUFFIX, SUFFIXES, Format
from tflite_export.inputs import (
    check_model,
    check_numbers,
    validation_inputs,
)
from tflite_export.other_backend import export_in_process, is_other_backend
from tflite_export.prepare import (
    as_functional,
    compute_in_float32,
    fixed_batch_size,
    trained_kernels,
)
from tflite_export.report import ExportReport, describe
from tflite_export.rewrite import rewrite
from tflite_export.validate import check_rebuilt, expected_outputs, validate


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

    Before the file appears under its name, it is run in the stock interpreter
    and compared with the model. If something is wrong, an error is raised and
    nothing is written.

    Args:
        model: A built Sequential or functional Keras model with binary layers.
        path: Where to write. An existing file is replaced. A path that ends in
            `.tflite` gets a file that the runtime reads as it is, one that ends
            in `.tflz` a container, which `expand` turns into that file.
        format: `"packed"`: one bit per weight, int8 arithmetic where it is
            faster than float. `"packed_float"`: one bit per weight, float32
            arithmetic. `"fast"`: weights of 4 or 8 bits, int8 arithmetic.
            `"float"`: float32 weights and arithmetic.
        batch_size: A fixed batch size. Defaults to that of the model's inputs.
            If they leave it open, so does the file, except that a model with
            recurrent layers gets 1.
        validation_data: Samples to compare on: an array, or for several inputs
            a list of arrays or a dict by the names of the inputs. Defaults to
            random numbers.
        tolerance: The largest ‖y' − y‖ / ‖y‖ to accept. Defaults to 0.001 for
            float arithmetic and 0.1 for int8.

    Returns:
        An `ExportReport`.

    Example:

    >>> report = export_tflite(model, "digits.tflite", validation_data=x_test)
    >>> print(report)
    """
    # Check the arguments.
    path = keras_lab.files.check_target("path", path, SUFFIXES)
    format = Format(format)
    check_model(model)
    check_numbers(batch_size, tolerance)
    if is_other_backend():
        options = {
            "batch_size": batch_size,
            "validation_data": validation_data,
            "tolerance": tolerance,
        }
        return export_in_process(model, path, str(format), options)

    # Prepare the model, and compute what the file must compute.
    frozen = as_functional(keras_lab.freeze(model, strict=False))
    batch_size = fixed_batch_size(frozen, batch_size)
    inputs, origin = validation_inputs(frozen, validation_data)
    check_rebuilt(model, frozen, inputs)
    compute_in_float32(frozen)
    expected = expected_outputs(frozen, inputs, origin)

    # Convert it to float operators, then rewrite its binary weights.
    converted = convert(frozen, batch_size)
    content = rewrite(converted, format, trained_kernels(model))

    # Run the result, describe it, write it.
    agreement = validate(content, inputs, expected, origin, format, tolerance)
    stored = content
    if path.suffix.lower() == CONTAINER_SUFFIX:
        stored = _shrink(content)
    report = describe(content, len(stored), str(format), agreement)
    with keras_lab.files.replacing(path) as partial:
        partial.write_bytes(stored)
    if report.not_packed:
        warnings.warn(
            "These binary kernels are stored in 32 bits per weight: "
            f"{', '.join(report.not_packed)}.",
            stacklevel=2,
        )
    return report


def _shrink(content):
    container = shrink(content)
    if expand(container, limit=len(content)) != content:
        raise ValidationError("The container does not expand to the same file.")
    return container
