"""The layers of a model, each under one unique path, and their calls.

Keras' own paths are not unique: two models inside a model may each have a layer
`dense`. Here a path has the names of all models and layers around a layer.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import keras

from keras_lab.binary_weight import BinaryWeight, weights_of

__all__ = [
    "Call",
    "Graph",
    "binary_weights",
    "check_built",
    "check_is_model",
    "first_and_last",
    "functional_class",
    "is_built",
    "is_functional",
    "is_keras_class",
    "leaf_layers",
    "no_binary_weights",
    "no_weights_yet",
    "sublayers",
    "trace",
    "walk",
    "with_inner_layers",
]


def walk(
    model: keras.Layer, enter: Callable[[keras.Layer], bool] | None = None
) -> dict[str, keras.Layer]:
    """Every layer inside a model, by its unique path.

    The layers inside models, wrappers, cells and custom layers are included,
    also those in lists and dicts. A layer that is used several times appears
    once, under the first of its paths. If two layers have the same name in the
    same place, the second one gets a number.

    Args:
        model: A model, or any other layer. It is not part of the result.
        enter: Whether to look inside a layer. Defaults to `None`: always.

    Returns:
        A dict from paths such as `"encoder/dense_1"` to layers, in the order
        of `model.layers`. A layer comes before the layers inside it.

    Example:

    >>> for path, layer in keras_lab.walk(model).items():
    ...     print(path, type(layer).__name__)
    """
    if not isinstance(model, keras.Layer):
        raise TypeError(
            "`model` must be a Keras model or layer. "
            f"Received: model={model!r} of type {type(model).__name__}"
        )
    layers, seen = {}, {id(model)}

    def visit(layer, prefix):
        for inner in sublayers(layer):
            if id(inner) in seen:
                continue
            seen.add(id(inner))
            path = _unused(prefix + inner.name, layers)
            layers[path] = inner
            if enter is None or enter(inner):
                visit(inner, f"{path}/")

    visit(model, "")
    return layers


def with_inner_layers(layer: keras.Layer) -> list[keras.Layer]:
    """The layer itself, then every layer inside it."""
    return [layer, *walk(layer).values()]


def leaf_layers(
    model: keras.Model, is_container: Callable | None = None
) -> dict[str, keras.Layer]:
    """The layers of a model by path; a container gives those inside it.

    By default, each model is a container.
    """
    is_container = is_container or _is_model
    layers = walk(model, enter=is_container)
    return {path: x for path, x in layers.items() if not is_container(x)}


def binary_weights(model: keras.Layer) -> dict[str, BinaryWeight]:
    """The binary weights of a model or layer, by unique path.

    Args:
        model: A built model, or any other layer.

    Returns:
        A dict from paths such as `"encoder/dense_1/kernel"` to
        `keras_lab.BinaryWeight`s: the path of the layer, as in
        `keras_lab.walk`, then the name of the latent weight. The cell of a
        recurrent layer is left out: `"lstm/recurrent_kernel"`. A shared weight
        appears once.

    Example:

    >>> for path, weight in keras_lab.binary_weights(model).items():
    ...     print(path, weight.alpha.numpy())
    """
    layers = {"": model, **walk(model)}
    recurrent = [x for x in layers.values() if isinstance(x, keras.layers.RNN)]
    cells = {id(layer.cell) for layer in recurrent}
    found, seen, prefixes = {}, set(), {"": ""}
    for path, layer in layers.items():
        around, _, name = path.rpartition("/")
        if path:
            inside = "" if id(layer) in cells else f"{name}/"
            prefixes[path] = prefixes[around] + inside
        inner = {id(v) for x in sublayers(layer) for v in x.weights}
        own = [v for v in layer.weights if id(v) not in inner]
        for weight in weights_of(own):
            if id(weight) not in seen:
                seen.add(id(weight))
                key = prefixes[path] + weight.latent.name
                found[_unused(key, found)] = weight
    return found


def sublayers(layer):
    """The layers directly inside a layer, in order."""
    found = list(layer.layers) if _is_model(layer) else []
    # A Sequential also holds itself as a functional model.
    if not isinstance(layer, keras.Sequential):
        found += _layers_in(list(vars(layer).values()))
    return list({id(x): x for x in found}.values())


def _layers_in(value):
    if isinstance(value, keras.Layer):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple, set)):
        return []
    return [layer for item in value for layer in _layers_in(item)]


def _is_model(layer):
    return isinstance(layer, keras.Model)


def _unused(name, names):
    number, unused = 1, name
    while unused in names:
        unused, number = f"{name}_{number}", number + 1
    return unused


def check_is_model(model, argument: str = "model") -> None:
    """Raises TypeError if an argument is not a Keras model."""
    if not isinstance(model, keras.Model):
        raise TypeError(
            f"`{argument}` must be a Keras model. "
            f"Received: {argument}={model!r} of type {type(model).__name__}"
        )


def is_built(model: keras.Layer) -> bool:
    """Whether a layer, or each layer of a model, has its weights.

    A subclassed model may say that it is built when its layers are not.
    """
    layers = leaf_layers(model).values() if _is_model(model) else ()
    return model.built and all(layer.built for layer in layers)


def check_built(model: keras.Model) -> None:
    """Raises ValueError if a model has no weights yet."""
    if not model.built:
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


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of a layer, or of an operation such as a sum.

    Attributes:
        layer: The `keras.Layer`, or another `keras.Operation`.
        arguments: A tuple of its positional and its keyword arguments.
        outputs: The symbolic tensors that it returns, in their structure.
    """

    layer: keras.Operation
    arguments: tuple[tuple, dict]
    outputs: object

    @property
    def inputs(self) -> list[keras.KerasTensor]:
        """The symbolic tensors among the arguments."""
        flat = keras.tree.flatten(self.arguments)
        return [x for x in flat if isinstance(x, keras.KerasTensor)]

    @property
    def data(self) -> list[keras.KerasTensor]:
        """The inputs that are neither masks nor positions."""
        named = self.arguments[1]
        masks = [part for name, part in named.items() if "mask" in name]
        masks = set(map(id, keras.tree.flatten(masks)))
        inputs = [x for x in self.inputs if id(x) not in masks] or self.inputs
        # Of those given by name, one of another rank is about positions, too.
        others = set(map(id, keras.tree.flatten(named)))
        return inputs[:1] + [
            x
            for x in inputs[1:]
            if keras.backend.is_float_dtype(x.dtype)
            and (id(x) not in others or x.ndim == inputs[0].ndim)
        ]

    @property
    def input_shape(self) -> tuple | None:
        """The shape of the first input; `None` if it is not known."""
        return tuple(self.data[0].shape) if self.inputs else None


