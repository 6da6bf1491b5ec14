"""The input projection of a recurrent layer, taken out of its loop.

A step of the loop reads one time step of the inputs and multiplies it by the
input kernel. All steps at once are one product outside of the loop, which is
faster than many small ones. The loop then reads one step of the product.
"""

import numpy as np

from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.flatbuffer.schema import shape_of
from tflite_export.graph.loops import loop_of, pass_into_loop


def can_apply(model: FlatModel, subgraph, operator) -> bool:
    """Whether it multiplies one step of a loop's sequence by a constant."""
    if model.operator_name(operator) != "FULLY_CONNECTED":
        return False
    if loop_of(model, model.subgraphs.index(subgraph)) is None:
        return False
    step, *constants = inputs_of(operator)
    gather = model.producer(subgraph, step, "GATHER")
    if gather is None:
        return False
    sequence = inputs_of(gather)[0]
    shape = shape_of(subgraph.tensors[sequence])
    return (
        gather.builtinOptions.axis == 0
        and all(
            model.is_constant(subgraph.tensors[i])
            and model.type_name(subgraph.tensors[i]) == "FLOAT32"
            for i in constants
            if i >= 0
        )
        and _invariant(subgraph, sequence) is not None
        and len(shape) == 3
        and min(shape) >= 1
    )


def apply(model: FlatModel, subgraph, operator) -> None:
    """Multiplies all steps in front of the loop."""
    main, body = model.subgraphs[0], subgraph
    loop = loop_of(model, model.subgraphs.index(subgraph))
    step, weights, *bias = inputs_of(operator)
    gather = model.producer(body, step, "GATHER")
    sequence, time = inputs_of(gather)
    steps = shape_of(body.tensors[sequence])
    outside = [_copy_constant(model, body, main, i) for i in (weights, *bias)]
    units = shape_of(body.tensors[weights])[0]
    products = model.insert(
        main,
        main.operators.index(loop),
        "FULLY_CONNECTED",
        [int(loop.inputs[_invariant(body, sequence)]), *outside],
        (*steps[:2], units),
        version=5,
        fusedActivationFunction=operator.builtinOptions.fusedActivationFunction,
        keepNumDims=True,
    )
    inside = pass_into_loop(model, loop, products)
    body.operators[body.operators.index(operator)] = model.operator(
        "GATHER", [inside, time], operator.outputs
    )
    if not model.consumers(body, step) and step not in body.outputs:
        body.operators.remove(gather)
    for index in (weights, *bias):
        if index >= 0:
            model.release(body, index)


def _invariant(body, tensor):
    """The position of a loop variable that keeps its value, or `None`."""
    positions = np.flatnonzero(body.inputs == tensor)
    if len(positions) == 1 and body.outputs[positions[0]] == tensor:
        return int(positions[0])
    return None


def _copy_constant(model, source, target, index):
    if index < 0:
        return index
    tensor = source.tensors[index]
    copied = tensor.name, shape_of(tensor), "FLOAT32"
    return model.add_tensor(target, *copied, buffer=tensor.buffer)
