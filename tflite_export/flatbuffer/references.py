"""Checks that every reference in a model refers to something."""

import math

import numpy as np

from tflite_export.errors import InvalidModelError
from tflite_export.flatbuffer.schema import (
    LOW_BIT_TYPES,
    NUMPY_TYPES,
    TYPES,
    shape_of,
)

__all__ = ["check_references"]

MOST_ELEMENTS = 1 << 48


def check_references(model) -> None:
    """Raises InvalidModelError if a number refers to no part of the model.

    Absent lists become empty ones.
    """
    model.operatorCodes = model.operatorCodes or []
    model.buffers = model.buffers or []
    if not model.subgraphs or not model.buffers:
        raise InvalidModelError(
            "Damaged TFLite model: it has no subgraph or no buffer."
        )
    for entry in model.metadata or []:
        _check_index("metadata buffer", entry.buffer, model.buffers)
    for signature in model.signatureDefs or []:
        signature.inputs = signature.inputs or []
        signature.outputs = signature.outputs or []
        _check_index("subgraph", signature.subgraphIndex, model.subgraphs)
        tensors = model.subgraphs[signature.subgraphIndex].tensors or []
        for part in [*signature.inputs, *signature.outputs]:
            _check_index("tensor", part.tensorIndex, tensors)
    for subgraph in model.subgraphs:
        subgraph.tensors = subgraph.tensors or []
        subgraph.operators = subgraph.operators or []
        subgraph.inputs = _indices(subgraph.inputs)
        subgraph.outputs = _indices(subgraph.outputs)
        for tensor in subgraph.tensors:
            _check_tensor(model, tensor)
        for operator in subgraph.operators:
            operator.inputs = _indices(operator.inputs)
            operator.outputs = _indices(operator.outputs)
            _check_index(
                "operator code", operator.opcodeIndex, model.operatorCodes
            )
        used = [subgraph.inputs, subgraph.outputs]
        for operator in subgraph.operators:
            used += [operator.inputs, operator.outputs]
        for index in np.concatenate(used).tolist():
            if index != -1:  # an optional input that is absent
                _check_index("tensor", index, subgraph.tensors)


def _check_tensor(model, tensor):
    _check_index("buffer", tensor.buffer, model.buffers)
    if tensor.type not in TYPES:
        raise InvalidModelError(
            "Damaged TFLite model: a tensor has an unknown type. "
            f"Received: type {tensor.type}"
        )
    if math.prod(max(n, 1) for n in shape_of(tensor)) > MOST_ELEMENTS:
        raise InvalidModelError(
            "Damaged TFLite model: a tensor is larger than any memory. "
            f"Received: shape {shape_of(tensor)}"
        )
    data = model.buffers[tensor.buffer].data
    size = 0 if data is None else len(data)
    name = TYPES[tensor.type]
    if size == 0 or not (name in NUMPY_TYPES or name in LOW_BIT_TYPES):
        return
    shape = shape_of(tensor)
    count = 1
    for dimension in shape:
        count *= max(dimension, 0)
    bits = LOW_BIT_TYPES.get(name) or 8 * NUMPY_TYPES[name].itemsize
    if size != -(-count * bits // 8):
        raise InvalidModelError(
            "Damaged TFLite model: a tensor and its data differ in size. "
            f"Received: {name} of shape {shape} with {size} bytes"
        )


def _indices(values):
    return np.array([] if values is None else values, np.int32).reshape(-1)


def _check_index(what, index, parts):
    if not 0 <= index < len(parts):
        raise InvalidModelError(
            f"Damaged TFLite model: it refers to {what} {index}, but there are "
            f"only {len(parts)}."
        )
