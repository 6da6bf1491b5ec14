"""Takes the input projection of a recurrent layer out of its loop.

A step of the loop reads one time step of the inputs and multiplies it by the
input kernel. All steps at once are one product outside of the loop, which is
faster than many small ones; the loop then reads a step of the product.
"""

import numpy as np

from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.flatbuffer.schema import shape_of
from tflite_export.transformations.pass_into_loop import loop_of, pass_into_loop

__all__ = ["hoist_projections"]


def hoist_projections(model: FlatModel) -> None:
    """Hoists every product of a step of a loop's sequence by a constant."""
    for number in range(1, len(model.subgraphs)):
        loop = loop_of(model, number)
        if loop is None:
            continue
        for operator in list(model.subgraphs[number].operators):
            if model.operator_name(operator) == "FULLY_CONNECTED":
                _hoist(model, loop, number, operator)


def _hoist(model, loop, number, operator):
    main, body = model.subgraphs[0], model.subgraphs[number]
    step, weights, *bias = inputs_of(operator)
    gather = model.producer(body, step)
    constants = [i for i in (weights, *bias) if i >= 0]
    if (
        gather is None
        or model.operator_name(gather) != "GATHER"
        or gather.builtinOptions.axis != 0
        or not all(
            _is_float_constant(model, body.tensors[i]) for i in constants
        )
    ):
        return
    sequence, time = inputs_of(gather)
    position = _invariant(body, sequence)
    steps = shape_of(body.tensors[sequence])
    if position is None or len(steps) != 3 or min(steps) < 1:
        return

    outside = [_copy_constant(model, body, main, i) for i in (weights, *bias)]
    units = shape_of(body.tensors[weights])[0]
    products = model.add_tensor(
        main, "all_steps", (*steps[:2], units), "FLOAT32"
    )
    projection = model.operator(
        "FULLY_CONNECTED",
        [int(loop.inputs[position]), *outside],
        [products],
        version=5,
        fusedActivationFunction=(
            operator.builtinOptions.fusedActivationFunction
        ),
        keepNumDims=True,
    )
    main.operators.insert(main.operators.index(loop), projection)
    inside = pass_into_loop(model, loop, products)
    body.operators[body.operators.index(operator)] = model.operator(
        "GATHER", [inside, time], operator.outputs
    )
    if not model.consumers(body, step) and step not in body.outputs:
        body.operators.remove(gather)
    for index in constants:
        model.release(body, index)


def _is_float_constant(model, tensor):
    return model.is_constant(tensor) and model.type_name(tensor) == "FLOAT32"


def _invariant(body, tensor):
    """Which loop variable a tensor is, if it keeps its value."""
    positions = np.flatnonzero(body.inputs == tensor)
    if len(positions) == 1 and body.outputs[positions[0]] == tensor:
        return int(positions[0])
    return None


def _copy_constant(model, source, target, index):
    if index < 0:
        return index
    tensor = source.tensors[index]
    return model.add_tensor(
        target,
        tensor.name,
        shape_of(tensor),
        model.type_name(tensor),
        buffer=tensor.buffer,
    )
