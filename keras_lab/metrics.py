"""Metrics of binary networks."""

import math

import keras
from keras import ops

from keras_lab.binary_weight import (
    newest_weights,
    weight_key,
    weights_of,
)
from keras_lab.checks import nothing_binary

__all__ = ["FlipRatio"]


@keras.saving.register_keras_serializable(package="keras_lab")
class FlipRatio(keras.metrics.Metric):
    """The share of binary weights whose sign a training step flips.

    A mean over the steps of an epoch. It falls as the network settles; where it
    stays high, the learning rate is too high.

    The very first step has nothing to be compared with and does not count: an
    epoch of that one step has the value 0, which then means unknown. An
    evaluation compares as well. Nothing moves there, so it is 0, unless
    somebody assigned other weights since the last step (`set_weights`, an
    average of weights): those flips count.

    It keeps the signs of the last step: one byte a weight. A step of the
    paper's MNIST network takes about 4% more processor time on two cores, under
    XLA 18%. `keras_lab.callbacks.BinaryMonitor` counts by epoch, for much less.

    Args:
        target: A built model or layer, to watch all of its binary weights. (A
            saved model has a list here, of their names and shapes. The newest
            weights like that are watched: those of the model that is being
            loaded. To compile another model anew from a config, make a new
            metric for it.)
        name, dtype: As in Keras.

    Example:

    >>> model.compile(
    ...     optimizer=keras_lab.LABAdam(0.01),
    ...     loss="squared_hinge",
    ...     metrics=[keras_lab.metrics.FlipRatio(model)],
    ... )
    """

    def __init__(self, target, name="flip_ratio", dtype=None):
        super().__init__(name=name, dtype=dtype)
        # A tuple of ours: Keras would take variables for the metric's own.
        self._watched = tuple(_watched_weights(target))
        self.total = self.add_variable((), "zeros", name="total")
        self.count = self.add_variable((), "zeros", name="count")
        self._begun = self.add_variable((), "zeros", "int32", name="begun")
        self._signs = [
            self.add_variable(
                weight.latent.shape, "zeros", "int8", name=f"signs_{number}"
            )
            for number, weight in enumerate(self._watched)
        ]

    def update_state(self, y_true=None, y_pred=None, sample_weight=None):
        """Compares the signs with the last ones, whatever the arguments."""
        flips = size = 0
        for weight, before in zip(self._watched, self._signs):
            signs = _signs(weight)
            flips = flips + _count(ops.not_equal(signs, before))
            size += math.prod(weight.latent.shape)
            before.assign(signs)
        # The first signs of all have nothing to be compared with.
        known = ops.cast(ops.greater(self._begun, 0), self.dtype)
        self.total.assign_add(known * ops.cast(flips, self.dtype) / size)
        self.count.assign_add(known)
        self._begun.assign(1)

    def result(self):
        return ops.divide_no_nan(self.total, self.count)

    def reset_state(self):
        # The signs stay: an epoch begins where the last one ended.
        self.total.assign(0)
        self.count.assign(0)

    def get_config(self):
        keys = [weight_key(weight) for weight in self._watched]
        return {**super().get_config(), "target": keys}


def _signs(weight):
    return ops.cast(ops.greater_equal(weight.latent, 0), "int8")


def _count(mask):
    """How many are true. A product takes all cores, a sum under XLA one."""
    rows = ops.reshape(ops.cast(mask, "float32"), (-1, mask.shape[-1]))
    return ops.sum(ops.matmul(rows, ops.ones((mask.shape[-1], 1), "float32")))


def _watched_weights(target):
    if isinstance(target, (list, tuple)):
        return newest_weights(target)
    if not isinstance(target, keras.Layer):
        raise TypeError(
            "`target` must be a model or a layer. "
            f"Received: target={target!r} of type {type(target).__name__}"
        )
    weights = weights_of(target.weights)
    if not weights:
        raise ValueError(nothing_binary(target))
    return weights
