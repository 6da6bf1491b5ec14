"""Prepares a Keras model for the converter, and answers questions about it."""

import contextlib
from collections.abc import Iterator

import keras
import numpy as np

import keras_lab
from tflite_export.graph.names import unique_names
from tflite_export.graph.weights import Kernel


def trained_kernels(model: keras.Model) -> list[Kernel]:
    """The binary kernels of a model, with their unique paths."""
    return [
        Kernel(
            path,
            np.where(weight.latent.numpy() >= 0, np.int8(1), np.int8(-1)),
            weight.alpha.numpy().astype(np.float32),
        )
        for path, weight in keras_lab.binary_weights(model).items()
    ]


def float_layers(model: keras.Model, kernels: list[Kernel]) -> frozenset[str]:
    """The paths of a frozen model's layers with kernels that are not binary."""
    layers = keras_lab.walk(model)
    inner = {
        id(weight): path
        for path, layer in layers.items()
        for weight in layer.weights
        if len(weight.shape) > 1
    }
    # A layer comes before the layers inside it, so the innermost one is left.
    return frozenset(
        path
        for path in inner.values()
        if not any(kernel.is_of(path) for kernel in kernels)
    )


def as_functional(model: keras.Model) -> keras.Model:
    """A Sequential or functional model as a functional one."""
    if isinstance(model, keras.Sequential):
        return keras.Model(model.inputs[0], model.outputs[0], name=model.name)
    return model


class _Float32(keras.DTypePolicy):
    """Computes in float32, whatever type the variables have.

    Keras casts variables only if their type is not that of the computation.
    """

    def __init__(self, variable_dtype):
        super().__init__("float32")
        self._type_of_variables = variable_dtype

    @property
    def variable_dtype(self):
        return self._type_of_variables


def compute_in_float32(model: keras.Model) -> dict:
    """Ends mixed precision, as in TFLite. Returns the layers' old policies."""
    policies = {}
    for layer in (model, *keras_lab.walk(model).values()):
        if layer.compute_dtype != "float32":
            policies[layer] = layer.dtype_policy
            layer.dtype_policy = _Float32(layer.variable_dtype)
    return policies


@contextlib.contextmanager
def computing_in_float32(model: keras.Model) -> Iterator[bool]:
    """Computes in float32 inside the `with` block.

    Yields whether a layer had another precision.
    """
    policies = compute_in_float32(model)
    try:
        yield bool(policies)
    finally:
        for layer, policy in policies.items():
            layer.dtype_policy = policy


def fixed_batch_size(
    model: keras.Model, batch_size: int | None, default: int | None = None
) -> int | None:
    """The batch size of the file: the given one, or the one the model needs.

    If neither says anything, it is that of the runtime, the default.
    """
    fixed = {int(x.shape[0]) for x in model.inputs if x.shape[0] is not None}
    if fixed - {batch_size or min(fixed, default=0)}:
        raise ValueError(
            f"Model '{model.name}' has the batch size "
            f"{' and '.join(map(str, sorted(fixed)))}. "
            f"Received: batch_size={batch_size}"
        )
    if batch_size is None:
        batch_size = next(iter(fixed), default)
    layers = keras_lab.walk(model).values()
    if any(isinstance(layer, keras.layers.RNN) for layer in layers):
        return batch_size or 1
    return batch_size


def channels_first_note(model: keras.Model) -> str:
    """A sentence on layers that TFLite may not have, or nothing."""
    names = [
        f"'{layer.name}'"
        for layer in keras_lab.walk(model).values()
        if getattr(layer, "data_format", None) == "channels_first"
    ]
    note = f" Layers with data_format='channels_first': {', '.join(names)}."
    return note if names else ""


def input_names(model: keras.Model) -> list[str]:
    """The name of each input, in the order of `model.inputs`."""
    names = {
        id(layer.output): layer.name
        for layer in model.layers
        if isinstance(layer, keras.layers.InputLayer)
    }
    return [names[id(tensor)] for tensor in model.inputs]


def output_names(model: keras.Model) -> list[str]:
    """A unique name for each output, in the order of `keras.tree.flatten`.

    It is the key if the outputs are a dict, else the name of the layer. `_1`,
    `_2` are appended to names that would occur several times.
    """
    outputs = keras.tree.flatten_with_path(model.output)
    names = [
        path[-1] if path and isinstance(path[-1], str) else name
        for (path, _), name in zip(outputs, model.output_names)
    ]
    return unique_names(names)
