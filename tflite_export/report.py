"""What is in a file: a table of weights, sizes, and the agreement."""

import dataclasses
import json
import math
from collections import Counter

import numpy as np

from tflite_export.agreement import Agreement, InFloat
from tflite_export.container import read_content
from tflite_export.errors import damage_as_error
from tflite_export.find import find_binary_constants
from tflite_export.flatbuffer.model import FlatModel, inputs_of, name_of
from tflite_export.flatbuffer.schema import BITS, TYPES, shape_of
from tflite_export.formats import Format
from tflite_export.graph.notes import FEWER_BYTES, NO_NOTE
from tflite_export.graph.stored import stored_tensor, unfold_float16
from tflite_export.graph.weights import WEIGHTED_OPERATORS, weight_uses
from tflite_export.metadata import packed_weights, read_metadata
from tflite_export.runtimes import OLDEST, describe_version, needs


@dataclasses.dataclass(frozen=True)
class LayerRow:
    """One weight tensor of a model.

    Attributes:
        layer: The path of the kernel in the Keras model, or the name of the
            tensor.
        operator: The TFLite operator that uses it.
        kind: `"binary"`, `"float"`, `"sparse"`, or the type of another
            constant, such as `"float16"`.
        arithmetic: `"int8"` or `"float32"`.
        weights: The number of weights.
        bits: Bits per weight in the `.tflite` file, without scales.
        bytes: Bytes in the `.tflite` file, without scales.
        alpha: α, or the smallest and the largest α. `None` if the weight is not
            binary.
        note: Why the arithmetic is not the usual one of the format.
    """

    layer: str
    operator: str
    kind: str
    arithmetic: str
    weights: int
    bits: float
    bytes: int
    alpha: tuple | None
    note: str = ""


@dataclasses.dataclass(frozen=True)
class ExportReport:
    """What is in a `.tflite` or `.tflz` file. Print it, or call `to_json()`.

    Attributes:
        format: The format, or `None` for a file of another origin.
        layers: A `LayerRow` per weight tensor.
        file_bytes: The size of the file on disk.
        expanded_bytes: The size of the `.tflite` file that the runtime reads:
            the same, unless the file on disk is a container.
        float_bytes: The size that the file has, or would have, with float32
            weights.
        expected_ram_bytes: An estimate of the memory that the runtime needs for
            weights and activations at batch size 1, with XNNPACK.
        operators: The number of operators by name.
        agreement: How far the outputs are from those of Keras, or `None` if
            they were not compared.
        not_packed: The paths of binary kernels that are stored as float32.
        oldest_runtime: The oldest runtime that runs the file, of those that
            were tried: TensorFlow 2.13 and newer.
        batch_size: The batch size of the file, or `None` if it is open.
        in_float: The layers that compute in float32 because int8 was not
            precise enough, and what that costs. `None` if there are none, or
            if the file was only inspected.
    """

    format: str | None
    layers: tuple
    file_bytes: int
    expanded_bytes: int
    float_bytes: int
    expected_ram_bytes: int
    operators: dict
    agreement: Agreement | None = None
    not_packed: tuple = ()
    oldest_runtime: str = ""
    batch_size: int | None = None
    in_float: InFloat | None = None

    def to_json(self) -> str:
        """The report as JSON text."""
        content = dataclasses.asdict(self)
        agreement = content["agreement"]
        if agreement and math.isinf(agreement["snr_db"]):
            agreement["snr_db"] = None  # JSON has no infinity.
        return json.dumps(content, indent=1)

    def __str__(self) -> str:
        lines = [f"format {self.format}", ""] if self.format else []
        lines += [*_table(self.layers), ""]
        lines += [f"{name:<14}{text}" for name, text in self._facts()]
        return "\n".join(lines)

    def _facts(self):
        """Yields the lines below the table: a name and a text."""
        share = _share(self.file_bytes, self.float_bytes)
        whole = f"{share} float32 ({_size(self.float_bytes)})"
        yield "file", f"{_size(self.file_bytes)}, {whole}"
        if self.expanded_bytes != self.file_bytes:
            yield "expanded", _size(self.expanded_bytes)
        yield "expected RAM", _size(self.expected_ram_bytes)
        yield "runtime", f"{self.oldest_runtime}, and newer"
        if self.batch_size is None:
            yield "", "not LiteRT.js: the batch size is open"
            if "TRANSPOSE_CONV" in self.operators:
                yield "", "not CompiledModel: TRANSPOSE_CONV with open batch"
        counts = [f"{name} {n}" for name, n in self.operators.items()]
        yield "operators", ", ".join(counts)
        if self._is_slow_in_batches():
            yield "batch size", "open. Dense layers then take one sample after"
            yield "", "the other: with `batch_size` large batches are faster."
        for layer, note in sorted({(r.layer, r.note) for r in self.layers}):
            if note:
                yield "note", f"{layer}: in float32, {note}"
        if self.in_float:
            yield from _in_float_facts(self.in_float)
        for path in self.not_packed:
            yield "not packed", f"{path}: its kernel is stored as float32"
        if self.agreement:
            yield from _agreement_facts(self.agreement)

    def _is_slow_in_batches(self):
        """Whether dense layers would be matrix products in a larger batch."""
        return (
            self.format == Format.PACKED
            and self.batch_size is None
            and any(
                row.arithmetic == "int8" and row.operator == "FULLY_CONNECTED"
                for row in self.layers
            )
        )


