"""Loops: which one a subgraph belongs to, and how to hand a tensor to it.

What is unpacked inside the body of a WHILE is unpacked again in each call. So
it is unpacked outside, and the body gets it as one more loop variable that it
returns unchanged. The runtime does not copy such a variable from step to step.
"""

import copy

import numpy as np

from tflite_export.flatbuffer.model import FlatModel

__all__ = ["loop_of", "pass_into_loop"]


def loop_of(model: FlatModel, body: int):
    """The WHILE of the main subgraph with this body, or `None`.

    Args:
        model: The model.
        body: The number of a subgraph.
    """
    loops = [
        operator
        for operator in model.subgraphs[0].operators
        if model.operator_name(operator) == "WHILE"
        and operator.builtinOptions.bodySubgraphIndex == body
    ]
    return loops[0] if len(loops) == 1 else None


def pass_into_loop(model: FlatModel, loop, tensor: int) -> int:
    """Gives a loop one more variable, which keeps its value.

    Args:
        model: The model to change.
        loop: A WHILE of the main subgraph.
        tensor: The tensor of the main subgraph with the value.

    Returns:
        The number of the variable in the body of the loop.
    """
    main = model.subgraphs[0]
    body = model.subgraphs[loop.builtinOptions.bodySubgraphIndex]
    condition = model.subgraphs[loop.builtinOptions.condSubgraphIndex]
    template = main.tensors[tensor]
    inside = _add_like(body, template)
    body.inputs = _appended(body.inputs, inside)
    body.outputs = _appended(body.outputs, inside)
    condition.inputs = _appended(
        condition.inputs, _add_like(condition, template)
    )
    loop.inputs = _appended(loop.inputs, tensor)
    loop.outputs = _appended(loop.outputs, _add_like(main, template))
    return inside


def _add_like(subgraph, template):
    subgraph.tensors.append(copy.copy(template))
    return len(subgraph.tensors) - 1


def _appended(indices, index):
    return np.append(indices, np.int32(index))
