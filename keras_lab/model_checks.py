"""What kind of model a model is, whether it is built, and errors about it."""

import functools

import keras

from keras_lab.layer_tree import leaf_layers

__all__ = [
    "check_built",
    "check_is_model",
    "functional_class",
    "is_built",
    "is_functional",
    "is_keras_class",
    "no_binary_weights",
    "no_weights_yet",
]


def check_is_model(model, argument: str = "model") -> None:
    """Raises TypeError if an argument is not a Keras model."""
    if not isinstance(model, keras.Model):
        raise TypeError(
            f"`{argument}` must be a Keras model. "
            f"Received: {argument}={model!r} of type {type(model).__name__}"
        )


def is_built(model: keras.Model) -> bool:
    """Whether a model has its weights.

    A subclassed model may say that it is built when its layers are not.
    """
    layers = leaf_layers(model).values()
    return model.built and (
        bool(model.weights) or all(layer.built for layer in layers)
    )


def check_built(model: keras.Model) -> None:
    """Raises ValueError if a model has no weights yet."""
    if not is_built(model):
        raise ValueError(no_weights_yet(model))


def no_weights_yet(model: keras.Model) -> str:
    """The message about a model that is not built."""
    return (
        "The model has no weights yet. Give it a `keras.Input`, build it, or "
        f"call it on data first. Received: model '{model.name}'"
    )


def no_binary_weights(model: keras.Model) -> str:
    """The message about a model without binary weights."""
    if not is_built(model):
        return no_weights_yet(model)
    return (
        "The model has no binary weights. Build it with layers of keras_lab "
        f"such as `keras_lab.BinaryDense`. Received: model '{model.name}'"
    )


def is_functional(layer) -> bool:
    """Whether it is a Sequential or functional model with Keras' own `call`.

    Only such a model can be rebuilt layer by layer.
    """
    if not isinstance(layer, (keras.Sequential, functional_class())):
        return False
    return not any(
        "call" in vars(cls)
        for cls in type(layer).__mro__
        if not is_keras_class(cls)
    )


def is_keras_class(cls: type) -> bool:
    """Whether a class is part of Keras itself."""
    return cls.__module__.partition(".")[0] == "keras"


@functools.cache
def functional_class() -> type:
    """The class of functional models, which Keras does not export."""
    tensor = keras.Input(())
    return type(keras.Model(tensor, tensor))
