"""Which layers of Keras have a binary counterpart, and how to swap them.

Layers are swapped in their serialized form: another class, and the quantizers.
"""

import keras
import numpy as np

import keras_lab.layers
from keras_lab.constraints import WeightClip
from keras_lab.layer_tree import sublayers, with_inner_layers
from keras_lab.layers.attention import BinaryAttention
from keras_lab.layers.base import BinaryLayer
from keras_lab.layers.embedding import BinaryEmbedding
from keras_lab.layers.recurrent import BinaryRecurrent, BinaryRNN
from keras_lab.model_checks import is_keras_class
from keras_lab.quantizers import get_input_quantizer, get_kernel_quantizer

__all__ = [
    "can_be_first_or_last",
    "can_convert",
    "clip_limit",
    "convert_config",
    "inner_nodes",
    "is_altered",
    "is_binary",
    "options_of",
    "public_keras_name",
    "use_class",
    "why_not",
]

# Keras layers with layers inside.
WRAPPERS = {"Bidirectional", "TimeDistributed", "RNN", "StackedRNNCells"}
WRAPPERS |= {"Sequential", "Functional"}
BINARY_CLASSES = (BinaryLayer, BinaryAttention, BinaryRecurrent, BinaryRNN)


def public_keras_name(cls: type) -> str:
    """The name in `keras.layers` of the Keras layer that a class extends."""
    base = next(base for base in cls.__mro__ if is_keras_class(base))
    names = [name for name, x in vars(keras.layers).items() if x is base]
    return names[0] if names else base.__name__


# By the name in `keras.layers`. A plain RNN is converted if there is a cell to
# convert in it.
BINARY_LAYERS = [
    vars(keras_lab.layers)[name] for name in keras_lab.layers.__all__
]
COUNTERPARTS = {
    public_keras_name(cls): cls for cls in BINARY_LAYERS if cls is not BinaryRNN
}


def options_of(kernel_quantizer, input_quantizer) -> dict:
    """The arguments that binary layers add, in serialized form."""
    serialize = keras.saving.serialize_keras_object
    return {
        "kernel_quantizer": serialize(get_kernel_quantizer(kernel_quantizer)),
        "input_quantizer": serialize(get_input_quantizer(input_quantizer)),
    }


def convert_config(node: dict, options: dict, limit: float) -> bool:
    """Changes a serialized layer and the layers inside it to binary ones.

    Latent weights without a constraint are clipped at the limit. Returns
    whether there was a layer to change.
    """
    config, name = node["config"], node["class_name"]
    if (node["module"] or "").partition(".")[0] != "keras":
        return False  # A custom class may have any name.
    if name in WRAPPERS:
        inner = [x for value in config.values() for x in inner_nodes(value)]
        changed = any([convert_config(x, options, limit) for x in inner])
        if changed and name == "RNN":
            use_class(node, BinaryRNN)
        return changed
    if name not in COUNTERPARTS:
        return False
    cls = COUNTERPARTS[name]
    use_class(node, cls)
    config.update(options)
    if issubclass(cls, BinaryEmbedding):
        config["input_quantizer"] = None  # Its inputs are indices.
    if options["kernel_quantizer"] is not None:
        clip = keras.saving.serialize_keras_object(WeightClip(limit))
        cell = cls._cell if issubclass(cls, BinaryRecurrent) else cls
        for constraint in cell._constraints:
            if config.get(constraint) is None:
                config[constraint] = clip
    return True


def inner_nodes(value) -> list[dict]:
    """The serialized layers in an entry of a config."""
    nodes = value if isinstance(value, list) else [value]
    nodes = [x for x in nodes if isinstance(x, dict)]
    return [x for x in nodes if isinstance(x.get("config"), dict)]


def use_class(node: dict, cls: type) -> None:
    """Puts another class into a serialized object."""
    node.update(
        class_name=cls.__name__,
        module=cls.__module__,
        registered_name=keras.saving.get_registered_name(cls),
    )


def clip_limit(layer: keras.Layer) -> float:
    """The largest absolute weight in the kernels of a layer, at least 1."""
    largest = 1.0
    for weight in layer.weights:
        if "kernel" not in weight.name and weight.name != "embeddings":
            continue
        most = float(np.abs(weight.numpy()).max())
        if not np.isfinite(most):
            raise ValueError(
                f"Layer '{layer.name}' cannot be converted, because a weight "
                f"has a NaN or infinite value. Received: '{weight.path}'"
            )
        largest = max(largest, most)
    return largest


def can_convert(layer: keras.Layer) -> bool:
    """Whether a layer has a counterpart, or a layer inside it has one."""
    return why_not(layer) is None


def why_not(layer: keras.Layer) -> str | None:
    """Why a layer cannot be converted; `None` if it can."""
    if is_binary(layer):
        return "is binary already"
    if not is_keras_class(type(layer)):
        return "a custom layer"
    if isinstance(layer, keras.layers.ReversibleEmbedding):
        return "a tied embedding: its matrix can be the output projection, too"
    parts = sublayers(layer) if type(layer).__name__ in WRAPPERS else []
    if not _has_counterpart(layer) and not any(map(can_convert, parts)):
        reasons = [why_not(part) for part in parts if part.weights]
        return reasons[0] if reasons else "has no binary counterpart"
    return is_altered(layer)


def is_altered(layer: keras.Layer) -> str | None:
    """Whether Keras has changed how a layer computes, in words."""
    for part in with_inner_layers(layer):
        if part.quantization_mode is not None:
            return "is quantized already"
        if getattr(part, "lora_enabled", False):
            return "has LoRA weights"
    return None


def is_binary(layer: keras.Layer) -> bool:
    """Whether it is a layer of keras_lab."""
    return isinstance(layer, BINARY_CLASSES)


def can_be_first_or_last(layer: keras.Operation) -> bool:
    """Whether there is a layer in it that is binary or could become binary.

    A layer that must stay as it is counts, too: the one after it is not first.
    """
    if not isinstance(layer, keras.Layer):
        return False  # An operation, such as a sum.
    return any(
        is_binary(part)
        or _has_counterpart(part)
        or isinstance(part, keras.layers.Embedding)
        for part in with_inner_layers(layer)
    )


def _has_counterpart(layer):
    return public_keras_name(type(layer)) in COUNTERPARTS and is_keras_class(
        type(layer)
    )
