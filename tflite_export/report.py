"""The report on a file: a table of weights, sizes, and the agreement."""

import dataclasses
import json
import math

from tflite_export.formats import Format


@dataclasses.dataclass(frozen=True)
class LayerRow:
    """One weight tensor of a model.

    Attributes:
        layer: The path of a binary kernel in the Keras model. For other weights
            the path of the layer and the operation, or the name of the tensor.
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
class Agreement:
    """How far the outputs of an exported model are from those of Keras.

    If the model has several outputs, the errors are those of the worst one.

    Attributes:
        runtime: The interpreter that was used.
        samples: How many samples were compared.
        data: `"given"` or `"random"`.
        max_error: The largest difference, relative to the largest output.
        mean_error: The mean difference, relative to the largest output.
        relative_error: ‖y' − y‖ / ‖y‖.
        snr_db: The signal-to-noise ratio in decibels, infinite if equal.
        equal_predictions: The share of samples with the same largest output.
            `None` unless the model has one output with several classes.
        computed_in: `"float32"` if the model has another precision, and was
            compared with what its layers compute in float32. Else empty.
        ties: The share of values before a sign that are zero up to rounding,
            so that their sign is undecided. Counted only if the outputs differ.
        error_with_ties: If Keras was given the file's signs at the ties,
            ‖y' − y‖ / ‖y‖ with its own signs. Else 0.
    """

    runtime: str
    samples: int
    data: str
    max_error: float
    mean_error: float
    relative_error: float
    snr_db: float
    equal_predictions: float | None
    computed_in: str = ""
    ties: float = 0.0
    error_with_ties: float = 0.0


@dataclasses.dataclass(frozen=True)
class InFloat:
    """Layers that compute in float32 because int8 was not precise enough.

    Attributes:
        paths: The paths of their kernels, the one that loses most first.
        int8_error: ‖y' − y‖ / ‖y‖ of the file with all of them in int8.
        more_bytes: How much larger the file is than that one.
        time_ratio: How long an inference takes, as a multiple of that file's.
            The median of a few runs on this machine, one sample at a time.
    """

    paths: tuple
    int8_error: float
    more_bytes: int
    time_ratio: float


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
            were tried: TensorFlow 2.13 and newer. Empty if the file has custom
            operators, which no stock runtime has.
        batch_size: The batch size of the file, or `None` if it is open.
        has_open_size: Whether the batch size or another size of an input is
            open. LiteRT.js does not run such a file.
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
    has_open_size: bool = False
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
        if self.oldest_runtime:
            yield "runtime", f"{self.oldest_runtime}, and newer"
        else:
            yield "runtime", "none of the stock ones: custom operators"
        if self.has_open_size:
            is_batch = self.batch_size is None
            which = "the batch size" if is_batch else "a size of an input"
            yield "", f"not LiteRT.js: {which} is open"
            if "TRANSPOSE_CONV" in self.operators:
                yield "", "not CompiledModel: TRANSPOSE_CONV with open size"
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
    if a.error_with_ties:
        yield "", f"{a.ties:.2%} of the values before a sign are zero up to"
        yield "", "rounding; at these, Keras was given the file's signs"
        yield "", f"(with its own the error is {a.error_with_ties:.2g});"
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
