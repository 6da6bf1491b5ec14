"""Weights as sign bits, unpacked when the model is allocated.

The file holds 15 signs in each non-negative int16. GATHER looks them up in a
table of 32768 rows, itself built from two tiny constants; STRIDED_SLICE cuts
the tail, RESHAPE gives the weights' shape. That is all for int8 weights; for
float ones, a second GATHER looks up −s or +s, or what three signs amount to
(see `conv_as_winograd`). The runtime evaluates these operators on constants
when it allocates the model, and never again.

XNNPACK must not take any of them, for it would run them at each inference. It
takes no integers without quantization, no int16, and no reshape to a shape that
is computed.
"""

import dataclasses

import numpy as np

from tflite_export.find import BinaryConstant
from tflite_export.flatbuffer.model import FlatModel
from tflite_export.flatbuffer.schema import shape_of
from tflite_export.flatbuffer.serialize import quantization
from tflite_export.transformations.conv_as_winograd import (
    KERNEL_WIDTH,
    WEIGHTS,
)
from tflite_export.transformations.pass_into_loop import (
    loop_of,
    pass_into_loop,
)

__all__ = ["Unpacker", "pack_signs", "unpack_signs"]

SIGNS_PER_INDEX = 15
# How many copies of a tensor one operator makes, a power of two.
COPIES = 16
# Larger tables are made of smaller ones.
MOST_STORED_ROWS = 64
# A scale must be positive; with this one a product is zero for all purposes.
SMALLEST_SCALE = np.float32(1e-30)


@dataclasses.dataclass(frozen=True)
class Digits:
    """What the bits of an index are looked up as.

    Attributes:
        type_name: The type of a digit.
        bits: How many bits there are in one.
        zero: What stands for a digit 0.
    """

    type_name: str
    bits: int
    zero: int = 0

    @property
    def per_index(self) -> int:
        return SIGNS_PER_INDEX // self.bits

    def rows(self, count: int) -> int:
        """How many numbers have so many digits."""
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
TRIPLES = Digits("INT16", KERNEL_WIDTH)


def pack_signs(signs) -> np.ndarray:
    """int16 indices; bit j of index i is 1 where sign 15·i + j is +1."""
    bits = signs.reshape(-1) > 0
    bits = np.pad(bits, (0, -len(bits) % SIGNS_PER_INDEX))
    weights = 1 << np.arange(SIGNS_PER_INDEX, dtype=np.int16)
    rows = bits.reshape(-1, SIGNS_PER_INDEX)
    return (rows @ weights).astype(np.int16)


def unpack_signs(indices, shape) -> np.ndarray:
    """The signs that `pack_signs` packed, ±1 as int8."""
    if indices.dtype != np.int16 or np.any(indices < 0):
        raise ValueError("sign bits that are not non-negative INT16")
    places = np.arange(SIGNS_PER_INDEX, dtype=np.int16)
    bits = indices[:, None] >> places & 1
    signs = np.where(bits, np.int8(1), np.int8(-1))
    return signs.reshape(-1)[: int(np.prod(shape))].reshape(shape)


