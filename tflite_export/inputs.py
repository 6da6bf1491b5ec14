"""Checks the arguments of `export_tflite` before any work is done."""

import numbers
import re

import keras
import numpy as np

import keras_lab
from tflite_export.errors import (
    ConversionError,
    NothingBinaryError,
    ValidationError,
)
from tflite_export.flatbuffer.schema import NUMPY_TYPES
from tflite_export.formats import Format
from tflite_export.prepare import as_functional, input_names, output_names

# A name that TensorFlow takes anywhere. It takes others in some places.
NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.>-]*")
# Modes of `model.quantize` that the converter does not know.
CANNOT_CONVERT = ("int8", "float8")


def check_model(model, format: Format) -> None:
    """Raises an error if it is clear that a model cannot be exported."""
    if not isinstance(model, keras.Model):
        raise TypeError(
            "`export_tflite` needs a Keras model. "
            f"Received: model={model!r} of type {type(model).__name__}"
        )
    keras_lab.check_built(model)
    if not keras_lab.is_functional(model):
        raise ConversionError(
            f"Model '{model.name}' has its own `call`: only Sequential and "
            "functional models can be exported. Received: a model of type "
            f"{type(model).__name__}"
        )
    _check_weights(model, format)
    _check_name("Model", model)
    for layer in keras_lab.walk(model).values():
        _check_layer(layer)
    _check_inputs_and_outputs(model)


def _check_weights(model, format):
    weights = keras_lab.binary_weights(model)
    if (
        not weights
        and format != Format.FLOAT
        and not any(map(_may_be_binary, model.weights))
    ):
        raise NothingBinaryError(
            f"Model '{model.name}' has no binary weights. Build it with layers "
            "of keras_lab such as `keras_lab.BinaryDense`, or export it in the "
            f"format 'float'. Received: format='{format}'"
        )
    for weight in weights.values():
        for variable in (weight.latent, weight.alpha):
            if not np.all(np.isfinite(variable.numpy())):
                raise ValidationError(
                    f"'{variable.path}' must be finite. Received: a weight "
                    "with a NaN or an infinite number in it"
                )
        weight.check_alpha()


def _may_be_binary(weight):
    """Whether a weight could be a frozen kernel ŵ.

    It then has one magnitude, or one for each index of an axis.
    """
    if len(weight.shape) < 2:
        return False
    return np.unique(np.abs(weight.numpy())).size <= max(weight.shape)


def _check_layer(layer):
    if not isinstance(layer, keras.layers.InputLayer):
        _check_name("Layer", layer)
    mode = layer.dtype_policy.quantization_mode
    if mode in CANNOT_CONVERT:
        raise ConversionError(
            f"Layer '{layer.name}' was quantized by `quantize`, which the "
            "TFLite converter does not take. Export the model as it was before "
            f"`model.quantize`. Received: the quantization mode '{mode}'"
        )
    if isinstance(layer, keras.layers.Conv3D) and layer.groups > 1:
        raise ConversionError(
            f"Layer '{layer.name}' cannot be exported: the operator CONV_3D "
            f"has no groups. Received: groups={layer.groups}"
        )


def _check_name(what, layer):
    if not NAME.fullmatch(layer.name):
        raise ConversionError(
            f"{what} '{layer.name}' has a name that TensorFlow refuses. "
            "A name begins with a letter or a digit, and has only A-Z, a-z, "
            "0-9 and the characters _ . > - in it. Give it another `name`. "
            f"Received: name={layer.name!r}"
        )


def _check_inputs_and_outputs(model):
    model = as_functional(model)
    for name, tensor in zip(input_names(model), model.inputs):
        if tensor.dtype.upper() not in NUMPY_TYPES:
            raise ConversionError(
                f"Input '{name}' must have a type that NumPy and the stock "
                "runtime both have. Give the model numbers, and look up texts "
                f"before it. Received: dtype='{tensor.dtype}'"
            )
    sizes = {tensor.shape[0] for tensor in model.inputs if tensor.shape}
    outputs = keras.tree.flatten(model.output)
    for name, tensor in zip(output_names(model), outputs):
        if not tensor.shape or tensor.shape[0] not in {None, *sizes}:
            raise ConversionError(
                f"Output '{name}' has no batch axis: it depends on all samples "
                "of a batch. Compute it outside the model, from an output per "
                f"sample. Received: an output of shape {tuple(tensor.shape)}"
            )


def check_numbers(batch_size, tolerance) -> None:
    """Raises ValueError if one is neither None nor a number in its range."""
    for name, value, kind, least, what in (
        ("batch_size", batch_size, numbers.Integral, 1, "a positive integer"),
        ("tolerance", tolerance, numbers.Real, 0, "a number of at least 0"),
    ):
        valid = isinstance(value, kind) and not isinstance(value, bool)
        if value is not None and not (valid and value >= least):
            raise ValueError(
                f"`{name}` must be None or {what}. Received: {name}={value!r}"
            )
