"""Looks inside a file while it runs: the values of its inner tensors."""

from collections.abc import Iterable

import numpy as np

from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.flatbuffer.schema import shape_of
from tflite_export.graph.weights import WEIGHTED_OPERATORS
from tflite_export.interpreter import make_interpreter, run_batches


def run_with_tensors(
    content: bytes,
    inputs: dict,
    tensors: Iterable[int],
    int8_inputs: dict | None = None,
) -> tuple[dict, dict]:
    """Runs a file; returns its outputs by name, and tensors by number.

    The tensors become outputs of a copy of the file, because XNNPACK keeps what
    is not an output to itself.

    Args:
        content: The bytes of a `.tflite` file.
        inputs: The samples, by the names of the inputs.
        tensors: The numbers of tensors of the main subgraph. Those that no
            operator computes are left out.
        int8_inputs: Tensors by number that operators with int8 weights read
            instead of what the file computes. Defaults to `None`: none.
    """
    model = FlatModel(content)
    main = model.subgraphs[0]
    input_tensors, output_tensors = model.signature()
    values = {input_tensors[name]: x for name, x in inputs.items()}
    values |= _cut(model, int8_inputs or {})
    computed = {i for op in main.operators for i in op.outputs.tolist()}
    tensors = sorted(computed.intersection(tensors))
    new = [number for number in tensors if number not in main.outputs]
    main.outputs = np.append(main.outputs, np.array(new, np.int32))
    model.model.signatureDefs = None
    samples = len(next(iter(inputs.values())))
    interpreter = make_interpreter(model.to_bytes())
    wanted = {*output_tensors.values(), *tensors}
    found = run_batches(interpreter, values, wanted, samples)
    outputs = {name: found[n] for name, n in output_tensors.items()}
    return outputs, {number: found[number] for number in tensors}


def _cut(model, values):
    """Makes operators with int8 weights read new inputs of the model.

    Returns:
        The values of the new inputs, by number.
    """
    main, new = model.subgraphs[0], {}
    for operator, position in _int8_operators(model):
        old = inputs_of(operator)[position]
        if old not in values:
            continue
        template = main.tensors[old]
        shape, kind = shape_of(template), model.type_name(template)
        number = model.add_tensor(main, None, shape, kind)
        main.tensors[number].shapeSignature = template.shapeSignature
        main.inputs = np.append(main.inputs, np.int32(number))
        operator.inputs[position] = number
        new[number] = values[old]
    return new


def int8_data(model: FlatModel) -> list[int]:
    """The data of operators with int8 weights, in the main subgraph."""
    return [
        inputs_of(operator)[position]
        for operator, position in _int8_operators(model)
    ]


def _int8_operators(model):
    """The operators with int8 weights, and which input is the data."""
    main, found = model.subgraphs[0], []
    for operator in main.operators:
        name = model.operator_name(operator)
        weighted = WEIGHTED_OPERATORS.get(name)
        # A GATHER computes nothing.
        if weighted is not None and name != "GATHER":
            weights = main.tensors[inputs_of(operator)[weighted.weights]]
            if model.type_name(weights) in ("INT8", "INT4", "INT2"):
                found.append((operator, weighted.data))
    return found


def sign_arguments(content: bytes) -> list[int]:
    """The tensors of the main subgraph of which a sign is taken.

    A sign is a SIGN, or a GREATER_EQUAL with zero.
    """
    model = FlatModel(content)
    main, found = model.subgraphs[0], []
    for operator in main.operators:
        name, inputs = model.operator_name(operator), inputs_of(operator)
        if name == "GREATER_EQUAL":
            zero = model.constant(main.tensors[inputs[1]])
            if zero is None or np.any(zero):
                continue
        elif name != "SIGN":
            continue
        found.append(inputs[0])
    return found
