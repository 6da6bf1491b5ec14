"""The samples to compare on: those of the user, or random ones."""

import functools

import keras
import numpy as np

import keras_lab
from tflite_export.interpreter import by_input
from tflite_export.prepare import input_names
from tflite_export.validate import predict

# How many samples there are, and the length of an axis of any length.
SAMPLES, SIZE = 8, 16
# There are more samples if those had fewer indices than this, and than the
# table has rows.
INDICES = 64


def validation_inputs(model: keras.Model, data) -> tuple[dict, str]:
    """Arrays by the names of the inputs, and `"given"` or `"random"`."""
    names = input_names(model)
    if data is None:
        return random_inputs(model), "random"
    rank = len(model.inputs[0].shape)
    arrays = by_input("validation_data", names, data, rank)
    received = [array.shape for array in arrays.values()]
    expected = [tuple(tensor.shape) for tensor in model.inputs]
    fit = [
        len(shape) == len(sizes)
        and all(n in (None, m) for m, n in zip(shape[1:], sizes[1:]))
        for shape, sizes in zip(received, expected)
    ]
    if (
        not all(fit)
        or len({shape[0] for shape in received}) != 1
        or received[0][0] == 0
    ):
        raise ValueError(
            f"`validation_data` must have the shapes {expected}. "
            f"Received: {received}"
        )
    for name, tensor in zip(names, model.inputs):
        arrays[name] = _cast(name, arrays[name], tensor.dtype)
        if not np.all(np.isfinite(arrays[name])):
            raise ValueError(
                "`validation_data` must be finite. Received: a NaN or an "
                f"infinite number for the input '{name}'"
            )
    return arrays, "given"


def _cast(name, array, dtype):
    """The samples in the dtype of their input, if they have values in it."""
    with np.errstate(invalid="ignore", over="ignore"):
        cast = array.astype(dtype)
    if not keras.backend.is_float_dtype(dtype) and np.any(cast != array):
        raise ValueError(
            f"`validation_data` for the input '{name}' must be numbers of type "
            f"{dtype}. Received: values from {array.min()} to {array.max()} of "
            f"type {array.dtype}"
        )
    return cast


def random_inputs(model: keras.Model) -> dict:
    """Random samples for the exporter's own copy of a model, by input.

    Numbers are normal, and integers are 0 and 1. An input whose values are
    looked up in a table gets indices of all of its rows.
    """
    rng, samples = np.random.default_rng(0), SAMPLES
    inputs = dict(zip(input_names(model), model.inputs))
    shapes = {
        name: tuple(size or SIZE for size in tensor.shape[1:])
        for name, tensor in inputs.items()
    }
    rows = _rows(model, inputs, shapes)
    for name, count in rows.items():
        wanted = min(count, INDICES)
        samples = max(samples, -(-wanted // int(np.prod(shapes[name]))))
    arrays = {}
    for name, tensor in inputs.items():
        shape = samples, *shapes[name]
        if name in rows:
            # Each row as often as the others.
            array = np.resize(rng.permutation(rows[name]), np.prod(shape))
            array = rng.permutation(array).reshape(shape)
            # The type of the input may be too narrow for some.
            array[array.astype(tensor.dtype) != array] = 0
        elif keras.backend.is_float_dtype(tensor.dtype):
            array = rng.normal(size=shape)
        else:
            array = rng.integers(0, 2, shape)
        arrays[name] = array.astype(tensor.dtype)
    return arrays


def _rows(model, inputs, shapes):
    """The rows of the smallest table that each input is looked up in.

    Inputs whose values reach no table, or others than their own, are left out.
    """
    tables = list(_tables(model))
    if not tables:
        return {}
    arrays = {
        name: np.zeros((SAMPLES, *shapes[name]), tensor.dtype)
        for name, tensor in inputs.items()
    }
    found, zeros = {}, _looked_up(model, tables, arrays)
    for name, array in arrays.items():
        ones = _looked_up(model, tables, {**arrays, name: np.ones_like(array)})
        changed = [
            (count, before[before != after], after[before != after])
            for (count, before), (_, after) in zip(zeros, ones)
            if np.any(before != after)
        ]
        if changed and all(
            np.all(before == 0) and np.all(after == 1)
            for _, before, after in changed
        ):
            found[name] = min(count for count, _, _ in changed)
    return found


def _tables(model):
    """Yields what looks up rows of a table, and how many the table has."""
    for layer in (model, *keras_lab.walk(model).values()):
        if isinstance(layer, keras.layers.Embedding):
            yield layer, layer.input_dim
        for part in getattr(layer, "operations", ()):
            if type(part).__name__ == "OneHot":
                yield part, part.num_classes
        if isinstance(layer, keras.layers.RNN):
            for cell in keras_lab.walk(layer).values():
                if getattr(cell, "one_hot", None):
                    yield layer, cell.one_hot


def _looked_up(model, tables, arrays):
    """What each call of a table looks up, with the number of its rows."""
    found = []

    def record(call, rows, indices, *args, **kwargs):
        if hasattr(indices, "numpy"):  # Not inside a function of TensorFlow.
            found.append((rows, np.array(indices)))
        return call(indices, *args, **kwargs)

    for table, rows in tables:
        table.call = functools.partial(record, table.call, rows)
    try:
        predict(model, arrays)
    finally:
        for table, _ in tables:
            del table.call
    return found
