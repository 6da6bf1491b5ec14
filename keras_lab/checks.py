"""Whether it is a model, built, and binary: asked and answered here."""

import keras

from keras_lab.analysis.names import leaf_layers

__all__ = ["check_is_model", "is_built", "no_weights_yet", "nothing_binary"]


def check_is_model(model) -> None:
    """An error, unless it is a Keras model."""
    if not isinstance(model, keras.Model):
        raise TypeError(
            "`model` must be a Keras model. "
            f"Received: model={model!r} of type {type(model).__name__}"
        )


def is_built(target: keras.Layer) -> bool:
    """Whether a layer, or each layer of a model, has its weights.

    A subclassed model may say that it is built when its layers are not.
    """
    layers = []
    if isinstance(target, keras.Model):
        layers = leaf_layers(target).values()
    return target.built and all(layer.built for layer in layers)


def no_weights_yet(target: keras.Layer) -> str:
    """What to say of a model or a layer that is not built."""
    return (
        f"{_kind(target)} '{target.name}' has no weights yet: give it a "
        "`keras.Input`, build it, or call it on data first."
    )


def nothing_binary(target: keras.Layer) -> str:
    """Why a model or a layer has no binary weights, in a sentence."""
    if not is_built(target):
        return no_weights_yet(target)
    return (
        f"{_kind(target)} '{target.name}' has no binary weights. Build it of "
        "the layers of keras_lab, such as `keras_lab.BinaryDense`."
    )


def _kind(target):
    return "Model" if isinstance(target, keras.Model) else "Layer"
