"""`freeze`: from a trained binary network to plain Keras layers.

The model is rebuilt from its layers. The Keras layer of the same name replaces
every layer of keras_lab, also inside a wrapper. Each kernel becomes ŵ.
"""

import collections
import functools

import keras
from keras import ops

from keras_lab.binary_weight import weights_of
from keras_lab.convert.counterparts import public_keras_name
from keras_lab.convert.rebuild import Rebuilder
from keras_lab.convert.states import assign, without_alphas
from keras_lab.layers.attention import BinaryAttention
from keras_lab.layers.base import BinaryLayer
from keras_lab.layers.recurrent import BinaryRecurrent, BinaryRNN
from keras_lab.layers.recurrent_cells import BinaryCell
from keras_lab.model_checks import check_built, check_is_model

__all__ = ["freeze"]

PACKAGE = "keras_lab>"
SIGN = PACKAGE + "SignActivation"
WEIGHT_CLIP = PACKAGE + "WeightClip"
BLOCK = PACKAGE + "BinaryBlock"


def freeze(model: keras.Model, strict: bool = True) -> keras.Model:
    """Returns a model of plain Keras layers with the outputs of `model`.

    Every kernel is ŵ = α·sign(w), a constant for any tool that reads the model:
    the TFLite exporter, ONNX, OpenVINO. Its file loads without keras_lab. A
    layer that binarizes its inputs becomes a small model of the same name: the
    sign, then the Keras layer. Keras has no recurrent layer that takes the sign
    of its state (`activation="sign"` or `input_quantizer="sign"`), and no
    attention or custom layer that takes the sign of the inputs of its layers.

    Args:
        model: A built Sequential or functional model, or a subclassed one whose
            `get_config` includes its layers. It is left unchanged.
        strict: Whether to raise an error if a layer has no counterpart in
            Keras, or if a custom layer computes something else when it is
            rebuilt from its config. With `False` a layer without a counterpart
            stays a layer of keras_lab, in full precision with the kernel ŵ, and
            the file needs keras_lab to load. Defaults to `True`.

    Returns:
        The new model, not compiled.

    Raises:
        ValueError: If the model cannot be rebuilt, or if `strict` and a layer
            has no counterpart in Keras.

    Example:

    >>> keras_lab.freeze(model).save("plain.keras")
    """
    check_is_model(model)
    check_built(model)
    return _Freezer(strict).rebuild(model)