def inspect(path) -> ExportReport:
    """Reports what is in a `.tflite` or `.tflz` file, written by anyone.

    The file is read but not run.

    Args:
        path: The path of the file, or its content as bytes.

    Returns:
        An `ExportReport`.
    """
    content, size = read_content(path)
    with damage_as_error("TFLite model"):
        return describe(content, size)


def describe(
    content: bytes,
    file_bytes: int,
    format: str | None = None,
    agreement: Agreement | None = None,
    in_float: InFloat | None = None,
) -> ExportReport:
    """The report on a `.tflite` file, given its bytes and its size on disk.

    A file of format `"float"` does not name its format.
    """
    model = FlatModel(content)
    metadata = read_metadata(model)
    expected_ram = _expected_ram(model)
    rows, described, float_bytes, not_packed = [], set(), None, []
    if metadata:
        format = metadata["format"]
        float_bytes = metadata["float_bytes"]
        not_packed = metadata["not_packed"]
        rows += _binary_rows(model, metadata)
        described = {tuple(entry["signs"]) for entry in metadata["weights"]}
    rows += _other_rows(model, described, by_value=metadata is None)
    operators = Counter(
        model.operator_name(operator)
        for subgraph in model.subgraphs
        for operator in subgraph.operators
    )
    if float_bytes is None:
        more = sum(4 * row.weights - row.bytes for row in rows)
        float_bytes = len(content) + more
    return ExportReport(
        format=format,
        layers=tuple(rows),
        file_bytes=file_bytes,
        expanded_bytes=len(content),
        float_bytes=float_bytes,
        expected_ram_bytes=expected_ram,
        operators=dict(sorted(operators.items())),
        agreement=agreement,
        in_float=in_float,
        not_packed=tuple(not_packed),
        oldest_runtime=describe_version(
            max(needs(model).values(), default=OLDEST)
        ),
        batch_size=_batch_size(model),
    )


def _batch_size(model):
    """The batch size of the first input; `None` if a size is open."""
    main = model.subgraphs[0]
    tensors = [main.tensors[index] for index in main.inputs]
    sizes = [
        shape_of(t) if t.shapeSignature is None else tuple(t.shapeSignature)
        for t in tensors
    ]
    if any(-1 in shape for shape in sizes):
        return None
    return next((int(shape[0]) for shape in sizes if shape), 1)


def _binary_rows(model, metadata):
    weights = packed_weights(model, metadata)
    alphas = {weight.path: weight.alpha for weight in weights}
    for entry in metadata["weights"]:
        subgraph, number = entry["signs"]
        size = model.bytes_on_disk(model.subgraphs[subgraph].tensors[number])
        count = math.prod(entry["shape"])
        yield LayerRow(
            layer=entry["path"],
            operator=entry["operator"],
            kind="binary",
            arithmetic=entry["arithmetic"],
            weights=count,
            bits=8 * size / count,
            bytes=size,
            alpha=_range(alphas[entry["path"]]),
            note=entry["note"] or _implied_note(metadata, entry),
        )


