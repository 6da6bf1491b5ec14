"""Hands a tensor of the main subgraph to the operators inside a loop.

What is unpacked inside the body of a WHILE is unpacked again at each call. So
the body gets it as one more input that it returns unchanged, which the runtime
does not copy from step to step.
"""

import copy

import numpy as np

from tflite_export.flatbuffer.model import FlatModel

__all__ = ["loop_of", "pass_into_loop"]


def loop_of(model: FlatModel, body: int):
    """The WHILE of the main subgraph with this body, `None` if there is none.

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
        tensor: The variable's value, a tensor of the main subgraph.

    Returns:
        The number of the variable in the loop's body.
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
