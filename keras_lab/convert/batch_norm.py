"""`recalibrate_batch_norm`: new moving statistics for batch norm."""

import contextlib
import itertools
import warnings

import keras
import numpy as np
from keras import ops

from keras_lab.convert.batches import (
    check_count,
    check_is_finite,
    input_batches,
)
from keras_lab.layer_tree import walk
from keras_lab.model_checks import check_built, check_is_model

__all__ = ["recalibrate_batch_norm", "trained_batch_norms"]


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
    check_built(model)
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
