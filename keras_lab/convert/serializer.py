"""The serialized form of layers, for a layer that is made again at once."""

import inspect
import types

import keras

from keras_lab.convert.counterparts import inner_nodes
from keras_lab.layer_tree import sublayers, with_inner_layers
from keras_lab.model_checks import is_keras_class

__all__ = ["Serializer", "is_users"]


class Serializer:
    """Serializes layers and makes them again, with the same functions.

    Keras writes a function as its name or its code. Neither is enough to find
    it again: two functions may have the same name, as all lambdas do, and the
    code does not include the names that it uses. Here the serialized form has
    a reference to the function.

    Args:
        parts: The `id`s of the layers and variables that no function may use.
    """

    def __init__(self, parts=()):
        self._parts = frozenset(parts)
        self._functions = {}
        self._classes = {}

    def serialize(self, layer: keras.Layer) -> dict:
        """The serialized form of a layer."""
        # Keras finds only classes that are registered.
        for part in with_inner_layers(layer):
            cls = type(part)
            if not is_keras_class(cls):
                self._classes[keras.saving.get_registered_name(cls)] = cls
        try:
            config = keras.saving.serialize_keras_object(layer)
        except Exception as error:
            # It is the user's code, which may raise anything.
            problem = f"its `get_config` raises {type(error).__name__}: {error}"
            if isinstance(error, NotImplementedError):
                problem = (
                    "its class has no `get_config`. Give it one with all "
                    "arguments of `__init__`, or write a model as a functional "
                    "one, `keras.Model(inputs, outputs)`"
                )
            raise ValueError(
                f"'{layer.name}' cannot be rebuilt: {problem}. Received: an "
                f"object of type {type(layer).__name__}"
            ) from error
        self._refer_to_functions(config, layer)
        return config

    def deserialize(self, config: dict):
        """Creates the object that `serialize` described."""
        objects = {**self._classes, **self._functions}
        with keras.saving.custom_object_scope(objects):
            return keras.saving.deserialize_keras_object(
                config, safe_mode=False
            )

    def _refer_to_functions(self, node, owner):
        config, parts = node.get("config"), sublayers(owner)
        if not isinstance(config, dict):
            return
        if type(owner).build is keras.Layer.build:
            # Keras would call it built, but only a call builds what is inside.
            node.pop("build_config", None)
        for name, value in config.items():
            original = getattr(owner, name, None)
            is_function = isinstance(original, types.FunctionType)
            if is_function and is_users(original) and isinstance(value, dict):
                self._check_uses_no_part(original, owner)
                config[name] = self._reference(original)
            for inner in inner_nodes(value):
                # A config may also have an input, or operations.
                name_inside = inner["config"].get("name")
                found = [part for part in parts if part.name == name_inside]
                if found:
                    parts.remove(found[0])
                    self._refer_to_functions(inner, found[0])

    def _check_uses_no_part(self, function, owner):
        """Raises ValueError if a function uses a layer of the model.

        The new model would depend on the old one.
        """
        found = inspect.getclosurevars(function)
        for name, used in {**found.globals, **found.nonlocals}.items():
            is_layer = isinstance(used, keras.Layer)
            inside = with_inner_layers(used) if is_layer else [used]
            if not self._parts.isdisjoint(map(id, inside)):
                raise ValueError(
                    f"The function of layer '{owner.name}' and the model share "
                    f"'{name}', for example a tied embedding, so they cannot "
                    "be rebuilt. Convert the part of the model without them. "
                    f"Received: a layer of type {type(owner).__name__} that "
                    f"uses {used!r:.200}"
                )

    def _reference(self, function):
        key = f"keras_lab_function_{id(function)}"
        self._functions[key] = function
        return {
            "module": "builtins",
            "class_name": "function",
            "config": key,
            "registered_name": "function",
        }


def is_users(thing) -> bool:
    """Whether a class or function is neither of Keras nor of keras_lab."""
    return thing.__module__.partition(".")[0] not in ("keras", "keras_lab")
