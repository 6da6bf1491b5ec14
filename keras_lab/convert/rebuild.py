"""Rebuilds a model from new layers, for `freeze` and `binarize_model`.

Each layer is created again from its config, in which another class may replace
its own. Then its weights are set, and what is neither in a config nor a weight,
such as an adapted vocabulary.
"""

import collections
import contextlib
import inspect
import random
import types

import keras

from keras_lab.convert.counterparts import inner_nodes
from keras_lab.convert.graph import Call, trace
from keras_lab.convert.states import copy_state
from keras_lab.convert.trial_calls import computes_the_same
from keras_lab.layer_tree import leaf_layers, sublayers, walk, with_inner_layers
from keras_lab.model_checks import (
    check_built,
    check_is_model,
    is_functional,
    is_keras_class,
)

__all__ = [
    "Rebuilder",
    "check_can_rebuild",
    "known_arguments",
    "unchanged_seeds",
]


def check_can_rebuild(model) -> None:
    """Raises an error if a model cannot be rebuilt from its layers."""
    check_is_model(model)
    check_built(model)
    if is_functional(model):
        for part in leaf_layers(model, is_functional).values():
            _check_config(part, "layer")
    else:
        _check_config(model, "model")


def _check_config(layer, kind):
    try:
        layer.get_config()
    except Exception as error:
        # It is the user's code, which may raise anything.
        problem = f"its `get_config` raises {type(error).__name__}: {error}"
        if isinstance(error, NotImplementedError):
            problem = (
                "its class has no `get_config`. Give it one with all arguments "
                "of `__init__`, or write a model as a functional one, "
                "`keras.Model(inputs, outputs)`"
            )
        raise ValueError(
            f"The {kind} '{layer.name}' cannot be rebuilt: {problem}. "
            f"Received: a {kind} of type {type(layer).__name__}"
        ) from error


@contextlib.contextmanager
def unchanged_seeds():
    """Inside, new layers may draw seeds for weights that nobody uses.

    A training that continues afterwards must not depend on that.
    """
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)


