"""The inputs of a model in batches, and checks of data and counts."""

import itertools
import numbers
from collections.abc import Iterable, Iterator

import keras
import numpy as np
from keras import ops

__all__ = [
    "check_can_be_repeated",
    "check_count",
    "check_is_finite",
    "input_batches",
]


def check_can_be_repeated(argument: str, data) -> None:
    """Raises TypeError if data can be read only once."""
    if isinstance(data, Iterator):
        raise TypeError(
            f"`{argument}` is read more than once, which a generator cannot "
            "be. Use arrays, a `tf.data.Dataset` or a `keras.utils.PyDataset`. "
            f"Received: {argument}={data!r}"
        )


def check_is_finite(argument: str, data) -> None:
    """Raises ValueError if a dataset is known to have no end."""
    endless = False
    if isinstance(data, keras.utils.PyDataset):
        endless = data.num_batches is None
    elif hasattr(data, "cardinality"):  # A `tf.data.Dataset`.
        endless = int(data.cardinality()) == -1
    if endless:
        raise ValueError(
            f"`{argument}` must have an end. For a `tf.data.Dataset`, use "
            f"`.take(40)`. Received: {argument}={data!r:.200}"
        )


def check_count(name, value):
    """Raises ValueError if an argument is not a positive integer."""
    whole = isinstance(value, numbers.Integral) and value >= 1
    if isinstance(value, bool) or not whole:
        raise ValueError(
            f"`{name}` must be a positive integer. Received: {name}={value!r}"
        )


def input_batches(
    data, model: keras.Model, batch_size: int = 128, shuffle: bool = False
) -> Iterable:
    """Returns an iterable of the inputs of each batch.

    Raises an error if they are not the inputs of the model. `shuffle` is for
    arrays and for a `PyDataset`.
    """
    count = len(getattr(model, "inputs", None) or [None])
    are_arrays = isinstance(data, (tuple, list) if count > 1 else tuple) and (
        len(data) > 0 and all(hasattr(x, "shape") for x in data)
    )
    if are_arrays and (count == 1 or len(data) != count):
        raise ValueError(
            "`data` must be the inputs alone, not (x, y), and one array for "
            f"each of the {count} inputs. Received: a {type(data).__name__} of "
            f"{len(data)} arrays"
        )
    if are_arrays or hasattr(data, "shape") or isinstance(data, dict):
        return _slices(data, batch_size, shuffle)
    if isinstance(data, str) or not isinstance(
        data, (Iterable, keras.utils.PyDataset)
    ):
        raise TypeError(
            "`data` must be an array, or batches of inputs as an iterable. "
            f"Received: data={data!r} of type {type(data).__name__}"
        )
    if isinstance(data, keras.utils.PyDataset):
        dataset, count = data, data.num_batches
        indices = itertools.count() if count is None else range(count)
        if shuffle and count is not None:
            indices = _random_order(count)
        data = (dataset[index] for index in indices)
    return (x[0] if isinstance(x, (tuple, list)) else x for x in data)


def _slices(arrays, batch_size, shuffle):
    shapes = [np.shape(x) for x in keras.tree.flatten(arrays)]
    if len({shape[:1] for shape in shapes}) != 1 or () in shapes:
        raise ValueError(
            "`data` must be arrays with the same number of rows. "
            f"Received: arrays of shapes {shapes}"
        )
    count = shapes[0][0]
    places = [slice(n, n + batch_size) for n in range(0, count, batch_size)]
    if shuffle:
        # Not every tensor can be indexed by an array.
        arrays = keras.tree.map_structure(_as_numpy, arrays)
        order = _random_order(count)
        places = [order[place] for place in places]
    return (
        keras.tree.map_structure(lambda x, place=place: x[place], arrays)
        for place in places
    )


def _as_numpy(x):
    return x if isinstance(x, np.ndarray) else ops.convert_to_numpy(x)


def _random_order(count):
    return np.random.default_rng(0).permutation(count).tolist()
