"""The variable of the scale α."""

import keras

from keras_lab._backend import backend

__all__ = ["Scale"]


class Scale(keras.Variable):
    """The variable of α.

    `model.set_weights` and Keras' training on JAX assign one variable after the
    other, the latent weight before its α. An assigned value that cannot be the
    scale of the latent weight is corrected here.
    """

    weight = None

    @property
    def trainable(self):
        # With its latent weight, also if the user has frozen only that.
        latent = True if self.weight is None else self.weight.latent.trainable
        return super().trainable and latent

    @trainable.setter
    def trainable(self, value):
        keras.Variable.trainable.fset(self, value)

    def assign(self, value):
        if backend.SCALE_IS_TRAINABLE and not backend.is_concrete(value):
            # The step of an optimizer, for example a weight decay.
            return value
        value = self.assign_unchecked(value)
        if self.weight is None or not backend.is_concrete(value):
            return value
        if not self.weight.quantizer.needs_curvature:
            self.weight.repair()
            return value
        check = self.weight.scale_check
        trained = backend.SCALE_IS_TRAINABLE and check.is_uniform
        if trained and check.is_stale():
            # Other optimizers average α, as they do all trainable variables.
            self.weight.refresh()
        check.remember()
        if check.is_binary_connects():
            self.weight.repair()
        return value

    def assign_unchecked(self, value):
        return super().assign(value)
