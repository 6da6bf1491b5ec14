"""Checks a TFLite flatbuffer before anything follows its offsets and numbers.

Neither the generated Python classes nor the interpreter check them. An offset
that points nowhere leads to an obscure exception, to a very long loop, or to a
crash of the process.
"""

import math
import struct

import numpy as np

from tflite_export.errors import InvalidModelError
from tflite_export.flatbuffer.schema import BITS, TYPES, schema, shape_of

# The fields of each table, by number: the name of a table, a list with one name
# for a vector of tables, the size of an element for a vector of numbers or a
# string. Other fields are numbers inside the table. Of `ANY` nothing is known
# except that its parts must be inside the file.
ANY, STRING = "Any", 1
TABLES = {
    "Model": {
        1: ["OperatorCode"],
        2: ["SubGraph"],
        3: STRING,
        4: ["Buffer"],
        5: 4,
        6: ["Metadata"],
        7: ["SignatureDef"],
    },
    "OperatorCode": {1: STRING},
    "SubGraph": {0: ["Tensor"], 1: 4, 2: 4, 3: ["Operator"], 4: STRING},
    "Tensor": {
        0: 4,
        3: STRING,
        4: "Quantization",
        6: "Sparsity",
        7: 4,
        9: [ANY],
    },
    "Quantization": {0: 4, 1: 4, 2: 4, 3: 8, 5: ANY},
    "Sparsity": {0: 4, 1: 4, 2: [ANY]},
    "Operator": {1: 4, 2: 4, 4: ANY, 5: 1, 7: 1, 8: 4, 12: ANY},
    "Buffer": {0: 1},
    "Metadata": {0: STRING},
    "SignatureDef": {0: ["TensorMap"], 1: ["TensorMap"], 2: STRING},
    "TensorMap": {0: STRING},
    ANY: {},
}
# More than any model has. Tables that share parts could be counted forever.
MAX_TABLES = 2_000_000
MOST_ELEMENTS = 1 << 48


def check_structure(content: bytes) -> None:
    """Raises InvalidModelError if a part of the model is outside the file."""
    if len(content) < 8 or content[4:8] != b"TFL3":
        raise InvalidModelError(
            "Not a TFLite model: the identifier 'TFL3' is missing. "
            f"Received: {len(content)} bytes beginning with {content[:8]!r}"
        )
    _Verifier(content).table("Model", 0)


class _Verifier:
    def __init__(self, content):
        self.content = content
        self.tables_left = MAX_TABLES

    def table(self, name, reference):
        """Follows the reference at a position to a table, and checks it."""
        self.tables_left -= 1
        _require(self.tables_left >= 0, "more tables than a model has")
        start = self._follow(reference)
        vtable = start - self._number("<i", start)
        size = self._number("<H", vtable)
        inline = self._number("<H", vtable + 2)
        self._check(start, inline)
        self._check(vtable, size)
        for field in range((size - 4) // 2):
            offset = self._number("<H", vtable + 4 + 2 * field)
            if offset == 0:
                continue
            _require(4 <= offset < inline, "a field outside its table")
            kind = TABLES[name].get(field)
            if kind is not None:
                self._field(kind, start + offset)

    def _field(self, kind, position):
        if isinstance(kind, str):
            self.table(kind, position)
        elif isinstance(kind, int):
            self._vector(kind, position)
        else:
            start, length = self._vector(4, position)
            for index in range(length):
                self.table(kind[0], start + 4 * index)

    def _vector(self, item_size, reference):
        start = self._follow(reference)
        length = self._number("<I", start)
        self._check(start + 4, length * item_size)
        return start + 4, length

    def _follow(self, reference):
        return reference + self._number("<I", reference)

    def _number(self, layout, position):
        self._check(position, struct.calcsize(layout))
        return struct.unpack_from(layout, self.content, position)[0]

    def _check(self, start, size):
        inside = 0 <= start and start + size <= len(self.content)
        _require(inside, "an offset outside the file")


def check_references(model) -> None:
    """Raises InvalidModelError if a number refers to no part of the model.

    Absent lists become empty ones.
    """
    model.operatorCodes = model.operatorCodes or []
    model.buffers = model.buffers or []
    _require(model.subgraphs and model.buffers, "no subgraph or no buffer")
    for entry in model.metadata or []:
        _check_index("buffer", entry.buffer, model.buffers)
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
        for tensor in subgraph.tensors:
            _check_tensor(model, tensor)
        for operator in subgraph.operators:
            _add_options(model, operator)
        for part in (subgraph, *subgraph.operators):
            part.inputs, part.outputs = map(
                _indices, (part.inputs, part.outputs)
            )
            for index in [*part.inputs, *part.outputs]:
                if index != -1:  # An optional input that is absent.
                    _check_index("tensor", index, subgraph.tensors)


def _add_options(model, operator):
    """Adds the options of a dense layer that leaves them out: the defaults."""
    _check_index("operator code", operator.opcodeIndex, model.operatorCodes)
    code = model.operatorCodes[operator.opcodeIndex]
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    dense = schema.BuiltinOperator.FULLY_CONNECTED
    if operator.builtinOptions is None and number == dense:
        kind = schema.BuiltinOptions.FullyConnectedOptions
        operator.builtinOptionsType = kind
        operator.builtinOptions = schema.FullyConnectedOptionsT()


def _check_tensor(model, tensor):
    _check_index("buffer", tensor.buffer, model.buffers)
    _require(tensor.type in TYPES, f"a tensor of unknown type {tensor.type}")
    shape, name = shape_of(tensor), TYPES[tensor.type]
    _require(
        math.prod(max(n, 1) for n in shape) <= MOST_ELEMENTS,
        f"a tensor of shape {shape}, larger than any memory",
    )
    data = model.buffers[tensor.buffer].data
    size = 0 if data is None else len(data)
    bits, count = BITS.get(name), math.prod(max(n, 0) for n in shape)
    if size and bits and tensor.sparsity is None:
        _require(
            size == -(-count * bits // 8),
            f"a tensor {name} of shape {shape} with {size} bytes",
        )


def _indices(values):
    return np.array([] if values is None else values, np.int32).reshape(-1)


def _check_index(what, index, parts):
    _require(
        0 <= index < len(parts),
        f"a reference to {what} {index}, where there are {len(parts)}",
    )


def _require(condition, problem):
    if not condition:
        raise InvalidModelError(f"Damaged TFLite model: {problem}")
