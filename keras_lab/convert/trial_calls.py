"""Calls layers on random numbers, to see whether a rebuilt one is the same.

The config of a custom layer may lack an argument, and its `call` may read the
kernel of a layer inside it without calling that layer. Neither shows in its
weights.
"""

import keras
import numpy as np
from keras import ops

from keras_lab.convert.graph import is_functional, trace, with_inner_layers

__all__ = ["arguments_of_custom_layers", "has_custom_layers", "outputs", "same"]

# The length of an axis that may have any, such as that of a sequence.
LENGTH = 8
TOLERANCE = {"float16": 0.02, "bfloat16": 0.1}


def has_custom_layers(layer: keras.Layer) -> bool:
    """Whether a class of the user is in it, not of Keras or keras_lab."""
    return any(
        type(part).__module__.partition(".")[0] not in ("keras", "keras_lab")
        for part in with_inner_layers(layer)
    )


def arguments_of_custom_layers(model: keras.Model) -> dict[int, tuple]:
    """Random arguments for each layer with custom layers, by its id."""
    found, rng = {}, np.random.default_rng(0)

    def visit(model):
        for call in trace(model).calls:
            if is_functional(call.layer):
                visit(call.layer)
            elif isinstance(call.layer, keras.Layer):
                if has_custom_layers(call.layer):
                    found[id(call.layer)] = keras.tree.map_structure(
                        lambda x: _example(x, rng), call.arguments
                    )

    if is_functional(model):
        visit(model)
    return found


def _example(x, rng):
    if not isinstance(x, keras.KerasTensor):
        return x
    first, *rest = [*x.shape, None][: max(len(x.shape), 1)]
    shape = [first or 2, *(LENGTH if n is None else n for n in rest)]
    shape = shape[: len(x.shape)]
    if x.dtype == "bool":
        values = np.ones(shape)
    elif keras.backend.is_int_dtype(x.dtype):
        values = rng.integers(0, 2, shape)  # Indices that any table has.
    else:
        values = rng.normal(size=shape)
    return ops.convert_to_tensor(values, x.dtype)


def outputs(layer: keras.Layer, arguments: tuple) -> list | None:
    """The outputs of a layer as arrays; its variables do not change.

    `None` if it cannot be called like this, or is random.
    """
    args, kwargs = arguments
    before = [(variable, variable.numpy()) for variable in layer.variables]
    try:
        first, second = (
            [
                ops.convert_to_numpy(y).astype("float64")
                for y in keras.tree.flatten(layer(*args, **kwargs))
            ]
            for _ in range(2)
        )
    except Exception:
        # It is the user's code, and the arguments are only plausible.
        return None
    finally:
        for variable, value in before:
            variable.assign(value)
    return first if all(map(np.array_equal, first, second)) else None


def same(layer: keras.Layer, expected: list | None, found: list | None) -> bool:
    """Whether two lists of outputs are equal up to rounding, or unknown."""
    if expected is None or found is None:
        return True
    tolerance = TOLERANCE.get(layer.compute_dtype, 1e-3)
    return len(expected) == len(found) and all(
        a.shape == b.shape
        and np.allclose(
            a, b, 0, tolerance * np.abs(a).max(initial=1), equal_nan=True
        )
        for a, b in zip(expected, found)
    )
