"""Loops: which one a subgraph belongs to, and how to hand a tensor to it.

What is unpacked inside the body of a WHILE is unpacked again in each call. So
it is unpacked outside, and the body gets it as one more loop variable that it
returns unchanged. The runtime does not copy such a variable from step to step.
"""

import copy

import numpy as np

from tflite_export.flatbuffer.model import FlatModel


def loop_of(model: FlatModel, body: int):
    """The WHILE of the main subgraph with this body, or `None`."""
    loops = [
        operator
        for operator in model.subgraphs[0].operators
        if model.operator_name(operator) == "WHILE"
        and operator.builtinOptions.bodySubgraphIndex == body
    ]
    return loops[0] if len(loops) == 1 else None


def pass_into_loop(model: FlatModel, loop, tensor: int) -> int:
    """Gives a loop one more variable, which keeps its value.

    The value is a tensor of the main subgraph. Returns the variable's number in
    the body of the loop.
    """
    main = model.subgraphs[0]
    body = model.subgraphs[loop.builtinOptions.bodySubgraphIndex]
    condition = model.subgraphs[loop.builtinOptions.condSubgraphIndex]
    template = main.tensors[tensor]
    inside, tested, after = (
        np.int32(len(subgraph.tensors)) for subgraph in (body, condition, main)
    )
    for subgraph in (body, condition, main):
        subgraph.tensors.append(copy.copy(template))
    body.inputs = np.append(body.inputs, inside)
    body.outputs = np.append(body.outputs, inside)
    condition.inputs = np.append(condition.inputs, tested)
    loop.inputs = np.append(loop.inputs, np.int32(tensor))
    loop.outputs = np.append(loop.outputs, after)
    return int(inside)
