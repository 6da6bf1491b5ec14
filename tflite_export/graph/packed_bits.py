"""How signs are packed into bits, in the file and in the runtime.

Fifteen signs share one int16. Its highest bit stays 0, because the runtime
looks the signs up by this number, and a negative number is no index. The layout
is documented in `docs/export.md`. `pack_signs` and `unpack_signs` write and
read it. `Unpacker` writes the operators that unpack it in the runtime.

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

SIGNS_PER_WORD = 15
# How many copies of a tensor one operator makes; a power of two.
COPIES = 16
# Larger tables are composed of smaller ones.
MOST_STORED_ROWS = 64


def pack_signs(signs) -> np.ndarray:
    """Packs an array of ±1 into int16 words.

    Bit j of word i is 1 if sign number 15·i + j is +1, in the order of the
    array with the last axis fastest.
    """
    bits = signs.reshape(-1) > 0
    bits = np.pad(bits, (0, -len(bits) % SIGNS_PER_WORD))
    values = 1 << np.arange(SIGNS_PER_WORD, dtype=np.int16)
    rows = bits.reshape(-1, SIGNS_PER_WORD)
    return (rows @ values).astype(np.int16)


def unpack_signs(words, shape) -> np.ndarray:
    """The signs that `pack_signs` packed, as an int8 array of ±1."""
    if words.dtype != np.int16 or np.any(words < 0):
        raise ValueError("the sign bits are not non-negative INT16 words")
    places = np.arange(SIGNS_PER_WORD, dtype=np.int16)
    bits = words[:, None] >> places & 1
    signs = np.where(bits, np.int8(1), np.int8(-1))
    return signs.reshape(-1)[: int(np.prod(shape))].reshape(shape)


@dataclasses.dataclass(frozen=True)
class Digits:
    """What the bits of a word are looked up as."""

    type_name: str
    bits: int  # How many make one digit.
    zero: int = 0  # What stands for the digit 0.

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
        dtype = self.type_name.lower()
        return np.where(digits, digits, self.zero).astype(dtype)


SIGNS = Digits("INT8", 1, zero=-1)
BITS = Digits("INT16", 1)


class Unpacker:
    """Writes unpacking operators at the beginning of the main subgraph.

    Tables are written once per model. `one_table` says whether signs are looked
    up in the table of bits, because the model needs that one anyway.
    """

    def __init__(self, model: FlatModel):
        self.model, self.one_table = model, False
        self.main = model.subgraphs[0]
        self._written = 0
        self._tables = {}

    def add(self, operator, inputs, shape, type_name, **options) -> int:
        """Adds an operator; returns the tensor that it writes."""
        self._written += 1
        place, output = (self.main, self._written - 1), (shape, type_name)
        return self.model.insert(*place, operator, inputs, *output, **options)

    def constant(self, values) -> int:
        return self.model.small_constant(self.main, values)

    def integers(self, values) -> int:
        return self.constant(np.array(values, np.int32))

    def reshape(self, tensor, shape) -> int:
        # XNNPACK would take a reshape to a constant shape. So the shape is the
        # result of an operator.
        sizes = [self.integers(shape), self.integers([len(shape)])]
        computed = self.add("RESHAPE", sizes, (len(shape),), "INT32")
        type_name = self.model.type_name(self.main.tensors[tensor])
        return self.add("RESHAPE", [tensor, computed], shape, type_name)

    def store_signs(self, weight: BinaryConstant) -> int:
        """Stores the signs of a weight as bits; returns the tensor."""
        return self.model.add_constant(
            self.main, f"{weight.path}/sign_bits", pack_signs(weight.signs)
        )

    def digits(self, bits: int, digits: Digits, shape) -> int:
        """Looks stored bits up as digits, in the given shape."""
        size, type_name = int(np.prod(shape)), digits.type_name
        rows = -(-size // digits.per_word)
        padded = rows * digits.per_word
        table = self._table(digits, digits.per_word)
        output = (rows, digits.per_word), type_name
        tensor = self.add("GATHER", [table, bits], *output, version=6)
        if padded != size:
            flat = self.reshape(tensor, (padded,))
            ends = [self.integers(n) for n in ([0], [size], [1])]
            version = 4 if type_name == "INT16" else 2
            output = (size,), type_name
            tensor = self.add(
                "STRIDED_SLICE", [flat, *ends], *output, version=version
            )
        return self.reshape(tensor, shape)

    def into_subgraph(self, tensor: int, number: int) -> int:
        """The tensor in another subgraph, which is the body of a loop."""
        if number == 0:
            return tensor
        return pass_into_loop(self.model, loop_of(self.model, number), tensor)

    def _table(self, digits, count):
        if (digits, count) not in self._tables:
            self._tables[digits, count] = self._build_table(digits, count)
        return self._tables[digits, count]

    def _build_table(self, digits, count):
        rows = digits.rows(count)
        if digits == SIGNS and self.one_table:
            table = self._table(BITS, count)
            values = self.constant(SIGNS.table(1).reshape(-1))
            output = (rows, count), "INT8"
            return self.add("GATHER", [values, table], *output, version=6)
        if rows <= MOST_STORED_ROWS:
            return self.constant(digits.table(count))
        # Each row for the higher digits with all rows for the lower ones.
        lower, higher = count - count // 2, count // 2
        low = self._repeat(
            self._table(digits, lower), digits.rows(higher), axis=0
        )
        high = self._repeat(
            self._table(digits, higher), digits.rows(lower), axis=1
        )
        high = self.reshape(high, (rows, higher))
        return self._concatenate([low, high], axis=1)

    def _repeat(self, tensor, times, axis):
        # Not by TILE: not every runtime has it for int16.
        while times > 1:
            copies = min(times, COPIES)
            times //= copies
            tensor = self._concatenate([tensor] * copies, axis)
        return tensor

    def _concatenate(self, numbers, axis):
        tensors = [self.main.tensors[number] for number in numbers]
        type_name = self.model.type_name(tensors[0])
        shape = list(shape_of(tensors[0]))
        shape[axis] = sum(shape_of(tensor)[axis] for tensor in tensors)
        options = {"version": 2 if type_name == "INT8" else 3, "axis": axis}
        return self.add("CONCATENATION", numbers, shape, type_name, **options)
