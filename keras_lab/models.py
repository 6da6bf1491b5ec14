"""`LABModel`: Algorithm 1 written out as a training step."""

import functools

import keras
from keras import ops

from keras_lab._backend import backend
from keras_lab.binary_weight import weights_of
from keras_lab.model_checks import functional_class

__all__ = ["LABModel"]


@keras.saving.register_keras_serializable(package="keras_lab")
class LABModel(backend.TrainStep, keras.Model):
    """A `keras.Model` whose `train_step` is Algorithm 1, line by line.

    You do not need it: a plain model with `LABAdam` trains the same, to the
    bit. It is there to be read, to be subclassed, and to log α. The step itself
    is in the module of the backend, for example `keras_lab/_tensorflow.py`. On
    JAX it is Keras' own step.

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

    def alpha_logs(self):
        """The entries of the logs for α, or none without `log_alpha`."""
        if not self.log_alpha:
            return {}
        weights = weights_of(self.variables)
        return {w.alpha.path: ops.mean(w.alpha) for w in weights}

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
