"""Calls layers on random numbers, to see whether a rebuilt one is the same.

The config of a custom layer may lack an argument, and its `call` may read the
kernel of a layer inside it without calling that layer. Neither shows in its
weights.
"""

import keras
import numpy as np
from keras import ops

from keras_lab.convert.graph import Call, with_inner_layers

__all__ = ["computes_the_same", "outputs", "same"]

# The length of an axis that may have any, such as that of a sequence.
LENGTH = 8
TOLERANCE = {"float16": 0.02, "bfloat16": 0.1}


def computes_the_same(layer: keras.Layer, new: keras.Layer, call: Call) -> bool:
    """Whether a rebuilt layer has the same outputs, as far as is known."""
    parts = [*with_inner_layers(layer), *with_inner_layers(new)]
    if any(getattr(part, "input_quantizer", None) for part in parts):
        return True  # Rounding can change a sign.
    return same(layer, outputs(layer, call), outputs(new, call))


def outputs(layer: keras.Layer, call: Call) -> list | None:
    """The outputs of a layer as arrays; its variables do not change.

    `None` if it cannot be called like this, or is random.
    """
    rng = np.random.default_rng(0)
    args, kwargs = keras.tree.map_structure(
        lambda x: _example(x, rng), call.arguments
    )
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


def _example(x, rng):
    if not isinstance(x, keras.KerasTensor):
        return x
    shape = [LENGTH if size is None else size for size in x.shape]
    if x.shape and x.shape[0] is None:
        shape[0] = 2
    if x.dtype == "bool":
        values = np.ones(shape)
    elif keras.backend.is_int_dtype(x.dtype):
        values = rng.integers(0, 2, shape)  # Indices that any table has.
    else:
        values = rng.normal(size=shape)
    return ops.convert_to_tensor(values, x.dtype)


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
