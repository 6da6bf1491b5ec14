"""Looks inside a file while it runs: the values of its inner tensors."""

from collections.abc import Iterable

import numpy as np

from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.interpreter import run


def run_with_tensors(
    content: bytes, inputs: dict, tensors: Iterable[int]
) -> tuple[dict, dict]:
    """Runs a file; returns its outputs by name, and other tensors by number.

    The tensors become outputs of a copy of the file, because XNNPACK keeps what
    is not an output to itself. Constants and inputs are left out.

    Args:
        content: The bytes of a `.tflite` file.
        inputs: The samples, by the names of the inputs.
        tensors: The numbers of tensors of the main subgraph.
    """
    model = FlatModel(content)
    main = model.subgraphs[0]
    computed = {i for op in main.operators for i in op.outputs.tolist()}
    tensors = sorted(computed.intersection(tensors))
    names = {f"tensor {number}": number for number in tensors}
    input_tensors, output_tensors = model.signature()
    new = [n for n in tensors if n not in main.outputs]
    main.outputs = np.append(main.outputs, np.array(new, np.int32))
    all_outputs = {**output_tensors, **names}
    model.set_signature(list(input_tensors), list(all_outputs))
    for entries, numbers in (
        (model.model.signatureDefs[0].inputs, input_tensors),
        (model.model.signatureDefs[0].outputs, all_outputs),
    ):
        for entry, number in zip(entries, numbers.values()):
            entry.tensorIndex = number
    values = run(model.to_bytes(), inputs)
    found = {number: values.pop(name) for name, number in names.items()}
    return values, found


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
