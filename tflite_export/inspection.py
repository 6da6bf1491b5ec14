"""What is in a file: reads it, and makes the report on it."""

import math
from collections import Counter

import numpy as np

from tflite_export.container import read_content, read_file
from tflite_export.errors import damage_as_error
from tflite_export.find import find_binary_constants
from tflite_export.flatbuffer.model import FlatModel, inputs_of, name_of
from tflite_export.flatbuffer.schema import BITS, TYPES, shape_of
from tflite_export.graph.dequantize import stored_tensor, unfold_float16
from tflite_export.graph.names import readable
from tflite_export.graph.weights import WEIGHTED_OPERATORS, weight_uses
from tflite_export.metadata import packed_weights, read_metadata
from tflite_export.report import ExportReport, LayerRow
from tflite_export.runtimes import (
    OLDEST,
    describe_version,
    has_open_size,
    needs,
)


def inspect(path) -> ExportReport:
    """Reports what is in a `.tflite` or `.tflz` file, written by anyone.

    The file is read but not run.

    Args:
        path: The path of the file, or its content as bytes.

    Returns:
        An `ExportReport`.
    """
    stored = read_file(path)
    content = read_content(stored)
    with damage_as_error("TFLite model"):
        return _report(FlatModel(content), len(content), len(stored))


def _report(model, expanded_bytes, file_bytes):
    """The report on a model, given its sizes. The model may be changed."""
    metadata = read_metadata(model)
    expected_ram = _expected_ram(model)
    format, float_bytes, not_packed = None, None, []
    rows, described = [], set()
    if metadata:
        format = metadata["format"]
        float_bytes = metadata["float_bytes"]
        not_packed = metadata["not_packed"]
        rows += _binary_rows(model, metadata)
        described = {tuple(entry["signs"]) for entry in metadata["weights"]}
    rows += _other_rows(model, described, by_value=metadata is None)
    operators = Counter(
        model.operator_name(operator) for _, operator in model.all_operators()
    )
    if float_bytes is None:
        more = sum(4 * row.weights - row.bytes for row in rows)
        float_bytes = expanded_bytes + more
    oldest = describe_version(max(needs(model).values(), default=OLDEST))
    return ExportReport(
        format=format,
        layers=tuple(rows),
        file_bytes=file_bytes,
        expanded_bytes=expanded_bytes,
        float_bytes=float_bytes,
        expected_ram_bytes=expected_ram,
        operators=dict(sorted(operators.items())),
        not_packed=tuple(not_packed),
        oldest_runtime="" if "CUSTOM" in operators else oldest,
        batch_size=_batch_size(model),
        has_open_size=has_open_size(model),
    )


def _batch_size(model):
    """The batch size of the inputs; `None` if it is open."""
    sizes = [shape[0] for shape in model.input_shapes() if shape]
    return None if -1 in sizes else next(iter(sizes), 1)


def _binary_rows(model, metadata):
    weights = packed_weights(model, metadata)
    alphas = {weight.path: weight.alpha for weight in weights}
    for entry in metadata["weights"]:
        subgraph, number = entry["signs"]
        size = model.bytes_on_disk(model.subgraphs[subgraph].tensors[number])
        count, note = math.prod(entry["shape"]), entry["note"]
        is_float = entry["arithmetic"] == "float32"
        if metadata["format"] == "packed" and is_float and not note:
            # A small file has no room for this note.
            note = "which takes fewer bytes in this network"
        yield LayerRow(
            layer=entry["path"],
            operator=entry["operator"],
            kind="binary",
            arithmetic=entry["arithmetic"],
            weights=count,
            bits=8 * size / count,
            bytes=size,
            alpha=_range(alphas[entry["path"]]),
            note=note,
        )


def _other_rows(model, described, by_value):
    """The constant weights that the metadata do not describe.

    Without metadata, those that are ±s count as binary.
    """
    sources, binary = {}, {}
    for (number, tensor), _ in weight_uses(model):
        subgraph = model.subgraphs[number]
        stored = stored_tensor(model, subgraph, tensor)
        size = model.bytes_on_disk(subgraph.tensors[stored])
        sources[number, tensor] = stored, size
    if by_value:
        unfold_float16(model)
        found = find_binary_constants(model)
        binary = {constant.place: constant for constant in found}
    for place, operator in weight_uses(model):
        stored, size = sources[place]
        if (place[0], stored) in described or not size:
            continue
        described.add((place[0], stored))
        tensors, constant = model.subgraphs[place[0]].tensors, binary.get(place)
        tensor, read = tensors[stored], tensors[place[1]]
        kind = model.type_name(tensor).lower().replace("float32", "float")
        if tensor.sparsity is not None:
            kind = "sparse"
        count = math.prod(shape_of(read))
        is_float = model.type_name(read) == "FLOAT32"
        yield LayerRow(
            layer=readable(name_of(tensor)),
            operator=model.operator_name(operator),
            kind="binary" if constant else kind,
            arithmetic="float32" if is_float else "int8",
            weights=count,
            bits=8 * size / max(count, 1),
            bytes=size,
            alpha=_range(constant.scales) if constant else None,
        )


def _range(alpha):
    low, high = float(np.min(alpha)), float(np.max(alpha))
    return (low,) if low == high else (low, high)


def _expected_ram(model):
    """An estimate of the runtime's memory for weights and activations.

    The runtime keeps tensors that are computed from constants alone. XNNPACK
    keeps a copy of the constants that it computes with. The activations of one
    operator are in memory at the same time.
    """

    def ram(tensor):
        count = math.prod(max(n, 1) for n in shape_of(tensor))
        return count * BITS.get(TYPES[tensor.type], 0) // 8

    total = activations = 0
    for subgraph in model.subgraphs:
        known = model.computed_once(subgraph)
        for operator in subgraph.operators:
            inputs = [i for i in inputs_of(operator) if i >= 0]
            outputs = operator.outputs.tolist()
            sizes = {i: ram(subgraph.tensors[i]) for i in (*inputs, *outputs)}
            if inputs and known.issuperset(inputs):
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
