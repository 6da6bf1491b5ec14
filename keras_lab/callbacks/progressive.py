"""`ProgressiveBinarization`: from float to binary little by little."""

import contextlib
import numbers
import warnings

import keras

from keras_lab.analysis.names import leaf_layers
from keras_lab.binary_weight import full_precision, weights_of

__all__ = ["ProgressiveBinarization"]


class ProgressiveBinarization(keras.callbacks.Callback):
    """Lets the binary weights take the place of the latent ones gradually.

    In the training steps of the first n epochs only a share

        λ = 1/(n+1), 2/(n+1), …, n/(n+1)

    of the layers is binary, the first ones of the model first, each with all of
    its weights; the others compute with w. From then on all use ŵ. Gradients,
    the optimizer and α are the same as always. Everything but a training step
    uses ŵ: validation, `predict`, a saved or exported model.

    λ depends on the number of the epoch alone, so a training that is resumed
    with `initial_epoch` goes on as it would have.

    Args:
        epochs: n, over how many epochs λ grows. 0 is without effect. A training
            that ends before λ is 1 gives a warning.

    Example:

    >>> model = keras_lab.binarize_model(trained)
    >>> gently = keras_lab.callbacks.ProgressiveBinarization(epochs=5)
    >>> model.fit(x, y, epochs=20, callbacks=[gently])
    """

    def __init__(self, epochs):
        super().__init__()
        whole = isinstance(epochs, numbers.Integral) and epochs >= 0
        if isinstance(epochs, bool) or not whole:
            raise ValueError(
                "`epochs` must be a whole number, at least 0. "
                f"Received: epochs={epochs!r}"
            )
        self.epochs = int(epochs)

    def on_train_begin(self, logs=None):
        weights, self._layers = _by_layer(self.model)
        if not weights:
            warnings.warn(
                f"Model '{self.model.name}' has no binary weights to train: "
                "there is nothing to make progress with.",
                stacklevel=2,
            )
        self._weights = weights
        self.shares = [1.0] * len(weights)
        self._done = 1.0
        self._install()

    def on_epoch_begin(self, epoch, logs=None):
        self._done = min(1.0, (epoch + 1) / (self.epochs + 1))
        count = len(set(self._layers))
        shares = [float(layer < self._done * count) for layer in self._layers]
        if shares != self.shares:
            _restore(self.model)
            self.shares = shares
            self._install()

    def on_train_end(self, logs=None):
        _restore(self.model)
        if self.shares and self._done < 1:
            warnings.warn(
                f"The training ended at λ = {self._done:.2f}: the network has "
                "not been trained as the binary one that it is from now on. "
                f"With `epochs={self.epochs}`, λ is 1 from epoch "
                f"{self.epochs + 1} on.",
                stacklevel=2,
            )

    def _install(self):
        """Changes the training steps of this `fit`, and no others.

        A `fit` may die anywhere, and then no callback hears of it. But each
        training, be it `fit` or `train_on_batch`, first asks the model to make
        its train function: by then the `fit` before it is over.
        """
        model = self.model
        step = model.train_step
        pairs = zip(self._weights, self.shares)
        latent = [weight for weight, share in pairs if not share]

        def train_step(*args, **kwargs):
            with full_precision(latent):
                return step(*args, **kwargs)

        # Keras looks the step up where it makes the function or, depending on
        # its version, where it traces it.
        with _attribute(model, "train_step", train_step):
            model.make_train_function(force=True)
        function = model.train_function

        def train_function(iterator):
            with _attribute(model, "train_step", train_step):
                return function(iterator)

        def make_train_function(force=False):
            _restore(model)
            return model.make_train_function(force)

        model.train_function = train_function
        model.make_train_function = make_train_function


def _restore(model):
    with contextlib.suppress(AttributeError):
        del model.make_train_function
    model.train_function = None


@contextlib.contextmanager
def _attribute(model, name, value):
    """In here the model has another attribute of this name."""
    before = vars(model).get(name)
    setattr(model, name, value)
    try:
        yield
    finally:
        if before is None:
            delattr(model, name)
        else:
            setattr(model, name, before)


def _by_layer(model):
    """The binary weights to train, and the number of the layer of each."""
    wanted = {id(w): w for w in weights_of(model.trainable_variables)}
    weights, layers = [], []
    # A weight of the model itself counts as a layer.
    own = [[variable] for variable in model.trainable_variables]
    inner = [layer.weights for layer in leaf_layers(model).values()]
    number = 0
    for variables in [*inner, *own]:
        found = [w for w in weights_of(variables) if id(w) in wanted]
        for weight in found:
            del wanted[id(weight)]
        weights += found
        layers += [number] * len(found)
        number += bool(found)
    return weights, layers
