"""Checks the bounds of a TFLite flatbuffer before anything follows its offsets.

Neither the generated Python classes nor the interpreter check them. An offset
that points nowhere leads to an obscure exception, to a very long loop, or to a
crash of the process.
"""

import struct

from tflite_export.errors import InvalidModelError

__all__ = ["verify"]

# The fields of each table, by number: the name of a table, a list with one name
# for a vector of tables, the size of an element for a vector of numbers, or
# "string". Other fields are numbers inside the table. Of `ANY` nothing is known
# except that its parts must be inside the file.
ANY = "Any"
TABLES = {
    "Model": {
        1: ["OperatorCode"],
        2: ["SubGraph"],
        3: "string",
        4: ["Buffer"],
        5: 4,
        6: ["Metadata"],
        7: ["SignatureDef"],
    },
    "OperatorCode": {1: "string"},
    "SubGraph": {0: ["Tensor"], 1: 4, 2: 4, 3: ["Operator"], 4: "string"},
    "Tensor": {
        0: 4,
        3: "string",
        4: "Quantization",
        6: "Sparsity",
        7: 4,
        9: [ANY],
    },
    "Quantization": {0: 4, 1: 4, 2: 4, 3: 8, 5: ANY},
    "Sparsity": {0: 4, 1: 4, 2: [ANY]},
    "Operator": {1: 4, 2: 4, 4: ANY, 5: 1, 7: 1, 8: 4, 12: ANY},
    "Buffer": {0: 1},
    "Metadata": {0: "string"},
    "SignatureDef": {0: ["TensorMap"], 1: ["TensorMap"], 2: "string"},
    "TensorMap": {0: "string"},
    ANY: {},
}
# More than any model has. Tables that share parts could be counted for ever.
MAX_TABLES = 2_000_000


def verify(content: bytes) -> None:
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
        if kind == "string":
            self._vector(1, position, place)
        elif isinstance(kind, str):
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
