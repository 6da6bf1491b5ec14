"""Rebuilds a model from new layers, for `freeze` and `binarize_model`.

Each layer is created again from its config, in which another class may replace
its own. Then its weights are set, and what is neither in a config nor a weight,
such as an adapted vocabulary.
"""

import collections
import contextlib
import inspect
import random

import keras

from keras_lab.convert.graph import Call, trace
from keras_lab.convert.serializer import Serializer, is_users
from keras_lab.convert.states import copy_state
from keras_lab.convert.trial_calls import computes_the_same
from keras_lab.layer_tree import walk, with_inner_layers
from keras_lab.model_checks import is_functional

__all__ = ["Rebuilder", "known_arguments", "unchanged_seeds"]


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
        serializer: What the layers are serialized with.
    """

    def __init__(self):
        self.pairs = []
        self.models = []
        self.calls = []
        self.serializer = Serializer()
        self._copies = {}

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
        self.serializer = Serializer(map(id, [*layers, *model.variables]))
        with unchanged_seeds():
            rebuilt = self._copy(model)
            for layer, new in self.pairs:
                self.set_weights(layer, new)
                copy_state(layer, new)
            for call in {id(call.layer): call for call in self.calls}.values():
                if _has_custom_layers(call.layer):
                    self.check(call.layer, self._copy(call.layer), call)
        return rebuilt

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
        new = self._new_layer(layer)
        new.name = layer.name  # A config may lack it.
        self.pairs.append((layer, new))
        return new

    def _new_layer(self, layer):
        """Creates the layer that replaces a layer, without weights."""
        config = self.new_config(layer)
        try:
            try:
                return self.serializer.deserialize(config)
            except TypeError:
                known = known_arguments(type(layer), config["config"])
                if "name" not in known or len(known) == len(config["config"]):
                    raise
                config = self.lenient_config(config, known)
                return self.serializer.deserialize(config)
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

    def call(self, layer, new, args, kwargs):
        """Calls what replaces a layer, in the graph of the new model."""
        return new(*args, **kwargs)

    def _new_model(self, model):
        shared = _shared_with_inner_models(model)
        if isinstance(model, keras.Sequential):
            ends = model.inputs[0], model.outputs[0]
            graph = keras.Model(*ends, name=model.name)
            if shared:
                return self._new_functional(graph, shared)
            layers = [self._copy(part) for part in model.layers]
            return keras.Sequential(
                [_new_inputs(graph), *layers], name=model.name
            )
        return self._new_functional(model, shared)

    def _new_functional(self, model, shared):
        """A new model without inner models that hold one of the shared layers.

        Keras cannot load a file in which two models share a layer.
        """
        graph = trace(model, enter=lambda inner: _holds(inner, shared))
        inputs = _new_inputs(model)
        new = dict(zip(map(id, graph.inputs), keras.tree.flatten(inputs)))
        for call in graph.calls:
            args, kwargs = keras.tree.map_structure(
                lambda x: new.get(id(x), x), call.arguments
            )
            layer = self._copy(call.layer)
            outputs = self.call(call.layer, layer, args, kwargs)
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
        map(is_users, map(type, with_inner_layers(layer)))
    )


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
