"""`recalibrate_batch_norm`: new moving statistics for batch norm."""

import contextlib
import itertools
import numbers
import warnings
from collections.abc import Iterable, Iterator

import keras
import numpy as np
from keras import ops

from keras_lab.convert.graph import (
    check_is_model,
    is_built,
    no_weights_yet,
    walk,
)

__all__ = [
    "check_can_be_repeated",
    "check_count",
    "check_is_finite",
    "input_batches",
    "recalibrate_batch_norm",
    "trained_batch_norms",
]


def recalibrate_batch_norm(
    model: keras.Model,
    data,
    batch_size: int = 128,
    batches: int | None = None,
    rows: int | None = None,
) -> int:
    """Sets the moving statistics of batch norm to those of some data.

    The activations of a network change when its kernels become binary, and
    signs that flip change them faster than the moving averages follow. This
    function sets the averages to the mean and variance of everything that a
    layer receives for the data, with the present weights. Each batch counts by
    its size, and the variance between batches is included. All other layers
    run in inference mode, and nothing else changes. After an error, the
    statistics are unchanged.

    Args:
        model: A built model. Batch norm layers inside inner models, wrappers
            and custom layers are included. Layers that are not trainable are
            left unchanged, as in training.
        data: The inputs: an array, or batches of inputs as a
            `tf.data.Dataset`, a `keras.utils.PyDataset` or another iterable. If
            a batch is a tuple, its first element is used. Several inputs are a
            dict of arrays, or a list of arrays in the order of `model.inputs`.
            For a model with one input, a list of arrays is a list of batches,
            and a tuple of arrays raises ValueError: it is probably `(x, y)`.
        batch_size: The number of rows per batch if `data` is an array. Defaults
            to `128`.
        batches: The largest number of batches to use. Defaults to `None`: all.
            If not all are used, they are random rows of arrays, or random
            batches of a `PyDataset`, always the same. Of other data they are
            the first ones, so these must be shuffled.
        rows: The same as a number of rows, rounded up to whole batches.

    Returns:
        The number of batches used. It is 0, with a warning, if the model has no
        trainable batch norm.

    Example:

    >>> keras_lab.recalibrate_batch_norm(model, train_images, rows=5000)
    """
    check_is_model(model)
    if not is_built(model):
        raise ValueError(no_weights_yet(model))
    check_count("batch_size", batch_size)
    limits = {"batches": batches, "rows": rows}
    limits = {name: n for name, n in limits.items() if n is not None}
    for name, limit in limits.items():
        check_count(name, limit)
    if not limits:
        check_is_finite("data", data)
    found = input_batches(data, model, batch_size, shuffle=bool(limits))
    statistics = [_Statistics(layer) for layer in trained_batch_norms(model)]
    if not statistics:
        warnings.warn(
            f"Model '{model.name}' has no trainable batch norm, so there is "
            "nothing to recalibrate.",
            stacklevel=2,
        )
        return 0
    count = seen = 0
    with contextlib.ExitStack() as stack:
        for each in statistics:
            stack.enter_context(each.measured())
        for inputs in itertools.islice(found, batches):
            model(
                keras.tree.map_structure(ops.convert_to_tensor, inputs),
                training=False,
            )
            count += 1
            seen += len(keras.tree.flatten(inputs)[0])
            if rows is not None and seen >= rows:
                break
        if not count:
            raise ValueError(
                "`recalibrate_batch_norm` needs at least one batch. "
                f"Received: data={data!r:.200}, batches={batches!r}"
            )
        for each in statistics:
            each.check()
    for each in statistics:
        each.assign()
    return count


class _Statistics:
    """Adds up n, n·mean and n·(variance + mean²) of what a layer receives."""

    def __init__(self, layer):
        self.layer = layer
        self.variables = (layer.moving_mean, layer.moving_variance)
        self.sums = np.zeros((3, *layer.moving_mean.shape))

    @contextlib.contextmanager
    def measured(self):
        """Inside, the layer runs in training mode, and the rest does not.

        With a momentum of 0, its moving statistics are those of the batch.
        Afterwards they are restored.

        The layer's `call` is replaced, because Keras has no hook for the calls
        of a layer, and it may be inside a custom layer or a subclassed model.
        """
        layer, call = self.layer, self.layer.call
        options = {"momentum": 0.0, "renorm": False}
        options = {k: v for k, v in options.items() if k in vars(layer)}
        options_before = {name: vars(layer)[name] for name in options}
        before = [variable.numpy() for variable in self.variables]

        def call_and_measure(inputs, training=None, mask=None):
            for variable in self.variables:
                # The old values must not count, not even as 0·NaN.
                variable.assign(ops.zeros(variable.shape, variable.dtype))
            outputs = call(inputs, training=True, mask=mask)
            self._add(inputs, mask)
            return outputs

        layer.call = call_and_measure
        vars(layer).update(options)
        try:
            yield
        finally:
            del layer.call
            vars(layer).update(options_before)
            for variable, value in zip(self.variables, before):
                variable.assign(value)

    def _add(self, inputs, mask):
        mean, variance = (
            variable.numpy().astype("float64") for variable in self.variables
        )
        if mask is None:
            count = np.prod(inputs.shape) / mean.size
        else:
            count = np.count_nonzero(mask)
        if count:  # Otherwise the mean is not a number.
            squares = variance + mean**2
            self.sums += count * np.stack([np.ones_like(mean), mean, squares])

    def check(self):
        """Raises ValueError if the results are not finite."""
        if not np.isfinite(self.sums).all():
            raise ValueError(
                f"The inputs of layer '{self.layer.name}' must be finite and "
                "not too large. No statistics were changed. Received: inputs "
                f"with the sum of squares {np.sum(self.sums[2])}"
            )

    def assign(self):
        """Sets the statistics if the layer was called."""
        if self.sums.any():
            mean, squares = self.sums[1:] / self.sums[0]
            self.layer.moving_mean.assign(mean)
            variance = np.maximum(squares - mean**2, 0.0)
            self.layer.moving_variance.assign(variance)


def trained_batch_norms(model: keras.Model) -> list:
    """The batch norm layers in a model that are trainable."""
    return [
        layer
        for layer in walk(model).values()
        if isinstance(layer, keras.layers.BatchNormalization)
        and layer.trainable
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
