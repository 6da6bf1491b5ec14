"""The variable of the scale α."""

import keras

from keras_lab._backend import backend
from keras_lab.scale_check import is_binary_connects, is_stale

__all__ = ["Scale"]


class Scale(keras.Variable):
    """The variable of the α of a `BinaryWeight`.

    `model.set_weights` and Keras' training on JAX assign one variable after the
    other, the latent weight before its α. An assigned value that cannot be the
    scale of the latent weight is corrected here.
    """

    def __init__(self, weight, **options):
        self.weight = weight
        super().__init__(**options)

    @property
    def trainable(self):
        # With its latent weight, also if the user has frozen only that.
        return super().trainable and self.weight.latent.trainable

    @trainable.setter
    def trainable(self, value):
        keras.Variable.trainable.fset(self, value)

    def assign(self, value):
        if backend.SCALE_IS_TRAINABLE and not backend.is_concrete(value):
            # The step of an optimizer, for example a weight decay.
            return value
        value = self.assign_unchecked(value)
        if backend.is_concrete(value):
            self._correct()
        return value

    def _correct(self):
        weight = self.weight
        if not weight.quantizer.needs_curvature or is_binary_connects(weight):
            weight.repair()
            return
        if backend.SCALE_IS_TRAINABLE and weight.is_uniform:
            # Other optimizers average α, as they do all trainable variables.
            if is_stale(weight):
                weight.refresh()
        weight.remember()

    def assign_unchecked(self, value):
        return super().assign(value)
