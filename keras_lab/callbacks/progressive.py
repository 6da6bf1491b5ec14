"""`ProgressiveBinarization`: a float network becomes binary layer by layer."""

import numbers
import warnings

import keras

from keras_lab.binary_weight import full_precision, weights_of
from keras_lab.layer_tree import leaf_layers

__all__ = ["ProgressiveBinarization"]


class ProgressiveBinarization(keras.callbacks.Callback):
    """Makes the layers of a network binary one after another.

    In the training steps of the first n epochs only a share

        1/(n+1), 2/(n+1), …, n/(n+1)

    of the layers computes with ŵ, starting with the first layers of the model.
    The other layers compute with the latent weight w. From epoch n + 1 on, all
    layers use ŵ. Gradients, the optimizer and α are the same as without this
    callback. Only training steps are affected: validation, `predict`, and a
    model that is saved or exported use ŵ in all layers.

    The share depends only on the number of the epoch, so a training that is
    resumed with `initial_epoch` continues correctly. Each time a layer becomes
    binary, Keras compiles the training step again.

    Args:
        epochs: n, an integer. 0 has no effect. If a training ends before all
            layers are binary, there is a warning.

    Attributes:
        binary_layers: A list with a bool for each layer that has binary
            weights, in the order of the model: whether it computes with ŵ in
            the present epoch.

    Example:

    >>> model = keras_lab.binarize_model(trained)
    >>> progressive = keras_lab.callbacks.ProgressiveBinarization(epochs=5)
    >>> model.fit(x, y, epochs=20, callbacks=[progressive])
    """

    def __init__(self, epochs):
        super().__init__()
        is_integer = isinstance(epochs, numbers.Integral)
        if isinstance(epochs, bool) or not is_integer or epochs < 0:
            raise ValueError(
                "`epochs` must be an integer, at least 0. "
                f"Received: epochs={epochs!r}"
            )
        self.epochs = int(epochs)
        self.binary_layers = []

    def on_train_begin(self, logs=None):
        self._layers = _weights_by_layer(self.model)
        if not self._layers:
            warnings.warn(
                f"Model '{self.model.name}' has no binary weights to train, so "
                "`ProgressiveBinarization` has no effect.",
                stacklevel=2,
            )
        self.binary_layers = [True] * len(self._layers)
        self._replace_train_step()

    def on_epoch_begin(self, epoch, logs=None):
        share = min(1.0, (epoch + 1) / (self.epochs + 1))
        count = len(self._layers)
        binary = [number < share * count for number in range(count)]
        if binary != self.binary_layers:
            self.binary_layers = binary
            _make_train_function(self.model)

    def on_train_end(self, logs=None):
        _restore(self.model)
        if not all(self.binary_layers):
            warnings.warn(
                f"The training ended with {sum(self.binary_layers)} of "
                f"{len(self.binary_layers)} layers binary. Now all of them "
                "are, but the network was not trained like that. With "
                f"`epochs={self.epochs}`, all layers are binary from epoch "
                f"{self.epochs + 1} on.",
                stacklevel=2,
            )

    def _replace_train_step(self):
        """Makes the training steps of this `fit`, and no others, use w.

        Keras calls no callback if an error or an interrupt ends `fit`. But
        every training, with `fit` or with `train_on_batch`, first calls
        `make_train_function`. So this is where the model is restored.
        """
        model, train_step = self.model, self.model.train_step

        def progressive_train_step(*args, **kwargs):
            layers = zip(self._layers, self.binary_layers)
            weights = [w for ws, binary in layers if not binary for w in ws]
            with full_precision(weights):
                return train_step(*args, **kwargs)

        def make_train_function(force=False):
            _restore(model)
            return model.make_train_function(force)

        model.train_step = progressive_train_step
        model.make_train_function = make_train_function
        _make_train_function(model)


def _make_train_function(model):
    # JAX does not trace a function again that it has compiled before.
    train_step = model.train_step
    model.train_step = lambda *args, **kwargs: train_step(*args, **kwargs)
    # The method of the class, not the attribute of the model that restores it.
    type(model).make_train_function(model, force=True)


def _restore(model):
    for name in ("train_step", "make_train_function"):
        if name in vars(model):
            delattr(model, name)
    # Without a function, `make_train_function` makes one.
    model.train_function = None


def _weights_by_layer(model):
    """A list of the binary weights to train for each layer that has some."""
    wanted = {id(w): w for w in weights_of(model.trainable_variables)}
    inner = [layer.weights for layer in leaf_layers(model).values()]
    # A weight of the model itself counts as a layer.
    own = [[variable] for variable in model.trainable_variables]
    found = []
    for variables in [*inner, *own]:
        weights = [wanted.pop(id(w), None) for w in weights_of(variables)]
        weights = [weight for weight in weights if weight is not None]
        if weights:
            found.append(weights)
    return found
