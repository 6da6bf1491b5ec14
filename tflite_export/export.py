"""`export_tflite`: from a Keras model to a file, stage by stage."""

import dataclasses
import warnings

import keras

import keras_lab
from tflite_export.container import shrink
from tflite_export.convert import convert
from tflite_export.errors import ValidationError
from tflite_export.expanders.tflz import expand
from tflite_export.flatbuffer.model import FlatModel
from tflite_export.formats import (
    SUFFIXES,
    Format,
    OtherWeights,
    is_container,
)
from tflite_export.inputs import check_model, check_numbers
from tflite_export.inspection import inspect
from tflite_export.layers_in_float import write_in_tolerance
from tflite_export.other_backend import export_in_process, is_other_backend
from tflite_export.prepare import (
    as_functional,
    compute_in_float32,
    fixed_batch_size,
    float_layers,
    trained_kernels,
)
from tflite_export.recipe import Recipe
from tflite_export.report import ExportReport
from tflite_export.runtimes import Runtime, check_runtime
from tflite_export.samples import validation_inputs
from tflite_export.streaming import with_states, with_zero_states
from tflite_export.validate import (
    check_agreement,
    check_states,
    default_tolerance,
    reference,
)


def export_tflite(
    model: keras.Model,
    path,
    format: str | None = None,
    *,
    batch_size: int | None = None,
    validation_data=None,
    tolerance: float | None = None,
    other_weights: str = "float32",
    runtime: str | None = None,
) -> ExportReport:
    """Writes a trained model as a `.tflite` file for the stock runtime.

    Before the file appears under its name, it is run in the stock interpreter
    and compared with the model. If something is wrong, an error is raised and
    nothing is written.

    Args:
        model: A built Sequential or functional Keras model. In all formats but
            `"float"` it must have binary layers.
        path: Where to write. An existing file is replaced. A path that ends in
            `.tflite` gets a file that the runtime reads as it is, one that ends
            in `.tflz` a container, which `expand` turns into that file.
        format: `"packed"`: one bit per weight, int8 arithmetic where it is
            faster than float. `"packed_float"`: one bit per weight, float32
            arithmetic. `"fast"`: weights of 4 or 8 bits, int8 arithmetic.
            `"float"`: float32 weights and arithmetic. Defaults to `"fast"` for
            a `.tflz` file and to `"packed"` for a `.tflite` file.
        batch_size: A fixed batch size. Defaults to that of the model's inputs.
            If they leave it open, so does the file, except that a model with
            recurrent layers gets 1.
        validation_data: Samples to compare on: an array, or for several inputs
            a list of arrays or a dict by the names of the inputs. Defaults to
            random numbers.
        tolerance: The largest ‖y' − y‖ / ‖y‖ to accept. Defaults to 0.001 for
            float arithmetic, 0.01 if other weights are float16, and 0.1 for
            int8.
        other_weights: How to store weights that are not binary: `"float32"`,
            `"float16"`, or `"int8"` for matrices in 8 bits and biases in 16.
        runtime: The oldest runtime that the file must run on, such as
            `"tensorflow-2.13"`, `"tflite-runtime-2.14"`, `"litert-1.1"` or
            `"browser"`. What does not exist there is not used; if there is no
            other way, an error says so. For the browser, `batch_size` defaults
            to 1. Defaults to TensorFlow 2.18 and LiteRT 1.1.

    Returns:
        An `ExportReport`.

    Example:

    >>> report = export_tflite(model, "digits.tflite", validation_data=x_test)
    >>> print(report)
    """
    # Check the arguments.
    path = keras_lab.files.check_target("path", path, SUFFIXES)
    format = Format.of(format, path.suffix)
    other_weights = OtherWeights(other_weights)
    runtime = Runtime.of(runtime)
    check_model(model, format)
    check_numbers(batch_size, tolerance)
    if is_other_backend():
        return export_in_process(
            model,
            path=path,
            format=str(format),
            batch_size=batch_size,
            validation_data=validation_data,
            tolerance=tolerance,
            other_weights=str(other_weights),
            runtime=runtime.name,
        )

    # Give stateful layers their state as inputs and outputs.
    given = as_functional(model)
    model = with_states(given)
    validation_data = with_zero_states(given, model, validation_data)

    # Make a copy of plain Keras layers, and compute what the file must compute.
    frozen = keras_lab.freeze(model, strict=False)
    batch_size = fixed_batch_size(frozen, batch_size, runtime.batch_size)
    inputs, data = validation_inputs(frozen, validation_data)
    check_states(given, model, inputs, tolerance)
    compute_in_float32(frozen)
    expected = reference(model, frozen, inputs, data, tolerance)

    # Convert it to float operators, rewrite its binary weights, run the result.
    converted = convert(frozen, batch_size)
    kernels = trained_kernels(model)
    floats = float_layers(frozen, kernels)
    recipe = Recipe(format, kernels, floats, other_weights, runtime)
    if tolerance is None:
        tolerance = default_tolerance(format, other_weights)
    content, agreement, in_float = write_in_tolerance(
        converted, recipe, expected, tolerance
    )
    check_runtime(FlatModel(content), runtime)
    check_agreement(agreement, format, other_weights, tolerance)

    # Report on it, write it.
    stored = content
    if is_container(path.suffix):
        stored = _checked_container(content)
    report = dataclasses.replace(
        inspect(stored),
        format=str(format),
        agreement=agreement,
        in_float=in_float,
    )
    with keras_lab.files.replacing(path) as partial:
        partial.write_bytes(stored)
    if report.not_packed:
        warnings.warn(
            "These binary kernels are stored in 32 bits per weight: "
            f"{', '.join(report.not_packed)}.",
            stacklevel=2,
        )
    return report


def _checked_container(content):
    """A container of the file that expands to the same file."""
    container = shrink(content)
    if expand(container, limit=len(content)) != content:
        raise ValidationError("The container does not expand to the same file.")
    return container
