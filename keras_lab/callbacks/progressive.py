"""`ProgressiveBinarization`: from float to binary little by little."""

import contextlib
import numbers
import warnings

import keras

from keras_lab.binary_weight import binary_weights, blending

__all__ = ["ProgressiveBinarization"]


class ProgressiveBinarization(keras.callbacks.Callback):
    """Lets the binary weight take the place of the latent one gradually.

    In the training steps of the first n epochs the forward pass uses

        (1 − λ)·w + λ·ŵ,        λ = 1/(n+1), 2/(n+1), …, n/(n+1),

    one λ an epoch, and ŵ from then on. Or else that share of the layers is
    binary, the first ones first, and the others are not. Gradients, the
    optimizer and α are as ever. Everything but a training step always uses ŵ:
    validation, `predict`, a saved or exported model are those of the binary
    network.

    λ depends on the number of the epoch alone, so a training that is resumed
    with `initial_epoch` goes on as it would have.

    Args:
        epochs: n, over how many epochs λ grows. 0 is without effect.
        by: `"share"`, or `"layer"` for layer by layer. Defaults to `"share"`.

    Example:

    >>> model = keras_lab.binarize_model(trained)
    >>> gently = keras_lab.callbacks.ProgressiveBinarization(epochs=5)
    >>> model.fit(x, y, epochs=20, callbacks=[gently])
    """

    def __init__(self, epochs, by="share"):
        super().__init__()
        whole = isinstance(epochs, numbers.Integral) and epochs >= 0
        if isinstance(epochs, bool) or not whole:
            raise ValueError(
                "`epochs` must be a whole number, at least 0. "
                f"Received: epochs={epochs!r}"
            )
        if by not in ("share", "layer"):
            raise ValueError(
                f"`by` must be 'share' or 'layer'. Received: by={by!r}"
            )
        self.epochs = int(epochs)
        self.by = by

    def on_train_begin(self, logs=None):
        weights = binary_weights(self.model.trainable_variables)
        if not weights:
            warnings.warn(
                f"Model '{self.model.name}' has no binary weights to train: "
                "there is nothing to make progress with.",
                stacklevel=2,
            )
        self.shares = [
            keras.Variable(1.0, trainable=False, autocast=False, name="share")
            for _ in weights
        ]
        step = self.model.train_step

        def train_step(*args, **kwargs):
            with blending(weights, self.shares):
                return step(*args, **kwargs)

        self.model.train_step = train_step
        self.model.make_train_function(force=True)
        function = self.model.train_function

        def train_function(iterator):
            try:
                return function(iterator)
            except KeyboardInterrupt:  # Then nobody calls `on_train_end`.
                self._restore()
                raise

        self.model.train_function = train_function

    def on_epoch_begin(self, epoch, logs=None):
        done = min(1.0, (epoch + 1) / (self.epochs + 1))
        for index, share in enumerate(self.shares):
            if self.by == "layer":
                share.assign(float(index < done * len(self.shares)))
            else:
                share.assign(done)

    def on_train_end(self, logs=None):
        self._restore()

    def _restore(self):
        with contextlib.suppress(AttributeError):
            del self.model.train_step
        self.model.train_function = None
