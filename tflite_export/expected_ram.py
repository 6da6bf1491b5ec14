"""How much memory a model needs when it runs, estimated from its graph."""

import math

from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.flatbuffer.schema import BITS, TYPES, shape_of
from tflite_export.graph.weights import WEIGHTED_OPERATORS


def expected_ram(model: FlatModel) -> int:
    """An estimate of the runtime's memory for weights and activations.

    The runtime keeps tensors that are computed from constants alone. XNNPACK
    keeps a copy of the constants that it computes with. The activations of one
    operator are in memory at the same time.
    """
    total = activations = 0
    for subgraph in model.subgraphs:
        known = {
            number
            for number, tensor in enumerate(subgraph.tensors)
            if model.is_constant(tensor)
        }
        for operator in subgraph.operators:
            inputs = [i for i in inputs_of(operator) if i >= 0]
            outputs = operator.outputs.tolist()
            sizes = {i: _ram(subgraph.tensors[i]) for i in (*inputs, *outputs)}
            if inputs and set(inputs) <= known:
                known.update(outputs)
                total += sum(sizes[i] for i in outputs)
                continue
            if model.operator_name(operator) in WEIGHTED_OPERATORS:
                total += sum(
                    sizes[i]
                    for i in inputs
                    if model.is_constant(subgraph.tensors[i])
                )
            needed = sum(n for i, n in sizes.items() if i not in known)
            activations = max(activations, needed)
    return total + activations


def _ram(tensor):
    count = math.prod(max(n, 1) for n in shape_of(tensor))
    return count * BITS.get(TYPES[tensor.type], 0) // 8
