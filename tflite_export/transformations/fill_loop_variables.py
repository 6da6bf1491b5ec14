"""Initial values of a loop that are one number many times, stored once.

The outputs of all steps of a recurrent layer begin as zeros. The converter
stores as many zeros as there are outputs.
"""

import numpy as np

from tflite_export.flatbuffer.model import FlatModel, inputs_of

# Smaller ones would not take fewer bytes.
LEAST_BYTES = 1024


def can_apply(model: FlatModel, subgraph, operator) -> bool:
    """Whether it is a loop that begins with one number many times."""
    return model.operator_name(operator) == "WHILE" and any(
        _is_one_number(model, subgraph, tensor)
        for tensor in inputs_of(operator)
    )


def apply(model: FlatModel, subgraph, operator) -> None:
    """Writes the initial values with a FILL operator."""
    for number, tensor in enumerate(inputs_of(operator)):
        if not _is_one_number(model, subgraph, tensor):
            continue
        value = model.constant(subgraph.tensors[tensor])
        inputs = [
            model.small_constant(subgraph, part)
            for part in (np.array(value.shape, np.int32), value.flat[0])
        ]
        position = subgraph.operators.index(operator)
        operator.inputs[number] = model.insert(
            subgraph, position, "FILL", inputs, value.shape
        )
        model.release(subgraph, tensor)


def _is_one_number(model, subgraph, tensor):
    value = model.constant(subgraph.tensors[tensor])
    return (
        value is not None
        and value.dtype == np.float32
        and value.nbytes >= LEAST_BYTES
        and bool(np.all(value == value.flat[0]))
    )
