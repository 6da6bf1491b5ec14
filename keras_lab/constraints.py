"""Constraints on latent weights."""

import numbers

import keras

from keras_lab._backend import backend

__all__ = ["WeightClip"]


@keras.saving.register_keras_serializable(package="keras_lab")
class WeightClip(keras.constraints.Constraint):
    """Clips a latent weight to [−limit, limit] after each update.

    A latent weight that is much larger than the others hardly ever changes its
    sign again. The authors clip to [−1, 1] in every layer, and so do the binary
    layers by default.

    Args:
        limit: A positive float. Defaults to `1.0`.
    """

    def __init__(self, limit=1.0):
        if not (isinstance(limit, numbers.Real) and limit > 0):
            raise ValueError(
                f"`limit` must be a positive number. Received: limit={limit!r}"
            )
        self.limit = limit

    def __call__(self, w):
        return backend.clip(w, self.limit)

    def get_config(self):
        return {"limit": self.limit}

    def __repr__(self):
        return f"{type(self).__name__}(limit={self.limit!r})"
