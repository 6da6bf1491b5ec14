"""What a loop begins with, if it is one number many times, as that number.

The outputs of all steps of a recurrent layer begin as zeros. The converter
stores these, and there are as many as outputs.
"""

import numpy as np

from tflite_export.flatbuffer.model import FlatModel, inputs_of

__all__ = ["fill_loop_variables"]

# Smaller ones would not become smaller.
LEAST_BYTES = 1024


def fill_loop_variables(model: FlatModel) -> None:
    """Has FILL make the constants with one value that loops begin with."""
    for subgraph in model.subgraphs:
        for operator in list(subgraph.operators):
            if model.operator_name(operator) == "WHILE":
                for position, tensor in enumerate(inputs_of(operator)):
                    _fill(model, subgraph, operator, position, tensor)


def _fill(model, subgraph, loop, position, tensor):
    value = model.constant(subgraph.tensors[tensor])
    if (
        value is None
        or value.dtype != np.float32
        or value.nbytes < LEAST_BYTES
        or np.any(value != value.flat[0])
    ):
        return
    shape = model.small_constant(subgraph, np.array(value.shape, np.int32))
    number = model.small_constant(subgraph, value.flat[0])
    filled = model.add_tensor(subgraph, "filled", value.shape, "FLOAT32")
    subgraph.operators.insert(
        subgraph.operators.index(loop),
        model.operator("FILL", [shape, number], [filled]),
    )
    loop.inputs[position] = filled
    model.release(subgraph, tensor)
