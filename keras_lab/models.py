"""`LABModel`: Algorithm 1 written out as a training step."""

import functools
import warnings

import keras
from keras import ops

from keras_lab import _tensorflow as backend
from keras_lab.binary_weight import weights_of
from keras_lab.convert.graph import functional_class

__all__ = ["LABModel"]


@keras.saving.register_keras_serializable(package="keras_lab")
class LABModel(keras.Model):
    """A `keras.Model` whose `train_step` is Algorithm 1, line by line.

    You do not need it: a plain model with `LABAdam` trains the same, to the
    bit. It is there to be read, to be subclassed, and to log α.

    Args:
        *args, **kwargs: As in `keras.Model`.
        log_alpha: Boolean, whether the logs contain each layer's α, under names
            like `dense_1/alpha`. If a weight has several α, it is their mean.
            Defaults to `False`.

    Example:

    >>> model = keras_lab.LABModel(inputs, outputs, log_alpha=True)
    >>> model.compile(optimizer=keras_lab.LABAdam(), loss="squared_hinge")
    """

    def __new__(cls, *args, **kwargs):
        if len(args) == 2 or "outputs" in kwargs:
            cls = _functional_class(cls)
        return super().__new__(cls, *args, **kwargs)

    def __init__(self, *args, log_alpha=False, **kwargs):
        super().__init__(*args, **kwargs)
        self.log_alpha = log_alpha

    def train_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)

        # Lines 1-9. α is a function of w^t and d^{t-1}: the optimizer computed
        # it at the end of the last step.
        with backend.gradient_tape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x, y, y_pred, sample_weight, training=True)
            self._track_loss(loss, x)
            loss = self.optimizer.scale_loss(loss)

        # Lines 10-14 and 17: the gradient at ŵ, applied to w unchanged.
        weights = self.trainable_weights
        if not weights:
            warnings.warn(
                "The model does not have any trainable weights.", stacklevel=2
            )
        gradients = tape.gradient(loss, weights)

        # Lines 15-25: moments, curvature, weights, learning rate; and line 3
        # of the next step, so that α is up to date between steps.
        self.optimizer.apply(gradients, weights)

        logs = self.compute_metrics(x, y, y_pred, sample_weight)
        if self.log_alpha:
            for weight in weights_of(self.variables):
                logs[weight.alpha.path] = ops.mean(weight.alpha)
        return logs

    def _track_loss(self, loss, x):
        # Exactly as in Keras: otherwise TensorFlow's graph optimizer rounds
        # differently.
        if backend.replicas() > 1:
            loss = loss * backend.replicas()
        batch_size = ops.shape(keras.tree.flatten(x)[0])[0]
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss, sample_weight=batch_size)

    def get_config(self):
        return {**super().get_config(), "log_alpha": self.log_alpha}


@functools.cache
def _functional_class(cls):
    """The functional variant of `LABModel` or of a subclass of it.

    Keras would make the class itself functional, and then it could no longer be
    subclassed.
    """
    functional = functional_class()
    if issubclass(cls, functional):
        return cls
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    made = type(cls.__name__, (cls, functional), names)
    package, _, name = keras.saving.get_registered_name(cls).rpartition(">")
    if package:
        keras.saving.register_keras_serializable(package, name)(made)
    return made
