"""Operators that turn bits into weights when the model is allocated.

The runtime evaluates operators on constants once, when it allocates the model,
and never again. GATHER looks the 15 signs of a word up in a table of 32768
rows, which is built from two small constants; STRIDED_SLICE cuts off the tail;
RESHAPE gives the shape of the weights.

XNNPACK must not take any of these operators, because it would run them at each
inference. It takes no integers without quantization, no int16, and no RESHAPE
to a shape that is computed.
"""

import dataclasses

import numpy as np

from tflite_export.flatbuffer.model import FlatModel
from tflite_export.flatbuffer.schema import shape_of
from tflite_export.graph.loops import loop_of, pass_into_loop
from tflite_export.graph.weights import BinaryConstant
from tflite_export.sign_bits import SIGNS_PER_WORD, pack_signs

__all__ = ["BITS", "SIGNS", "Digits", "Unpacker"]

# How many copies of a tensor one operator makes; a power of two.
COPIES = 16
# Larger tables are composed of smaller ones.
MOST_STORED_ROWS = 64


@dataclasses.dataclass(frozen=True)
class Digits:
    """What the bits of a word are looked up as.

    Attributes:
        type_name: The type of a digit.
        bits: How many bits make one digit.
        zero: What stands for the digit 0.
    """

    type_name: str
    bits: int
    zero: int = 0

    @property
    def per_word(self) -> int:
        return SIGNS_PER_WORD // self.bits

    def rows(self, count: int) -> int:
        """How many numbers have this many digits."""
        return 1 << count * self.bits

    def table(self, count: int) -> np.ndarray:
        """Row i holds the digits of i, the lowest first."""
        shifts = self.bits * np.arange(count)
        numbers = np.arange(self.rows(count))[:, None]
        digits = numbers >> shifts & (1 << self.bits) - 1
        return np.where(digits, digits, self.zero).astype(
            self.type_name.lower()
        )


SIGNS = Digits("INT8", 1, zero=-1)
BITS = Digits("INT16", 1)


class Unpacker:
    """Writes unpacking operators at the beginning of the main subgraph.

    Tables are written once per model.

    Args:
        model: The model to change.
    """

    def __init__(self, model: FlatModel):
        self.model = model
        self.main = model.subgraphs[0]
        self._written = 0
        self._tables = {}

    def add(self, operator, inputs, name, shape, type_name, **options) -> int:
        """Adds an operator; returns the tensor that it writes."""
        tensor = self.model.add_tensor(self.main, name, shape, type_name)
        self.main.operators.insert(
            self._written,
            self.model.operator(operator, inputs, [tensor], **options),
        )
        self._written += 1
        return tensor

    def constant(self, values) -> int:
        return self.model.small_constant(self.main, values)

    def integers(self, values) -> int:
        return self.constant(np.array(values, np.int32))

    def reshape(self, tensor, name, shape, type_name) -> int:
        # XNNPACK would take a reshape to a constant shape. So the shape is the
        # result of an operator.
        computed = self.add(
            "RESHAPE",
            [self.integers(shape), self.integers([len(shape)])],
            f"{name}/shape",
            (len(shape),),
            "INT32",
        )
        return self.add("RESHAPE", [tensor, computed], name, shape, type_name)

    def store_signs(self, weight: BinaryConstant) -> int:
        """Stores the signs of a weight as bits; returns the tensor."""
        return self.model.add_constant(
            self.main, f"{weight.path}/sign_bits", pack_signs(weight.signs)
        )

    def digits(self, bits: int, name: str, digits: Digits, shape) -> int:
        """Looks stored bits up as digits, in the given shape."""
        size, type_name = int(np.prod(shape)), digits.type_name
        rows = -(-size // digits.per_word)
        tensor = self.add(
            "GATHER",
            [self._table(digits, digits.per_word), bits],
            f"{name}/rows",
            (rows, digits.per_word),
            type_name,
            version=6,
        )
        padded = rows * digits.per_word
        if padded != size:
            tensor = self._cut(tensor, name, padded, size, type_name)
        return self.reshape(tensor, f"{name}/bits", shape, type_name)

    def into_subgraph(self, tensor: int, number: int) -> int:
        """The tensor in another subgraph, which is the body of a loop."""
        if number == 0:
            return tensor
        return pass_into_loop(self.model, loop_of(self.model, number), tensor)

    def _cut(self, tensor, name, padded, size, type_name):
        flat = self.reshape(tensor, f"{name}/flat", (padded,), type_name)
        return self.add(
            "STRIDED_SLICE",
            [flat, *(self.integers(n) for n in ([0], [size], [1]))],
            f"{name}/cut",
            (size,),
            type_name,
            version=4 if type_name == "INT16" else 2,
        )

    def _table(self, digits, count):
        if (digits, count) not in self._tables:
            self._tables[digits, count] = self._build_table(digits, count)
        return self._tables[digits, count]

    def _build_table(self, digits, count):
        if digits.rows(count) <= MOST_STORED_ROWS:
            return self.constant(digits.table(count))
        # Each row for the higher digits with all rows for the lower ones.
        type_name, name = digits.type_name, f"digits/{digits.bits}/{count}"
        lower, higher = count - count // 2, count // 2
        low = self._repeat(
            self._table(digits, lower),
            f"{name}/low",
            digits.rows(higher),
            0,
            type_name,
        )
        high = self._repeat(
            self._table(digits, higher),
            f"{name}/high",
            digits.rows(lower),
            1,
            type_name,
        )
        rows = digits.rows(count)
        high = self.reshape(high, f"{name}/high", (rows, higher), type_name)
        return self._concatenate([low, high], name, (rows, count), 1, type_name)

    def _repeat(self, tensor, name, times, axis, type_name):
        # Not by TILE: not every runtime has it for int16.
        shape = list(shape_of(self.main.tensors[tensor]))
        while times > 1:
            copies = min(times, COPIES)
            shape[axis] *= copies
            times //= copies
            tensor = self._concatenate(
                [tensor] * copies, f"{name}_{times}", shape, axis, type_name
            )
        return tensor

    def _concatenate(self, tensors, name, shape, axis, type_name):
        return self.add(
            "CONCATENATION",
            tensors,
            name,
            shape,
            type_name,
            version=2 if type_name == "INT8" else 3,
            axis=axis,
        )