class _Freezer(Rebuilder):
    """Rebuilds a model with plain Keras layers."""

    def __init__(self, strict):
        super().__init__()
        self.strict = strict
        self._signs = {}

    @functools.cached_property
    def _mixed(self):
        """The ids of binary layers that take inputs of several ranks."""
        ranks = collections.defaultdict(set)
        for call in self.calls:
            if isinstance(call.layer, BinaryLayer) and len(call.inputs) == 1:
                ranks[id(call.layer)].add(len(call.inputs[0].shape))
        return {key for key, found in ranks.items() if len(found) > 1}

    def new_config(self, layer):
        config = self.serializer.serialize(layer)
        has_sign = _is_sign(config["config"].get("activation"))
        if has_sign and "build_config" not in config:
            # A layer without weights does not save the shape of its inputs.
            config["build_config"] = {"input_shape": layer.input.shape}
        if id(layer) in self._mixed:
            # A model between signs takes inputs of one rank only.
            self._signs[id(layer)] = _take_signs(config["config"])
        config = self._plain(config)
        if self.strict and _names_keras_lab(config):
            raise ValueError(
                f"Layer '{layer.name}' has no counterpart in plain Keras: it "
                "takes the sign of values inside it. With `strict=False` it "
                "stays a layer of keras_lab. Received: a layer of type "
                f"{type(layer).__name__}"
            )
        return config

    def check(self, layer, new, call):
        if self.strict:
            super().check(layer, new, call)

    def call(self, layer, new, args, kwargs):
        before, after = self._signs.get(id(layer), (False, False))
        y = new(*map(_sign, args) if before else args, **kwargs)
        return _sign(y) if after else y

    def set_weights(self, layer, new):
        binary = {id(w.latent): w for w in weights_of(layer.weights)}
        # A custom layer may create layers that its config does not include.
        kept = {id(w.latent): w for w in weights_of(new.weights)}
        if kept and self.strict:
            raise ValueError(
                f"Layer '{layer.name}' creates layers of keras_lab that its "
                "config does not include, so they cannot be replaced. With "
                "`strict=False` they stay layers of keras_lab. Received: a "
                f"layer of type {type(layer).__name__}"
            )
        old_weights = without_alphas(layer.weights)
        new_weights = without_alphas(new.weights)
        # Kernels have the value that the forward pass uses.
        values = [
            binary[id(weight)].value() if id(weight) in binary else weight
            for weight in old_weights
        ]
        values = [
            (weight.name, ops.convert_to_numpy(value))
            for weight, value in zip(old_weights, values)
        ]
        assign(new, new_weights, values)
        for weight, target in zip(old_weights, new_weights):
            if id(target) in kept:
                kept[id(target)].alpha.assign(binary[id(weight)].alpha)

    def _plain(self, node):
        """A config with Keras' own classes instead of those of keras_lab."""
        if isinstance(node, (list, tuple)):
            return type(node)(self._plain(item) for item in node)
        if not isinstance(node, dict):
            return node
        name = node.get("registered_name") or ""
        if name == WEIGHT_CLIP:
            return None  # Only training needs it.
        if name == BLOCK:
            return self._plain_block(node)
        if node.get("class_name") == "Bidirectional":
            node, length = _take_one_hot(node)
            if length is not None:
                return self._after_one_hot(self._plain(node), length)
        node = {
            key: self._plain(value)
            for key, value in node.items()
            if key != "compile_config"
        }
        config = node.get("config")
        if not isinstance(config, dict):
            return node
        if name.startswith(PACKAGE):
            cls = keras.saving.get_registered_object(name)
            if issubclass(cls, (BinaryCell, BinaryRecurrent)):
                return self._plain_recurrent(node, config, cls)
            if issubclass(cls, (BinaryLayer, BinaryAttention)):
                return self._plain_layer(node, config, cls)
            if issubclass(cls, BinaryRNN):
                _use_keras_class(node, cls)
        return self._between_signs(node, *_take_signs(config))

    def _plain_layer(self, node, config, cls):
        quantizer = config["input_quantizer"]
        if issubclass(cls, BinaryLayer) and _is_sign(quantizer):
            quantizer = None  # The sign can be taken before the layer.
        if quantizer:
            config["kernel_quantizer"] = None
            return node
        signs = _take_signs(config)
        del config["kernel_quantizer"], config["input_quantizer"]
        _use_keras_class(node, cls)
        return self._between_signs(node, *signs)

    def _plain_recurrent(self, node, config, cls):
        one_hot = config["one_hot"]
        signs = _is_sign(config["activation"]) or config["input_quantizer"]
        if signs or (one_hot is not None and issubclass(cls, BinaryCell)):
            config["kernel_quantizer"] = None
            return node
        for name in BinaryRecurrent._cell_options:
            del config[name]
        _use_keras_class(node, cls)
        return node if one_hot is None else self._after_one_hot(node, one_hot)

    def _plain_block(self, node):
        """The config of the custom layer that a block extends."""
        config = node["config"]
        plan = _with_signs(config["plan"])
        if plan:
            return {**node, "config": {**config, "plan": plan}}
        return {**node, **self._plain(config["block"])}

    def _between_signs(self, node, before, after):
        """The config of a model: the layer between one or two signs."""
        if not (before or after):
            return node
        shape = node["build_config"]["input_shape"]
        channels_first = node["config"].get("data_format") == "channels_first"
        channels = 1 if channels_first else len(shape) - 1
        # Inputs of different sizes may share the layer.
        sizes = [
            n if axis == channels else None for axis, n in enumerate(shape)
        ]
        x = keras.Input(batch_shape=sizes)
        layer = self.serializer.deserialize(node)
        y = layer(_sign(x) if before else x)
        model = keras.Model(x, _sign(y) if after else y, name=layer.name)
        return {**node, **self.serializer.serialize(model)}

    def _after_one_hot(self, node, length):
        """The config of a model: indices to one-hot vectors, then the layer."""
        shape = node.pop("build_config")["input_shape"]
        layer = self.serializer.deserialize(node)
        x = keras.Input(batch_shape=shape, dtype="int32")
        y = layer(ops.one_hot(ops.squeeze(x, -1), length))
        model = keras.Model(x, y, name=layer.name)
        return {**node, **self.serializer.serialize(model)}


def _with_signs(plan):
    """The entries of a plan that binarize inputs, in full precision."""
    kept = {}
    for key, entry in plan.items():
        if "plan" in entry:
            inner = _with_signs(entry["plan"])
            kept |= {key: {"plan": inner}} if inner else {}
        elif entry["options"]["input_quantizer"] is not None:
            options = {**entry["options"], "kernel_quantizer": None}
            kept[key] = {**entry, "options": options}
    return kept


def _take_one_hot(node):
    """The config of a `Bidirectional` without `one_hot`, and its length."""
    config = dict(node["config"])
    names = [n for n in ("layer", "backward_layer") if config.get(n)]
    lengths = {config[name]["config"].get("one_hot") for name in names}
    if lengths == {None} or len(lengths) > 1:
        return node, None
    for name in names:
        inner = {k: v for k, v in config[name].items() if k != "build_config"}
        config[name] = {**inner, "config": {**inner["config"], "one_hot": None}}
    return {**node, "config": config}, lengths.pop()


def _use_keras_class(node, cls):
    name = public_keras_name(cls)
    node.update(class_name=name, module="keras.layers", registered_name=None)


def _names_keras_lab(node):
    if isinstance(node, dict):
        name = node.get("registered_name") or ""
        parts = node.values()
        return name.startswith(PACKAGE) or any(map(_names_keras_lab, parts))
    return isinstance(node, (list, tuple)) and any(map(_names_keras_lab, node))


def _is_sign(value):
    return isinstance(value, dict) and value.get("registered_name") == SIGN


def _take_signs(config):
    """Removes the signs of a layer's inputs and outputs; tells which it had."""
    before = _is_sign(config.get("input_quantizer"))
    after = _is_sign(config.get("activation"))
    if before:
        config["input_quantizer"] = None
    if after:
        config["activation"] = "linear"
    return before, after


def _sign(x):
    """`keras_lab.ops.sign`, made of operations that Keras can save."""
    return ops.where(ops.equal(x, 0.0), 1.0, ops.sign(x))
