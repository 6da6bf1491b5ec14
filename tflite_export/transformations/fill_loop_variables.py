"""Initial values of a loop that are one number many times, stored once.

The outputs of all steps of a recurrent layer begin as zeros. The converter
stores as many zeros as there are outputs.
"""

import numpy as np

from tflite_export.flatbuffer.model import FlatModel, inputs_of

__all__ = ["apply", "can_apply"]

# Smaller ones would not take fewer bytes.
LEAST_BYTES = 1024


def can_apply(model: FlatModel, subgraph, operator) -> bool:
    """Whether it is a loop that begins with one number many times."""
    return model.operator_name(operator) == "WHILE" and any(
        _is_one_number(model, subgraph, tensor)
        for tensor in inputs_of(operator)
    )


def apply(model: FlatModel, subgraph, operator) -> None:
    """Lets FILL write the initial values."""
    for position, tensor in enumerate(inputs_of(operator)):
        if _is_one_number(model, subgraph, tensor):
            _fill(model, subgraph, operator, position, tensor)


def _is_one_number(model, subgraph, tensor):
    value = model.constant(subgraph.tensors[tensor])
    return (
        value is not None
        and value.dtype == np.float32
        and value.nbytes >= LEAST_BYTES
        and bool(np.all(value == value.flat[0]))
    )


def _fill(model, subgraph, loop, position, tensor):
    value = model.constant(subgraph.tensors[tensor])
    shape = model.small_constant(subgraph, np.array(value.shape, np.int32))
    number = model.small_constant(subgraph, value.flat[0])
    filled = model.add_tensor(subgraph, "filled", value.shape, "FLOAT32")
    subgraph.operators.insert(
        subgraph.operators.index(loop),
        model.operator("FILL", [shape, number], [filled]),
    )
    loop.inputs[position] = filled
    model.release(subgraph, tensor)
