"""Weights that a file stores in another form than its operators read.

The converter stores weights in float16 in front of a DEQUANTIZE, and mostly
zero ones as a sparse tensor, at times in front of a DENSIFY.
"""

import numpy as np

from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.flatbuffer.schema import shape_of
from tflite_export.graph.weights import reads_as_weights, weight_uses

UNFOLDED = ("DEQUANTIZE", "DENSIFY")


def stored_tensor(model: FlatModel, subgraph, tensor: int) -> int:
    """The constant that a weight is computed from, or the tensor itself."""
    found = tensor
    for _ in UNFOLDED:
        if model.is_constant(subgraph.tensors[found]):
            return found
        operator = model.producer(subgraph, found, *UNFOLDED)
        if operator is None:
            return tensor
        found = inputs_of(operator)[0]
    return found if model.is_constant(subgraph.tensors[found]) else tensor


def unfold_float16(model: FlatModel) -> dict[tuple, tuple]:
    """Makes weights behind a DEQUANTIZE float32, if nothing else reads them.

    The operator stays. Returns it for the place of each such weight, with the
    number of the constant that the file stores.
    """
    found = {}
    for place, _ in list(weight_uses(model)):
        number, tensor = place
        subgraph = model.subgraphs[number]
        if model.is_constant(subgraph.tensors[tensor]):
            continue
        operator = model.producer(subgraph, tensor, "DEQUANTIZE")
        if operator is None:
            continue
        source = inputs_of(operator)[0]
        value = model.constant(subgraph.tensors[source])
        if value is None or value.dtype != np.float16:
            continue
        if all(
            reads_as_weights(model, user, tensor)
            for user in model.consumers(subgraph, tensor)
        ):
            buffer = model.add_buffer(value.astype(np.float32))
            subgraph.tensors[tensor].buffer = buffer
            found[place] = operator, source
    return found


def keep_unfolded(model: FlatModel, unfolded: dict, kept: set[tuple]) -> None:
    """Drops the DEQUANTIZE of the places to keep; folds the others again."""
    for place, (operator, source) in unfolded.items():
        subgraph = model.subgraphs[place[0]]
        if place in kept:
            subgraph.operators.remove(operator)
            model.release(subgraph, source)
        else:
            subgraph.tensors[place[1]].buffer = 0


def dequantize(model: FlatModel, subgraph, tensor: int) -> None:
    """Makes the operators that read a constant read it as float32."""
    users = model.consumers(subgraph, tensor)
    shape = shape_of(subgraph.tensors[tensor])
    floats = model.insert(subgraph, 0, "DEQUANTIZE", [tensor], shape)
    for user in users:
        user.inputs[user.inputs == tensor] = floats