@dataclasses.dataclass(frozen=True)
class Graph:
    """The calls of a model, each after those whose results it takes.

    A shared layer has several calls. A model inside the model has none: its
    layers do.
    """

    inputs: list[keras.KerasTensor]
    calls: list[Call]
    outputs: list[keras.KerasTensor]


def trace(
    model: keras.Model,
    inputs: Sequence[keras.KerasTensor] = (),
    enter: Callable[[keras.Model], bool] | None = None,
) -> Graph:
    """The calls of a Sequential or functional model; it is left unchanged.

    The inputs default to those of the model. Others may have other sizes. The
    models inside it for which `enter` is false count as layers.
    """
    inputs = [*inputs, *model.inputs[len(inputs) :]]
    # The tensors that stand for those of the new graph: the inputs, and what
    # the last layers of a model inside the model return.
    meant, calls, placeholders = {}, [], []
    for given, own in zip(inputs, model.inputs):
        # A model may add an axis to an input.
        shape = (given if len(given.shape) == len(own.shape) else own).shape
        placeholder = keras.Input(
            batch_shape=shape, dtype=own.dtype, sparse=own.sparse
        )
        meant[id(placeholder)] = given
        placeholders.append(placeholder)

    def call(operation, *args, **kwargs):
        outputs = _StandIn(operation)(*args, **kwargs)
        arguments = keras.tree.map_structure(
            lambda x: meant.get(id(x), x), (args, kwargs)
        )
        made = Call(operation, arguments, outputs)
        if is_functional(operation) and (enter is None or enter(operation)):
            inner = trace(operation, made.inputs, enter)
            calls.extend(inner.calls)
            flat = keras.tree.flatten(outputs)
            meant.update(zip(map(id, flat), inner.outputs))
        else:
            calls.append(made)
        return outputs

    traced = keras.models.clone_model(
        # Not compiled, and not an instance of a subclass.
        keras.Model(model.inputs, model.outputs),
        placeholders,
        clone_function=lambda operation: operation,
        call_function=call,
    )
    outputs = [meant.get(id(x), x) for x in traced.outputs]
    return Graph(inputs, calls, outputs)


class _StandIn(keras.Operation):
    """Takes the place of a layer in a new graph.

    A call of the layer itself would become part of its own history.
    """

    def __init__(self, operation):
        super().__init__()
        self.operation = operation

    def compute_output_spec(self, *args, **kwargs):
        return self.operation.compute_output_spec(*args, **kwargs)


def first_and_last(
    model: keras.Model, counts: Callable
) -> tuple[set[int], set[int]]:
    """The ids of the first layers that count, and of the last ones.

    A layer is first if no other layer that counts comes before it on at least
    one path from an input; last accordingly. `counts` also gets operations,
    such as a sum.
    """
    graph = trace(model)
    forwards, backwards = [], []
    for call in graph.calls:
        layer, ends = call.layer, counts(call.layer)
        before = call.data if ends else call.inputs
        after = keras.tree.flatten(call.outputs)
        forwards.append((layer, ends, before, after))
        backwards.append((layer, ends, after, call.inputs))
    first = _first(graph.inputs, forwards)
    return first, _first(graph.outputs, backwards[::-1])


def _first(tensors, calls):
    """The ids of the layers that end a path which begins at the tensors."""
    reached, found = set(map(id, tensors)), set()
    for layer, ends, before, after in calls:
        if reached.isdisjoint(map(id, before)):
            continue
        if ends:
            found.add(id(layer))
        else:
            reached.update(map(id, after))
    return found
