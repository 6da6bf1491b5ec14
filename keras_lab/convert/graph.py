"""Which layers of a model come first, and which last, on each path."""

from collections.abc import Callable

import keras

from keras_lab.convert.rebuild import is_made_of_layers

__all__ = ["first_and_last"]


def first_and_last(
    model: keras.Model, counts: Callable
) -> tuple[set[int], set[int]]:
    """The ids of the first layers that count, and of the last ones.

    A layer is first if it is so on one path at least.

    Args:
        model: A Sequential or functional model.
        counts: Whether a layer, or an operation such as a sum, counts.
    """
    first, last = set(), set()
    _mark(model, counts, [True] * len(model.inputs), first)
    _mark(model, counts, [True] * len(model.outputs), last, backwards=True)
    return first, last


def _mark(model, counts, reached, found, backwards=False):
    """Finds the layers that inputs reach before any other that counts.

    Args:
        model, counts: As above.
        reached: For each input, whether no layer that counts is before it.
        found: A set, to which the ids of the layers are added.
        backwards: Whether to go from the outputs to the inputs instead.

    Returns:
        As `reached`, of the outputs.
    """
    near, far, calls = model.inputs, model.outputs, _calls(model)
    if backwards:
        near, far = far, near
        calls.reverse()
    tensors = _chosen(near, reached)
    for call in calls:
        layer = call.operation
        before, after = call.input_tensors, call.output_tensors
        if backwards:
            before, after = after, before
        reached = [id(tensor) in tensors for tensor in before]
        if is_made_of_layers(layer):
            passed = _mark(layer, counts, reached, found, backwards)
        else:
            ends = counts(layer)
            if ends and any(reached):
                found.add(id(layer))
            passed = [any(reached) and not ends] * len(after)
        tensors |= _chosen(after, passed)
    return [id(tensor) in tensors for tensor in far]


def _chosen(tensors, flags):
    return {id(tensor) for tensor, flag in zip(tensors, flags) if flag}


def _calls(model):
    """The calls of a model's layers, each after those whose results it takes.

    Of a layer that is shared there are several.
    """
    graph = keras.Model(model.inputs, model.outputs)
    return [
        node
        for depth in sorted(graph._nodes_by_depth, reverse=True)
        for node in graph._nodes_by_depth[depth]
        if not node.is_input
    ]
