"""The calls of the layers of a model, and which layers come first and last."""

import dataclasses
from collections.abc import Callable, Sequence

import keras

from keras_lab.model_checks import is_functional

__all__ = ["Call", "Graph", "first_and_last", "trace"]


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
