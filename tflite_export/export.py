"""`export_tflite`: the pipeline from a Keras model to a file."""

import os
import warnings
from pathlib import Path

import keras
import numpy as np

import keras_lab
from keras_lab.binary_weight import binary_weights
from tflite_export.convert import convert
from tflite_export.errors import NothingBinaryError, ValidationError
from tflite_export.find import Kernel
from tflite_export.plan import Format
from tflite_export.prepare import (
    as_functional,
    compute_in_float32,
    fixed_batch_size,
    input_names,
    output_names,
)
from tflite_export.report import ExportReport, describe
from tflite_export.rewrite import rewrite
from tflite_export.validate import agreement, interpreter_class, run

__all__ = ["export_tflite"]

SUFFIX = ".tflite"
# Random inputs: how many, and the length of an axis that is left open.
RANDOM_SAMPLES, RANDOM_SIZE = 8, 16
BATCH_SIZE = 256
# ‖y' − y‖ / ‖y‖. Float arithmetic differs in the order of summation; int8
# arithmetic rounds the activations of each layer to 8 bits.
TOLERANCES = {True: 1e-3, False: 0.1}


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
        format: `"packed"`, 1 bit a weight, int8 arithmetic; `"packed_float"`,
            1 bit a weight, float arithmetic; `"fast"`, native low-bit
            constants, int8 arithmetic; `"float"`, float32.
        batch_size: A fixed batch size. `None` is any batch size, and 1 for a
            model with recurrent layers, which cannot leave it open.
        validation_data: Inputs to compare with Keras on: an array, or for
            several inputs a list or a dict of arrays, as the model takes them.
            Defaults to random numbers.
        tolerance: The largest ‖y' − y‖ / ‖y‖ to accept. Defaults to 0.001 for
            float arithmetic and 0.1 for int8.

    Returns:
        An `ExportReport`.

    Example:

    >>> report = export_tflite(model, "digits.tflite", validation_data=x_test)
    >>> print(report)
    """
    path = check_target(path)
    format = check_format(format)
    _check_model(model)
    _check_batch_size(batch_size)
    frozen = as_functional(keras_lab.freeze(model, strict=False))
    compute_in_float32(frozen)
    batch_size = fixed_batch_size(frozen, batch_size)
    inputs, origin = _validation_inputs(frozen, validation_data)

    content = convert(frozen, batch_size)
    content = rewrite(content, format, trained_kernels(model))
    result = _compare(frozen, content, inputs, origin)
    _check_agreement(result, format, tolerance)
    report = describe(content, str(format), result)
    write_atomically(path, content)
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
        for weight in binary_weights(model.weights)
    ]


def check_target(path) -> Path:
    """The path of a file that can be written."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            f"`path` must be a path. Received: path={path!r} of type "
            f"{type(path).__name__}"
        )
    path = Path(path)
    problem = None
    if path.suffix != SUFFIX:
        problem = f"must end in {SUFFIX}"
    elif path.is_dir():
        problem = "is a directory"
    elif not path.parent.is_dir():
        problem = "is in a directory that does not exist"
    elif not os.access(path.parent, os.W_OK):
        problem = "is in a directory without write access"
    if problem:
        raise ValueError(f"`path` {problem}. Received: path='{path}'")
    return path


def check_format(format) -> Format:
    """The format that a name means."""
    try:
        return Format(format)
    except ValueError:
        names = ", ".join(repr(str(name)) for name in Format)
        raise ValueError(
            f"`format` must be one of {names}. Received: format={format!r}"
        ) from None


def _check_model(model):
    if not isinstance(model, keras.Model):
        raise TypeError(
            "`model` must be a Keras model. "
            f"Received: model={model!r} of type {type(model).__name__}"
        )
    if not model.built:
        raise ValueError(
            f"Model '{model.name}' has no weights yet: give it a "
            "`keras.Input`, build it, or call it on data first."
        )
    if not any(map(_may_be_binary, model.weights)):
        raise NothingBinaryError(
            f"Model '{model.name}' has no binary weights. Build it of the "
            "layers of keras_lab, such as `keras_lab.BinaryDense`."
        )


def _may_be_binary(weight):
    if binary_weights([weight]):
        return True
    if len(weight.shape) < 2:
        return False
    return np.unique(np.abs(weight.numpy())).size <= max(weight.shape)


def _check_batch_size(batch_size):
    valid = isinstance(batch_size, (int, np.integer)) and batch_size >= 1
    if batch_size is not None and (isinstance(batch_size, bool) or not valid):
        raise ValueError(
            "`batch_size` must be None or a positive integer. "
            f"Received: batch_size={batch_size!r}"
        )


def _validation_inputs(model, data):
    """Arrays by the name of the input, and where they come from."""
    names = input_names(model)
    if data is None:
        rng = np.random.default_rng(0)
        arrays = [_random_input(rng, tensor) for tensor in model.inputs]
        return dict(zip(names, arrays)), "random"
    arrays = [np.asarray(array) for array in keras.tree.flatten(data)]
    received = [array.shape for array in arrays]
    expected = [tuple(tensor.shape) for tensor in model.inputs]
    if (
        len(received) != len(expected)
        or not all(map(_fits, received, expected))
        or len({shape[0] for shape in received}) != 1
        or received[0][0] == 0
    ):
        raise ValueError(
            f"`validation_data` must have the shapes {expected}. "
            f"Received: {received}"
        )
    arrays = [
        array.astype(tensor.dtype)
        for array, tensor in zip(arrays, model.inputs)
    ]
    if not all(np.all(np.isfinite(array)) for array in arrays):
        raise ValueError("`validation_data` has a NaN or an infinite number.")
    return dict(zip(names, arrays)), "given"


def _random_input(rng, tensor):
    shape = [
        RANDOM_SAMPLES,
        *(size or RANDOM_SIZE for size in tensor.shape[1:]),
    ]
    if keras.backend.is_float_dtype(tensor.dtype):
        return rng.normal(size=shape).astype(tensor.dtype)
    return rng.integers(0, 2, shape).astype(tensor.dtype)


def _fits(received, expected):
    return len(received) == len(expected) and all(
        size in (None, received[axis])
        for axis, size in enumerate(expected)
        if axis > 0
    )


def _compare(model, content, inputs, origin):
    expected = predict(model, inputs)
    if not all(np.all(np.isfinite(y)) for y in expected.values()):
        raise ValidationError(
            f"Model '{model.name}' itself has a NaN or an infinite number in "
            f"its outputs, for {origin} inputs."
        )
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
    arrays = [inputs[name] for name in input_names(model)]
    samples = len(arrays[0])
    batches = []
    for start in range(0, samples, BATCH_SIZE):
        batch = [array[start : start + BATCH_SIZE] for array in arrays]
        batch = keras.tree.pack_sequence_as(model.input, batch)
        batches.append(keras.tree.flatten(model(batch, training=False)))
    return {
        name: np.concatenate([np.asarray(part) for part in parts])
        for name, parts in zip(output_names(model), zip(*batches))
    }


def _check_agreement(result, format, tolerance):
    if tolerance is None:
        tolerance = TOLERANCES[format.is_exact]
    if not result.relative_error <= tolerance:
        raise ValidationError(
            "The exported model disagrees with Keras on "
            f"{result.samples} {result.data} inputs: the relative error is "
            f"{result.relative_error:.3g}, the tolerance {tolerance:g}. "
            "Check it on real inputs with `validation_data`, or choose the "
            f"format 'packed_float'. Received: format='{format}'"
        )


def write_atomically(path: Path, content: bytes) -> None:
    """Leaves the whole file or what was there before, never half a file."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
