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
    _Verifier(content).table("Model", 0, "the model")


class _Verifier:
    def __init__(self, content):
        self.content = content
        self.tables_left = MAX_TABLES

    def table(self, name, reference, place):
        """Follows the reference at a position to a table, and checks it."""
        self.tables_left -= 1
        if self.tables_left < 0:
            self._fail(place, "more tables than a model has")
        start = self._follow(reference, place)
        vtable = start - self._number("<i", start, place)
        size = self._number("<H", vtable, place)
        inline = self._number("<H", vtable + 2, place)
        self._check(start, inline, place)
        self._check(vtable, size, place)
        for field in range((size - 4) // 2):
            offset = self._number("<H", vtable + 4 + 2 * field, place)
            if offset == 0:
                continue
            if not 4 <= offset < inline:
                self._fail(place, "a field outside its table")
            kind = TABLES[name].get(field)
            if kind is not None:
                self._field(kind, start + offset, f"{place}, {name}.{field}")

    def _field(self, kind, position, place):
        if isinstance(kind, str):
            self.table(kind, position, place)
        elif isinstance(kind, int):
            self._vector(kind, position, place)
        else:
            start, length = self._vector(4, position, place)
            for index in range(length):
                self.table(kind[0], start + 4 * index, f"{place}[{index}]")

    def _vector(self, item_size, reference, place):
        start = self._follow(reference, place)
        length = self._number("<I", start, place)
        self._check(start + 4, length * item_size, place)
        return start + 4, length

    def _follow(self, reference, place):
        return reference + self._number("<I", reference, place)

    def _number(self, layout, position, place):
        self._check(position, struct.calcsize(layout), place)
        return struct.unpack_from(layout, self.content, position)[0]

    def _check(self, start, size, place):
        if start < 0 or start + size > len(self.content):
            self._fail(place, "an offset outside the file")

    def _fail(self, place, problem):
        raise InvalidModelError(
            f"Damaged TFLite model: {problem}, in {place}. "
            f"Received: a file of {len(self.content)} bytes"
        )


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
            _add_options(model, operator)
            operator.inputs = _indices(operator.inputs)
            operator.outputs = _indices(operator.outputs)
        used = [subgraph.inputs, subgraph.outputs]
        for operator in subgraph.operators:
            used += [operator.inputs, operator.outputs]
        for index in np.concatenate(used).tolist():
            if index != -1:  # an optional input that is absent
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
    if tensor.type not in TYPES:
        raise InvalidModelError(
            "Damaged TFLite model: a tensor has an unknown type. "
            f"Received: type {tensor.type}"
        )
    shape, name = shape_of(tensor), TYPES[tensor.type]
    if math.prod(max(n, 1) for n in shape) > MOST_ELEMENTS:
        raise InvalidModelError(
            "Damaged TFLite model: a tensor is larger than any memory. "
            f"Received: shape {shape}"
        )
    data = model.buffers[tensor.buffer].data
    size = 0 if data is None else len(data)
    bits, count = BITS.get(name), math.prod(max(n, 0) for n in shape)
    is_dense = tensor.sparsity is None
    if size and bits and is_dense and size != -(-count * bits // 8):
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
