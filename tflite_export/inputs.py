"""The arguments of `export_tflite`, checked before any work is done."""

import numbers

import keras
import numpy as np

from keras_lab.binary_weight import weights_of
from keras_lab.checks import nothing_binary
from keras_lab.convert import rebuild as rebuilding
from tflite_export.errors import (
    ConversionError,
    NothingBinaryError,
    ValidationError,
)
from tflite_export.prepare import input_names, layers_of

__all__ = [
    "check_batch_size",
    "check_model",
    "check_tolerance",
    "validation_inputs",
]

# Random inputs: how many, and the length of an axis that is left open.
RANDOM_SAMPLES, RANDOM_SIZE = 8, 16


def check_model(model) -> None:
    """Raises unless a model is built, binary, and of layers that TFLite has."""
    rebuilding.check_model(model, "export_tflite")
    if not rebuilding.is_made_of_layers(model):
        raise ConversionError(
            f"Model '{model.name}' has a `call` of its own: only Sequential "
            "and functional models can be exported. Received: a model of type "
            f"{type(model).__name__}"
        )
    if not any(map(_may_be_binary, model.weights)):
        raise NothingBinaryError(nothing_binary(model))
    for weight in weights_of(model.weights):
        for variable in (weight.latent, weight.alpha):
            if not np.all(np.isfinite(variable.numpy())):
                raise ValidationError(
                    f"'{variable.path}' has a NaN or an infinite number in it."
                )
    for layer in layers_of(model):
        _check_layer(layer)


def _may_be_binary(weight):
    """Whether a weight is binary, or could be a frozen kernel ŵ.

    A frozen kernel has one magnitude, or one for each index of an axis.
    """
    if weights_of([weight]):
        return True
    if len(weight.shape) < 2:
        return False
    return np.unique(np.abs(weight.numpy())).size <= max(weight.shape)


def _check_layer(layer):
    problem = None
    if isinstance(layer, keras.layers.RNN) and layer.stateful:
        problem = (
            "is stateful, and a .tflite file keeps no state from call to "
            "call. Build it with stateful=False; with return_state=True and "
            "an initial state as an input, the caller can keep it"
        )
    elif isinstance(layer, keras.layers.Conv3D) and layer.groups > 1:
        problem = f"has groups={layer.groups}, which CONV_3D does not have"
    if problem:
        raise ConversionError(f"Layer '{layer.name}' {problem}.")


def check_batch_size(batch_size) -> None:
    valid = isinstance(batch_size, (int, np.integer)) and batch_size >= 1
    if batch_size is not None and (isinstance(batch_size, bool) or not valid):
        raise ValueError(
            "`batch_size` must be None or a positive integer. "
            f"Received: batch_size={batch_size!r}"
        )


def check_tolerance(tolerance) -> None:
    valid = isinstance(tolerance, numbers.Real) and tolerance >= 0
    if tolerance is not None and (isinstance(tolerance, bool) or not valid):
        raise ValueError(
            "`tolerance` must be None or a number of at least 0. "
            f"Received: tolerance={tolerance!r}"
        )


def validation_inputs(model: keras.Model, data) -> tuple[dict, str]:
    """Arrays by the name of the input, and where they come from.

    Args:
        model: A functional model.
        data: What the user gave; `None` for random numbers.
    """
    names = input_names(model)
    if data is None:
        rng = np.random.default_rng(0)
        arrays = [_random_input(rng, tensor) for tensor in model.inputs]
        return dict(zip(names, arrays)), "random"
    arrays = [_as_array(part) for part in _in_order(model, names, data)]
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


def _in_order(model, names, data):
    """The data of each input, in the order of `model.inputs`.

    A dict has them by name, whatever the order in which Keras would flatten it.
    """
    if isinstance(data, dict):
        if set(data) != set(names):
            raise ValueError(
                f"`validation_data` must have the keys {sorted(names)}. "
                f"Received: {sorted(map(str, data))}"
            )
        return [data[name] for name in names]
    if len(names) > 1 or (
        isinstance(data, (list, tuple))
        and len(data) == 1
        and np.ndim(data[0]) == len(model.inputs[0].shape)
    ):
        return list(data)
    return [data]


def _as_array(data):
    try:
        array = np.asarray(data)
    except ValueError:
        array = np.empty(0, object)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            "`validation_data` must be an array of numbers for each input. "
            f"Received: {data!r:.60} of type {type(data).__name__}"
        )
    return array


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
