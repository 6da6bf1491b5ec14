"""Which int8 layers the error of a file comes from.

The error of a tensor has two parts: what its operator adds by rounding its
inputs, and what the operator makes of the errors that its inputs have already.
Both are measured, by running the file next to the float one. So the error of
the outputs can be followed back through the graph, and divided among the layers
that added to it.
"""

from collections import defaultdict

import numpy as np

from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.graph.loops import loop_of
from tflite_export.graph.weight_site import WeightSite
from tflite_export.graph.weights import INTEGERS, WEIGHTED_OPERATORS, weights_of
from tflite_export.interpreter import inner_tensors

# On how many samples the tensors inside are compared.
FEW_SAMPLES = 2
# Operators whose inputs may differ in size: a small one adds little.
SUMS = ("ADD", "SUB", "CONCATENATION")


def shares_of_error(
    model: FlatModel, content: bytes, sites: list[WeightSite], inputs: dict
) -> dict[str, float]:
    """The share of the outputs' error that each int8 kernel adds, by path.

    `content` is the file of the float model with int8 arithmetic, where each
    tensor has the same number. `sites` are its kernels that compute in int8.
    """
    main = model.subgraphs[0]
    tensors = {
        number
        for operator in main.operators
        for number in operator.outputs.tolist()
        if model.type_name(main.tensors[number]) == "FLOAT32"
    }
    few = {name: x[:FEW_SAMPLES] for name, x in inputs.items()}
    cut = FlatModel(content)
    data = [
        inputs_of(operator)[position]
        for operator, position in _int8_operators(cut)
    ]
    float_model = FlatModel(model.to_bytes())
    exact = inner_tensors(float_model, few, {*tensors, *data})
    rounded = inner_tensors(FlatModel(content), few, tensors)
    # Here each int8 operator reads data without an error.
    added = inner_tensors(cut, few, tensors, _cut(cut, exact))
    noise, fresh = (
        {n: _energy(x - exact[n]) for n, x in found.items()}
        for found in (rounded, added)
    )
    signal = {n: _energy(x) for n, x in exact.items()}
    paths = _paths_of_operators(model, sites)
    blame, shares = defaultdict(float), defaultdict(float)
    for number in model.signature()[1].values():
        blame[number] = noise.get(number, 0) / (signal.get(number) or 1)
    for operator in reversed(main.operators):
        own, rest = 0.0, 0.0
        for number in operator.outputs.tolist():
            share = 0.0  # The part of the error that the operator adds.
            if id(operator) not in paths:
                pass
            elif model.operator_name(operator) == "WHILE":
                # What is added inside a loop cannot be seen.
                share = 1.0
            elif noise.get(number):
                share = min(fresh.get(number, 0) / noise[number], 1.0)
            own += blame[number] * share
            rest += blame[number] * (1 - share)
        for path in paths.get(id(operator), ()):
            shares[path] += own
        _divide(model, operator, rest, blame, noise, signal)
    return {site.constant.path: shares[site.constant.path] for site in sites}


def _cut(model, values):
    """Makes int8 operators read new inputs; returns their values by number."""
    main, new = model.subgraphs[0], {}
    for operator, position in _int8_operators(model):
        old = inputs_of(operator)[position]
        if old not in values:
            continue
        type_name = model.type_name(main.tensors[old])
        number = model.add_tensor_like(main, old, type_name)
        main.inputs = np.append(main.inputs, np.int32(number))
        operator.inputs[position] = number
        new[number] = values[old]
    return new


def _int8_operators(model):
    """The operators with int8 weights, and which input is the data."""
    main, found = model.subgraphs[0], []
    for operator in main.operators:
        name = model.operator_name(operator)
        # A GATHER computes nothing.
        if name in WEIGHTED_OPERATORS and name != "GATHER":
            weights = weights_of(model, main, operator)
            if model.type_name(weights) in INTEGERS:
                found.append((operator, WEIGHTED_OPERATORS[name].data))
    return found


def _divide(model, operator, amount, blame, noise, signal):
    """Divides blame among the inputs of an operator, by their errors."""
    is_sum = model.operator_name(operator) in SUMS
    errors = {
        number: noise[number] / (1 if is_sum else signal[number] or 1)
        for number in inputs_of(operator)
        if number in noise
    }
    total = sum(errors.values())
    for number, error in errors.items():
        blame[number] += amount * (error / total if total else 0)


def _paths_of_operators(model, sites):
    """The paths of the int8 kernels that an operator of the main graph uses."""
    paths = defaultdict(list)
    for site in sites:
        loop = loop_of(model, site.constant.subgraph)
        for user in site.users if loop is None else [loop]:
            paths[id(user)].append(site.constant.path)
    return paths


def _energy(x):
    return float(np.sum(np.square(x, dtype=np.float64)))