class Unpacker:
    """Replaces binary constants of a model by packed ones.

    The operators that unpack stand at the beginning of the main subgraph, the
    table first, one for each type of arithmetic.

    Args:
        model: The model to change.
    """

    def __init__(self, model: FlatModel):
        self.model = model
        self.main = model.subgraphs[0]
        self.operators = []
        self.tables = {}

    def pack(self, constant: BinaryConstant, type_name: str):
        """Packs one constant.

        Args:
            constant: The constant.
            type_name: `"INT8"` or `"FLOAT32"`, what to unpack to.

        Returns:
            The number of the tensor with the bits, in the main subgraph, and
            the constant with its axes in the order of the bits.
        """
        stored = constant
        if type_name == "FLOAT32" and not constant.is_uniform:
            stored = constant.with_channels_first()
        indices = self._indices_of(stored)
        if type_name == "INT8":
            shape = stored.signs.shape
            tensor = self._digits_of(indices, stored, SIGNS, shape)
        else:
            tensor = self._floats_of(indices, stored)
        if stored.axis != constant.axis:
            tensor = self._move_channels(tensor, constant)
        self._put_in_place(tensor, constant, type_name)
        return indices, stored

    def pack_for_winograd(self, constant: BinaryConstant):
        """Packs the weights of a convolution for `as_winograd`.

        Args:
            constant: In the main subgraph, [channels, rows, 3, inputs].

        Returns:
            As `pack`; and the number of the tensor of unpacked weights, with
            the scale in them if there is one for all.
        """
        # The columns last: three signs side by side.
        stored = dataclasses.replace(
            constant,
            signs=np.ascontiguousarray(constant.signs.transpose(0, 1, 3, 2)),
            to_keras=tuple((0, 1, 3, 2)[axis] for axis in constant.to_keras),
        )
        indices = self._indices_of(stored)
        channels, rows, inputs, _ = stored.signs.shape
        shape = (channels, rows * inputs)
        triples = self._digits_of(indices, stored, TRIPLES, shape)
        bits = np.arange(1 << KERNEL_WIDTH) >> np.arange(KERNEL_WIDTH)[:, None]
        values = WEIGHTS @ (2 * (bits & 1) - 1)
        if constant.is_uniform:
            values *= constant.scales[0]
        tensor = self._append(
            "GATHER",
            [self._values(values.astype(np.float32)), triples],
            f"{constant.path}/winograd",
            (len(values), *shape),
            "FLOAT32",
            version=6,
            axis=1,
        )
        self.main.tensors[constant.tensor].buffer = 0
        return indices, stored, tensor

    def repeat_rows(self, blocks, constant: BinaryConstant) -> int:
        """A scale a row, given one for each block of rows.

        Args:
            blocks: The scales.
            constant: Whose rows they are.

        Returns:
            The number of the tensor, in the subgraph of the constant.
        """
        rows = len(constant.scales)
        name, shape = f"{constant.path}/scales", (1, rows // len(blocks))
        tensor = self._append(
            "TILE",
            [self._values(blocks[:, None]), self._integers(shape)],
            f"{name}/blocks",
            (len(blocks), shape[1]),
            "FLOAT32",
        )
        tensor = self._reshape(tensor, name, (rows,), "FLOAT32")
        return self._into_subgraph(tensor, constant)

    def finish(self):
        """Puts the operators in front of those that use their results."""
        self.main.operators[:0] = self.operators

    def _into_subgraph(self, tensor, constant):
        if constant.subgraph == 0:
            return tensor
        loop = loop_of(self.model, constant.subgraph)
        return pass_into_loop(self.model, loop, tensor)

    def _put_in_place(self, tensor, constant, type_name):
        """Lets the constant's operators read another tensor."""
        tensor = self._into_subgraph(tensor, constant)
        subgraph = self.model.subgraphs[constant.subgraph]
        if type_name == "INT8":
            scales = np.maximum(constant.scales, SMALLEST_SCALE)
            # Only this operator computes right with one scale for all.
            if constant.is_uniform and constant.operator == "FULLY_CONNECTED":
                scales = scales[:1]
            subgraph.tensors[tensor].quantization = quantization(
                scales, constant.axis
            )
        for operator in subgraph.operators:
            operator.inputs[operator.inputs == constant.tensor] = tensor
        subgraph.tensors[constant.tensor].buffer = 0

    def _indices_of(self, constant):
        return self.model.add_constant(
            self.main, f"{constant.path}/sign_bits", pack_signs(constant.signs)
        )

    def _values(self, values):
        return self.model.small_constant(self.main, values)

    def _digits_of(self, indices, constant, digits, shape):
        """The digits that the bits are looked up as, in a shape."""
        name, size = constant.path, int(np.prod(shape))
        rows = -(-size // digits.per_index)
        type_name = digits.type_name
        tensor = self._append(
            "GATHER",
            [self._table_of(digits, digits.per_index), indices],
            f"{name}/rows",
            (rows, digits.per_index),
            type_name,
            version=6,
        )
        padded = rows * digits.per_index
        if padded != size:
            tensor = self._cut(tensor, name, padded, size, type_name)
        return self._reshape(tensor, f"{name}/bits", shape, type_name)

    def _floats_of(self, indices, constant):
        """−s and +s, looked up by the bit, with the channels in front."""
        name, shape = constant.path, constant.signs.shape
        bits = self._digits_of(indices, constant, BITS, shape)
        values = np.stack([-constant.scales, constant.scales], axis=-1)
        batched = 0 if constant.is_uniform else 1
        values = self._values(values if batched else values[0])
        return self._append(
            "GATHER",
            [values, bits],
            f"{name}/float",
            constant.signs.shape,
            "FLOAT32",
            version=6,
            axis=batched,
            batchDims=batched,
        )

    def _move_channels(self, tensor, constant):
        """From channels in front to where the operator has them."""
        order = np.insert(np.arange(1, constant.signs.ndim), constant.axis, 0)
        return self._append(
            "TRANSPOSE",
            [tensor, self._integers(order)],
            f"{constant.path}/transposed",
            constant.signs.shape,
            "FLOAT32",
            version=4,
        )

    def _cut(self, tensor, name, padded, size, type_name):
        flat = self._reshape(tensor, f"{name}/flat", (padded,), type_name)
        return self._append(
            "STRIDED_SLICE",
            [flat, *(self._integers(n) for n in ([0], [size], [1]))],
            f"{name}/cut",
            (size,),
            type_name,
            version=4 if type_name == "INT16" else 2,
        )

    def _table_of(self, digits, count):
        """Row i holds the digits of i, the lowest first."""
        if (digits, count) not in self.tables:
            self.tables[digits, count] = self._build_table(digits, count)
        return self.tables[digits, count]

    def _build_table(self, digits, count):
        if digits.rows(count) <= MOST_STORED_ROWS:
            return self._values(digits.table(count))
        # Each row for the higher digits with all rows for the lower ones.
        type_name, name = digits.type_name, f"digits/{digits.bits}/{count}"
        lower, higher = count - count // 2, count // 2
        low = self._repeat(
            self._table_of(digits, lower),
            f"{name}/low",
            digits.rows(higher),
            0,
            type_name,
        )
        high = self._repeat(
            self._table_of(digits, higher),
            f"{name}/high",
            digits.rows(lower),
            1,
            type_name,
        )
        rows = digits.rows(count)
        high = self._reshape(high, f"{name}/high", (rows, higher), type_name)
        return self._concatenate([low, high], name, (rows, count), 1, type_name)

    def _repeat(self, tensor, name, times, axis, type_name):
        """The tensor many times along an axis; not every runtime's TILE takes
        int16."""
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
        return self._append(
            "CONCATENATION",
            tensors,
            name,
            shape,
            type_name,
            version=2 if type_name == "INT8" else 3,
            axis=axis,
        )

    def _reshape(self, tensor, name, shape, type_name):
        # XNNPACK would take a reshape to a constant shape, and run it at each
        # inference. So the shape is the result of an operator.
        constant = self._integers(shape)
        computed = self._append(
            "RESHAPE",
            [constant, self._integers([len(shape)])],
            f"{name}/shape",
            (len(shape),),
            "INT32",
        )
        return self._append(
            "RESHAPE", [tensor, computed], name, shape, type_name
        )

    def _integers(self, values):
        return self.model.small_constant(self.main, np.array(values, np.int32))

    def _append(self, operator, inputs, name, shape, type_name, **options):
        tensor = self.model.add_tensor(self.main, name, shape, type_name)
        self.operators.append(
            self.model.operator(operator, inputs, [tensor], **options)
        )
        return tensor