class Rebuilder:
    """Rebuilds models. A shared layer is rebuilt once.

    A subclass defines with `new_config` what replaces a layer, and with
    `set_weights` which weights it then has.

    Attributes:
        pairs: Each layer with the one that replaces it.
        models: The same for models, the inner ones first.
        calls: The calls in the graph of the model, if it has one.
    """

    def __init__(self):
        self.pairs = []
        self.models = []
        self.calls = []
        self._copies = {}
        self._functions = {}
        self._parts = set()
        self._classes = {}

    def new_config(self, layer: keras.Layer) -> dict:
        """The serialized form of the layer that replaces a layer."""
        raise NotImplementedError

    def set_weights(self, layer: keras.Layer, new: keras.Layer) -> None:
        """Sets the weights of the layer that replaces a layer."""
        raise NotImplementedError

    def check(self, layer: keras.Layer, new: keras.Layer, call: Call) -> None:
        """Raises ValueError if a custom layer computes something else now."""
        if not computes_the_same(layer, new, call):
            raise ValueError(
                f"Layer '{layer.name}' computes something else if it is "
                "rebuilt from its config. Give its class a `get_config` with "
                "all arguments of `__init__`, and set no other attributes. "
                f"Received: a layer of type {type(layer).__name__}"
            )

    def rebuild(self, model: keras.Model) -> keras.Model:
        """Returns the new model."""
        self.calls = trace(model).calls if is_functional(model) else []
        layers = [layer for layer in walk(model).values() if layer.weights]
        self._parts = set(map(id, [*layers, *model.variables]))
        with unchanged_seeds():
            rebuilt = self._copy(model)
            for layer, new in self.pairs:
                self.set_weights(layer, new)
                copy_state(layer, new)
            for call in {id(call.layer): call for call in self.calls}.values():
                if _has_custom_layers(call.layer):
                    self.check(call.layer, self._copy(call.layer), call)
        return rebuilt

    def serialize(self, layer: keras.Layer) -> dict:
        """The serialized form of a layer, with references to its functions.

        Keras writes a function as its name or its code. Neither is enough to
        find it again: two functions may have the same name, as all lambdas do,
        and the code does not include the names that it uses.
        """
        config = keras.saving.serialize_keras_object(layer)
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
            if is_function and _is_users(original) and isinstance(value, dict):
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

    def _copy(self, layer):
        if id(layer) not in self._copies:
            self._copies[id(layer)] = self._new_copy(layer)
        return self._copies[id(layer)]

    def _new_copy(self, layer):
        if is_functional(layer):
            new = self._new_model(layer)
            self.models.append((layer, new))
            return new
        if not isinstance(layer, keras.Layer):
            # An operation, such as a product.
            return type(layer).from_config(layer.get_config())
        new = self.new_layer(layer)
        new.name = layer.name  # A config may lack it.
        self.pairs.append((layer, new))
        return new

    def new_layer(self, layer: keras.Layer) -> keras.Layer:
        """Creates the layer that replaces a layer, without weights."""
        self._find_classes(layer)
        config = self.new_config(layer)
        try:
            try:
                return self.deserialize(config)
            except TypeError:
                known = known_arguments(type(layer), config["config"])
                if "name" not in known or len(known) == len(config["config"]):
                    raise
                return self.deserialize(self.lenient_config(config, known))
        except TypeError as error:
            raise ValueError(
                f"'{layer.name}' cannot be rebuilt from its config. Give its "
                "class a `get_config` with all arguments of `__init__`, `name` "
                "included, or write a model as a functional one. Received: an "
                f"object of type {type(layer).__name__}"
            ) from error

    def lenient_config(self, config: dict, known: dict) -> dict:
        """Another serialized form of a layer whose config has too much in it.

        Its class takes only the `known` part.
        """
        return {**config, "config": known}

    def call(self, layer, *args, **kwargs):
        """Calls a new layer in the graph of the new model."""
        return layer(*args, **kwargs)

    def recreate(self, layer: keras.Layer, change) -> keras.Layer:
        """Creates one layer again, from a change of its serialized form."""
        self._find_classes(layer)
        return self.deserialize(change(self.serialize(layer)))

    def _find_classes(self, layer):
        # Keras finds only classes that are registered.
        self._classes = {
            keras.saving.get_registered_name(type(part)): type(part)
            for part in with_inner_layers(layer)
            if not is_keras_class(type(part))
        }

    def _new_model(self, model):
        shared = _shared_with_inner_models(model)
        if shared:
            return self._flat_model(model, shared)
        if isinstance(model, keras.Sequential):
            inputs = _new_inputs(keras.Model(model.inputs, model.outputs))
            layers = [self._copy(part) for part in model.layers]
            return keras.Sequential([*inputs, *layers], name=model.name)
        # Not compiled, and not an instance of a subclass.
        model = keras.Model(model.input, model.output, name=model.name)
        return keras.models.clone_model(
            model,
            _new_inputs(model),
            clone_function=self._copy,
            call_function=self.call,
        )

    def _flat_model(self, model, shared):
        """A new model without inner models that hold one of the layers.

        Keras cannot load a file in which two models share a layer.
        """
        graph = trace(model, enter=lambda inner: _holds(inner, shared))
        if isinstance(model, keras.Sequential):
            ends = model.inputs[0], model.outputs[0]
            model = keras.Model(*ends, name=model.name)
        inputs = _new_inputs(model)
        flat = keras.tree.flatten(inputs)
        new = dict(zip(map(id, graph.inputs), flat))
        for call in graph.calls:
            args, kwargs = keras.tree.map_structure(
                lambda x: new.get(id(x), x), call.arguments
            )
            outputs = self.call(self._copy(call.layer), *args, **kwargs)
            flat = zip(*map(keras.tree.flatten, (call.outputs, outputs)))
            new.update((id(old), tensor) for old, tensor in flat)
        outputs = [new[id(x)] for x in graph.outputs]
        outputs = keras.tree.pack_sequence_as(model.output, outputs)
        return keras.Model(inputs, outputs, name=model.name)


def _shared_with_inner_models(model):
    """The ids of the layers with weights that two of the models hold."""
    parts = [model, *walk(model, enter=is_functional).values()]
    count = collections.Counter(
        id(layer)
        for part in filter(is_functional, parts)
        for layer in part.layers
        if layer.weights
    )
    return {key for key, number in count.items() if number > 1}


def _holds(model, layers):
    return not layers.isdisjoint(map(id, walk(model).values()))


def known_arguments(cls: type, config: dict) -> dict:
    """A config without entries that no `__init__` of the class takes.

    Some layers of KerasHub put more into their config.
    """
    names = set()
    for base in cls.__mro__:
        if "__init__" in vars(base):
            names |= set(inspect.signature(base.__init__).parameters)
    return {name: value for name, value in config.items() if name in names}


def _has_custom_layers(layer):
    """Whether a class of the user is in it, not of Keras or keras_lab."""
    return isinstance(layer, keras.Layer) and any(
        map(_is_users, map(type, with_inner_layers(layer)))
    )


def _is_users(thing):
    return thing.__module__.partition(".")[0] not in ("keras", "keras_lab")


def _new_inputs(model):
    """Inputs like those of a functional model, with the same names."""
    configs = {
        id(layer.output): layer.get_config()
        for layer in model.layers
        if isinstance(layer, keras.layers.InputLayer)
    }
    return keras.tree.map_structure(
        lambda tensor: (
            keras.layers.InputLayer.from_config(configs[id(tensor)]).output
        ),
        model.input,
    )
