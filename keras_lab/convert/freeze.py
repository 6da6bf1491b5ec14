"""`freeze`: from a trained binary network to plain Keras layers.

Models are rebuilt part by part, with the Keras layer of the same name in the
place of every layer of keras_lab, also inside a wrapper. Each kernel becomes ŵ.
"""

import keras
import numpy as np
from keras import ops

from keras_lab.binary_weight import weights_of
from keras_lab.convert.rebuild import (
    Rebuilder,
    assign,
    check_model,
    without_alphas,
)
from keras_lab.layers.base import BinaryLayer
from keras_lab.layers.recurrent import BinaryRecurrent, BinaryRNN
from keras_lab.layers.recurrent_cells import BinaryCell

__all__ = ["freeze"]

PACKAGE = "keras_lab>"
SIGN = PACKAGE + "SignActivation"
WEIGHT_CLIP = PACKAGE + "WeightClip"


def freeze(model: keras.Model, strict: bool = True) -> keras.Model:
    """A new model of plain Keras layers that computes what `model` computes.

    Every kernel is ŵ = α·sign(w), a constant for whoever reads the model next:
    the TFLite exporter, ONNX, OpenVINO. Its file loads without keras_lab. A
    layer that binarizes its inputs becomes a small model of the same name: the
    sign, then the Keras layer. Keras has no recurrent layer that takes the sign
    of its state (`activation="sign"`, or `input_quantizer="sign"`).

    Args:
        model: A built Sequential or functional model, or a subclassed one with
            a `get_config` that names its layers. It is left as it is.
        strict: Whether a layer without a counterpart in Keras is an error. With
            `False` it stays a layer of keras_lab, in full precision with the
            kernel ŵ, and the file needs keras_lab to load.

    Returns:
        The new model, not compiled, with the outputs of `model`.

    Example:

    >>> keras_lab.freeze(model).save("plain.keras")
    """
    check_model(model, "freeze")
    return _Freezer(strict).rebuild(model)


class _Freezer(Rebuilder):
    """Makes plain counterparts."""

    def __init__(self, strict):
        super().__init__()
        self.strict = strict

    def new_config(self, layer):
        config = keras.saving.serialize_keras_object(layer)
        if "build_config" not in config and _is_sign_layer(config):
            # A layer without weights does not say its inputs' shape.
            config["build_config"] = {"input_shape": layer.input.shape}
        config = _plain(config)
        if self.strict and _names_keras_lab(config):
            raise ValueError(
                f"Layer '{layer.name}' has no counterpart in plain Keras: it "
                "takes the sign of its state. Received: a layer of type "
                f"{type(layer).__name__}. With `strict=False` it stays a layer "
                "of keras_lab."
            )
        return config

    def set_weights(self, layer, new):
        binary = {id(w.latent): w for w in weights_of(layer.weights)}
        # Those that no config knows of: the layer makes them itself.
        kept = {id(w.latent): w for w in weights_of(new.weights)}
        if kept and self.strict:
            raise ValueError(
                f"Layer '{layer.name}' makes layers of keras_lab that its "
                "config does not tell of, so they cannot be replaced. Received:"
                f" a layer of type {type(layer).__name__}. With `strict=False` "
                "they stay layers of keras_lab."
            )
        old_weights = without_alphas(layer.weights)
        new_weights = without_alphas(new.weights)
        values = []
        for weight, target in zip(old_weights, new_weights):
            value = weight
            if id(weight) in binary and id(target) not in kept:
                # As the forward pass uses it.
                value = binary[id(weight)].value()
            values.append((weight.name, np.asarray(value)))
        values += [(w.name, np.asarray(w)) for w in old_weights[len(values) :]]
        assign(new, new_weights, values)
        for weight, target in zip(old_weights, new_weights):
            if id(target) in kept:
                kept[id(target)].alpha.assign(binary[id(weight)].alpha)


def _plain(node):
    """A config with Keras' own classes in the place of those of keras_lab."""
    if isinstance(node, (list, tuple)):
        return type(node)(_plain(item) for item in node)
    if not isinstance(node, dict):
        return node
    name = node.get("registered_name") or ""
    # What only training needs: the compiled optimizer, the clipping.
    node = {k: _plain(v) for k, v in node.items() if k != "compile_config"}
    if name == WEIGHT_CLIP:
        return None
    config = node.get("config")
    if not isinstance(config, dict):
        return node
    if name.startswith(PACKAGE):
        cls = keras.saving.get_registered_object(name)
        if issubclass(cls, (BinaryCell, BinaryRecurrent)):
            return _plain_recurrent(node, config, cls)
        if issubclass(cls, BinaryRNN):
            _use_keras_class(node, cls)
        if issubclass(cls, BinaryLayer):
            del config["kernel_quantizer"]
            _use_keras_class(node, cls)
    before = _is_sign(config.pop("input_quantizer", None))
    after = _is_sign(config.get("activation"))
    if after:
        config["activation"] = "linear"
    return _between_signs(node, before, after) if before or after else node


def _plain_recurrent(node, config, cls):
    one_hot = config["one_hot"]
    signs = _is_sign(config["activation"]) or config["input_quantizer"]
    if signs or (one_hot is not None and issubclass(cls, BinaryCell)):
        config["kernel_quantizer"] = None
        return node
    for name in BinaryRecurrent._cell_options:
        del config[name]
    _use_keras_class(node, cls)
    return node if one_hot is None else _after_one_hot(node, one_hot)


def _use_keras_class(node, cls):
    bases = (b for b in cls.__mro__ if b.__module__.startswith("keras."))
    node["class_name"] = next(bases).__name__
    node.update(module="keras.layers", registered_name=None)


def _names_keras_lab(node):
    if isinstance(node, dict):
        name = node.get("registered_name") or ""
        parts = node.values()
        return name.startswith(PACKAGE) or any(map(_names_keras_lab, parts))
    return isinstance(node, (list, tuple)) and any(map(_names_keras_lab, node))


def _is_sign_layer(node):
    return _is_sign(node["config"].get("activation"))


def _is_sign(value):
    return isinstance(value, dict) and value.get("registered_name") == SIGN


def _between_signs(node, before, after):
    """The config of a model: sign, the layer, sign, or one of the two."""
    layer = keras.saving.deserialize_keras_object(node, safe_mode=False)
    shape = node["build_config"]["input_shape"]
    channels_first = node["config"].get("data_format") == "channels_first"
    channels = 1 if channels_first else len(shape) - 1
    # Several inputs of different sizes may share the layer.
    inputs = keras.Input(
        batch_shape=[
            size if axis == channels else None
            for axis, size in enumerate(shape)
        ]
    )
    outputs = layer(_sign(inputs) if before else inputs)
    model = keras.Model(
        inputs, _sign(outputs) if after else outputs, name=layer.name
    )
    return {**node, **keras.saving.serialize_keras_object(model)}


def _after_one_hot(node, length):
    """The config of a model: indices to one-hot vectors, then the layer."""
    build_config = node.pop("build_config")
    layer = keras.saving.deserialize_keras_object(node, safe_mode=False)
    inputs = keras.Input(batch_shape=build_config["input_shape"], dtype="int32")
    vectors = ops.one_hot(ops.squeeze(inputs, -1), length)
    model = keras.Model(inputs, layer(vectors), name=layer.name)
    return {**node, **keras.saving.serialize_keras_object(model)}


def _sign(x):
    """`keras_lab.ops.sign`, of operations that a file can hold."""
    return ops.where(ops.equal(x, 0.0), 1.0, ops.sign(x))
