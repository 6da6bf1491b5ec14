"""Models rebuilt of new layers: by `freeze`, and by `binarize_model`.

Each layer is made anew from its config, in which another class may take the
place of its own. Then the weights are set, and what is neither in a config nor
a weight: an adapted vocabulary, the function of a Lambda.
"""

import contextlib
import functools
import random
import tempfile
import types

import keras

from keras_lab.binary_weight import weights_of
from keras_lab.checks import no_weights_yet

__all__ = [
    "Rebuilder",
    "assign",
    "check_model",
    "is_keras_class",
    "is_made_of_layers",
    "without_alphas",
]


def check_model(model, function):
    """Whether a model can be rebuilt of its layers; raises if not."""
    if not isinstance(model, keras.Model):
        raise TypeError(
            f"`{function}` needs a Keras model. "
            f"Received: model={model!r} of type {type(model).__name__}"
        )
    if not model.built:
        raise ValueError(no_weights_yet(model))
    try:
        model.get_config()
    except NotImplementedError as error:
        raise ValueError(
            f"Model '{model.name}' cannot be rebuilt of its layers: it has no "
            "`get_config`. Write it as a functional model, `keras.Model(inputs,"
            " outputs)`, or give it a `get_config` and `from_config`. "
            f"Received: a model of type {type(model).__name__}"
        ) from error


def is_made_of_layers(layer) -> bool:
    """Whether it is a Sequential or functional model, and no more than that."""
    if not isinstance(layer, (keras.Sequential, _functional_class())):
        return False
    return not any(
        "call" in vars(cls)
        for cls in type(layer).__mro__
        if not is_keras_class(cls)
    )


def is_keras_class(cls) -> bool:
    """Whether a class is one of Keras itself."""
    return cls.__module__.partition(".")[0] == "keras"


@functools.cache
def _functional_class():
    # Keras does not export it.
    tensor = keras.Input(())
    return type(keras.Model(tensor, tensor))


class Rebuilder:
    """Rebuilds models of new layers: of a layer that is shared, one.

    A subclass says in `new_config` what a layer becomes, and in `set_weights`
    what its weights are then.
    """

    def __init__(self):
        self._copies = {}
        self._pairs = []

    def new_config(self, layer):
        """The serialized form of what takes the place of a layer."""
        raise NotImplementedError

    def set_weights(self, layer, new):
        """Sets the weights of a layer's counterpart."""
        raise NotImplementedError

    def rebuild(self, model: keras.Model) -> keras.Model:
        """The counterpart of a model."""
        # New layers draw the seeds of initial weights that nobody will see: a
        # training that goes on must not notice.
        state = random.getstate()
        try:
            rebuilt = self._copy(model)
            for layer, new in self._pairs:
                self.set_weights(layer, new)
                _copy_state(layer, new)
        finally:
            random.setstate(state)
        return rebuilt

    def _copy(self, layer):
        if id(layer) not in self._copies:
            self._copies[id(layer)] = self._new_copy(layer)
        return self._copies[id(layer)]

    def _new_copy(self, layer):
        if is_made_of_layers(layer):
            return self._new_model(layer)
        if not isinstance(layer, keras.Layer):
            # An operation, such as a product.
            return type(layer).from_config(layer.get_config())
        try:
            with (
                _own_objects(layer) as objects,
                keras.saving.custom_object_scope(objects),
            ):
                new = keras.saving.deserialize_keras_object(
                    self.new_config(layer), safe_mode=False
                )
        except TypeError as error:
            raise ValueError(
                f"'{layer.name}' cannot be rebuilt from its config. Give its "
                "class a `get_config` of all that `__init__` takes, `name` "
                "among it; or write a model as a functional one. Received: an "
                f"object of type {type(layer).__name__}"
            ) from error
        _copy_functions(layer, new)
        self._pairs.append((layer, new))
        return new

    def _new_model(self, model):
        if isinstance(model, keras.Sequential):
            inputs = _new_inputs(keras.Model(model.inputs, model.outputs))
            layers = [self._copy(part) for part in model.layers]
            return keras.Sequential([*inputs, *layers], name=model.name)
        # Neither what was compiled nor the class of a subclass.
        model = keras.Model(model.input, model.output, name=model.name)
        return keras.models.clone_model(
            model, _new_inputs(model), clone_function=self._copy
        )


def _new_inputs(model):
    """Inputs like those of a functional model, of the same names."""
    layers = {
        id(layer.output): layer
        for layer in model.layers
        if isinstance(layer, keras.layers.InputLayer)
    }
    return keras.tree.map_structure(
        lambda tensor: keras.Input(**_input_options(layers[id(tensor)])),
        model.input,
    )


def _input_options(layer):
    names = ("batch_shape", "dtype", "sparse", "ragged", "optional", "name")
    options = {name: getattr(layer, name, None) for name in names}
    return {name: value for name, value in options.items() if value}


@contextlib.contextmanager
def _own_objects(layer):
    """Classes and functions that Keras would not find, by their names.

    For the time being each function has a name of its own. A config names
    functions, and two may have the same name, as all lambdas do.
    """
    parts = layer._flatten_layers()
    classes = {type(part) for part in parts if not is_keras_class(type(part))}
    objects = {keras.saving.get_registered_name(cls): cls for cls in classes}
    functions = {f: f.__name__ for part in parts for f in _own_functions(part)}
    try:
        for number, function in enumerate(functions):
            function.__name__ = f"function_{number}"
            objects[function.__name__] = function
        yield objects
    finally:
        for function, name in functions.items():
            function.__name__ = name


def _own_functions(layer):
    """The user's functions among a layer's attributes."""
    return [
        value
        for value in vars(layer).values()
        if isinstance(value, types.FunctionType)
        and value.__module__.partition(".")[0] not in ("keras", "keras_lab")
    ]


def _copy_functions(layer, new):
    """Those of Lambdas: a config has their code, not the names around it."""
    for part, new_part in zip(layer._flatten_layers(), new._flatten_layers()):
        if isinstance(part, keras.layers.Lambda) and type(part) is type(
            new_part
        ):
            new_part.function = part.function


def _copy_state(layer, new):
    """What is neither in a config nor a weight."""
    for old_part, new_part in zip(
        layer._flatten_layers(), new._flatten_layers()
    ):
        if type(old_part) is not type(new_part):
            continue
        if hasattr(old_part, "finalize_state"):
            # Adapted to data, as a Normalization is.
            variables = {}
            old_part.save_own_variables(variables)
            new_part.load_own_variables(variables)
        if hasattr(old_part, "save_assets"):
            with tempfile.TemporaryDirectory() as folder:
                old_part.save_assets(folder)
                new_part.load_assets(folder)


def without_alphas(weights):
    """The weights that a layer of Keras would have, too."""
    alphas = {id(weight.alpha) for weight in weights_of(weights)}
    return [weight for weight in weights if id(weight) not in alphas]


def assign(layer, weights, values):
    """Sets some weights of a rebuilt layer.

    Args:
        layer: The layer.
        weights: Its weights.
        values: (name, array) for each.
    """
    expected = [(_name(w.name), tuple(w.shape)) for w in weights]
    received = [(_name(name), value.shape) for name, value in values]
    if expected != received:
        raise ValueError(
            f"Layer '{layer.name}' is not what its config says: rebuilt from "
            f"it, it has the weights {expected}. Received: {received}"
        )
    for weight, (_, value) in zip(weights, values):
        weight.assign(value)


def _name(name):
    # A weight that its layer gave no name is `variable_17`.
    return name.rstrip("_0123456789")