def _implied_note(metadata, entry):
    """A note that a small file has no room for."""
    if metadata["format"] == "packed" and entry["arithmetic"] == "float32":
        return FEWER_BYTES
    return NO_NOTE


def _other_rows(model, described, by_value):
    """The constant weights that the metadata do not describe.

    Without metadata, those that are ±s count as binary.
    """
    stored, binary = {}, {}
    for (number, tensor), _ in weight_uses(model):
        subgraph = model.subgraphs[number]
        stored[number, tensor] = stored_tensor(model, subgraph, tensor)
    sizes = {
        (number, source): model.bytes_on_disk(
            model.subgraphs[number].tensors[source]
        )
        for (number, _), source in stored.items()
    }
    if by_value:
        unfold_float16(model)
        binary = {
            (constant.subgraph, constant.tensor): constant
            for constant in find_binary_constants(model)
        }
    for place, operator in weight_uses(model):
        source = place[0], stored[place]
        if source not in described and sizes[source]:
            name = model.operator_name(operator)
            constant = binary.get(place)
            yield _row(model, source, place, sizes[source], name, constant)
            described.add(source)


def _row(model, source, place, size, operator, constant):
    """The row of a weight that is stored at another place than it is read."""
    (number, stored), (_, read) = source, place
    tensors = model.subgraphs[number].tensors
    count = math.prod(shape_of(tensors[read]))
    kind = TYPES[tensors[stored].type].lower().replace("float32", "float")
    if tensors[stored].sparsity is not None:
        kind = "sparse"
    is_float = TYPES[tensors[read].type] == "FLOAT32"
    return LayerRow(
        layer=name_of(tensors[stored]),
        operator=operator,
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


def _table(rows):
    cells = [[f.name for f in dataclasses.fields(LayerRow) if f.name != "note"]]
    for row in rows:
        alpha = [f"{value:.4g}" for value in row.alpha or ()]
        numbers = f"{row.weights:,}", f"{row.bits:.2f}", f"{row.bytes:,}"
        texts = row.layer, row.operator, row.kind, row.arithmetic
        cells.append([*texts, *numbers, " … ".join(alpha) or "–"])
    widths = [max(map(len, column)) for column in zip(*cells)]
    return [
        "  ".join(
            cell.rjust(width) if 4 <= number <= 6 else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in cells
    ]


def _in_float_facts(f):
    yield "precision", f"with int8 everywhere the error is {f.int8_error:.3g}."
    count, size = len(f.paths), f"{abs(f.more_bytes):,} bytes"
    cost = f"{size} {'more' if f.more_bytes >= 0 else 'less'}"
    layers = "1 layer" if count == 1 else f"{count} layers"
    yield "", f"{layers} in float32: {cost}, {f.time_ratio:.2f} times the time"


def _agreement_facts(a):
    inputs = f"{a.samples} {a.data} inputs"
    keras = f"Keras in {a.computed_in}" if a.computed_in else "Keras"
    yield "agreement", f"with {keras} on {inputs}, in {a.runtime}:"
    if a.ties:
        yield "", f"{a.ties:.2%} of the values before a sign are zero up to"
        yield "", "rounding; at these, Keras was given the file's signs;"
    errors = f"max error {a.max_error:.2g} and mean error {a.mean_error:.2g}"
    yield "", f"{errors} of the largest output,"
    noise = f"signal to noise {a.snr_db:.0f} dB"
    last = "equal" if math.isinf(a.snr_db) else noise
    if a.equal_predictions is not None:
        last += f", {a.equal_predictions:.2%} equal predictions"
    yield "", last


def _share(size, whole):
    """A small network may take more bytes than in float: there are tables."""
    if size > whole:
        return f"{size / whole:.1f} times"
    return f"1/{whole / size:.1f} of"


def _size(count):
    for unit, factor in (("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.2f} {unit}"
    return f"{count:.0f} bytes"
