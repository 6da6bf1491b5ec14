"""Calls layers on random numbers, to see whether a rebuilt one is the same.

The config of a custom layer may lack an argument, and its `call` may read the
kernel of a layer inside it without calling that layer. Neither shows in its
weights.
"""

import inspect
from itertools import repeat

import keras
import numpy as np
from keras import ops

from keras_lab.convert.graph import Call
from keras_lab.layer_tree import with_inner_layers
from keras_lab.model_checks import is_keras_class

__all__ = ["computes_the_same", "outputs", "same"]

# The length of an axis that may have any, such as that of a sequence.
LENGTH = 8
TOLERANCE = {"float16": 0.02, "bfloat16": 0.1}


def computes_the_same(layer: keras.Layer, new: keras.Layer, call: Call) -> bool:
    """Whether a rebuilt layer has the same outputs, as far as is known."""
    parts = with_inner_layers(layer), with_inner_layers(new)
    if not all(map(_has_the_same_arguments, *parts)):
        return False
    if any(getattr(x, "input_quantizer", None) for x in [*parts[0], *parts[1]]):
        return True  # Rounding can change a sign.
    return same(layer, outputs(layer, call), outputs(new, call))


def _has_the_same_arguments(layer, new):
    """Compares the plain arguments that a custom layer was created with.

    Some, such as a rate of dropout, have an effect in training only. A whole
    number is a size, which the weights show, or a limit that may not matter:
    KerasHub's Qwen leaves the size of a window that it does not use out of its
    config.
    """
    classes = [cls for cls in type(layer).__mro__ if not is_keras_class(cls)]
    names = {
        name
        for cls in classes
        if "__init__" in vars(cls)
        for name in inspect.signature(cls.__init__).parameters
    }
    plain = {
        name: value
        for name, value in vars(layer).items()
        if name in names and isinstance(value, (bool, float, str))
    }
    return all(vars(new).get(name) == plain[name] for name in plain)


def outputs(layer: keras.Layer, call: Call) -> list[list | None]:
    """The outputs of a layer as arrays, also those of training.

    `None` if it cannot be called like this, or is random. Its variables do not
    change.
    """
    return [_outputs(layer, call), _outputs(layer, call, training=True)]


def _outputs(layer, call, **options):
    rng = np.random.default_rng(0)
    args, kwargs = keras.tree.map_structure(
        lambda x: _example(x, rng), call.arguments
    )
    before = [(variable, variable.numpy()) for variable in layer.variables]
    try:
        first, second = (
            [
                ops.convert_to_numpy(y).astype("float64")
                for y in keras.tree.flatten(layer(*args, **kwargs | options))
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


def same(layer: keras.Layer, expected: list, found: list) -> bool:
    """Whether the results of `outputs` are equal up to rounding, or unknown."""
    tolerance = TOLERANCE.get(layer.compute_dtype, 1e-3)
    return all(
        a is None
        or b is None
        or (len(a) == len(b) and all(map(_is_close, a, b, repeat(tolerance))))
        for a, b in zip(expected, found)
    )


def _is_close(a, b, tolerance):
    limit = tolerance * np.abs(a).max(initial=1)
    return a.shape == b.shape and np.allclose(a, b, 0, limit, equal_nan=True)
