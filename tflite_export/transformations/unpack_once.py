"""Weights as sign bits, unpacked when the model is allocated.

The file holds 15 signs in each non-negative int16. GATHER looks them up in a
table of 32768 rows, itself built from two small constants; STRIDED_SLICE cuts
the tail, RESHAPE gives the weights' shape. That is all for int8 weights; for
float ones, a second GATHER looks up −s or +s. The runtime evaluates these
operators on constants when it allocates the model, and never again.

XNNPACK must not take any of them, for it would run them at each inference. It
takes no integers without quantization, no int16, and no reshape to a shape that
is computed.
"""

import numpy as np

from tflite_export.find import BinaryConstant
from tflite_export.flatbuffer import FlatModel
from tflite_export.serialize import quantization
from tflite_export.tflite_schema import shape_of
from tflite_export.transformations.pass_into_loop import (
    loop_of,
    pass_into_loop,
)

__all__ = ["Unpacker", "pack_signs", "unpack_signs"]

SIGNS_PER_INDEX = 15
# The table's row is a row of a first table, then one of a second.
FIRST_BITS, SECOND_BITS = 8, 7
# How many copies of a tensor one operator makes, a power of two.
COPIES = 16
# A scale must be positive; with this one a product is zero for all purposes.
SMALLEST_SCALE = np.float32(1e-30)


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
    table = _table(SIGNS_PER_INDEX, -1, np.int8)
    return table[indices].reshape(-1)[: int(np.prod(shape))].reshape(shape)


def _table(bits, zero, dtype):
    """Row i holds the bits of i, the lowest first, with `zero` for a 0."""
    rows = np.arange(1 << bits)[:, None] >> np.arange(bits) & 1
    return np.where(rows, 1, zero).astype(dtype)


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
        self.integers = {}

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
        indices = self.model.add_constant(
            self.main, f"{constant.path}/sign_bits", pack_signs(stored.signs)
        )
        if type_name == "INT8":
            tensor = self._integers_of(indices, stored, "INT8")
        else:
            tensor = self._floats_of(indices, stored)
        if stored.axis != constant.axis:
            tensor = self._move_channels(tensor, constant)
        self._put_in_place(tensor, constant, type_name)
        return indices, stored

    def finish(self):
        """Puts the operators in front of those that use their results."""
        self.main.operators[:0] = self.operators

    def _put_in_place(self, tensor, constant, type_name):
        """Lets the constant's operators read another tensor."""
        if constant.subgraph != 0:
            loop = loop_of(self.model, constant.subgraph)
            tensor = pass_into_loop(self.model, loop, tensor)
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

    def _integers_of(self, indices, constant, type_name):
        """−1 and +1 as INT8, or 0 and 1 as INT16, in the weights' shape."""
        name, size = constant.path, constant.signs.size
        rows = -(-size // SIGNS_PER_INDEX)
        bits = self._append(
            "GATHER",
            [self._table_of(type_name), indices],
            f"{name}/rows",
            (rows, SIGNS_PER_INDEX),
            type_name,
            version=6,
        )
        if rows * SIGNS_PER_INDEX != size:
            bits = self._cut(
                bits, name, rows * SIGNS_PER_INDEX, size, type_name
            )
        return self._reshape(
            bits, f"{name}/bits", constant.signs.shape, type_name
        )

    def _floats_of(self, indices, constant):
        """−s and +s, looked up by the bit, with the channels in front."""
        name = constant.path
        bits = self._integers_of(indices, constant, "INT16")
        values = np.stack([-constant.scales, constant.scales], axis=-1)
        batched = 0 if constant.is_uniform else 1
        values = self.model.add_constant(
            self.main, f"{name}/values", values if batched else values[0]
        )
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

    def _table_of(self, type_name):
        if type_name not in self.tables:
            self.tables[type_name] = self._build_table(type_name)
        return self.tables[type_name]

    def _build_table(self, type_name):
        prefix = f"signs/{type_name.lower()}"
        zero, dtype = (-1, np.int8) if type_name == "INT8" else (0, np.int16)
        first_rows, second_rows = 1 << FIRST_BITS, 1 << SECOND_BITS
        rows = first_rows * second_rows
        first = self.model.add_constant(
            self.main, f"{prefix}/low", _table(FIRST_BITS, zero, dtype)
        )
        second = self.model.add_constant(
            self.main,
            f"{prefix}/high",
            _table(SECOND_BITS, zero, dtype)[:, None, :],
        )
        low = self._repeat(first, f"{prefix}/low", second_rows, 0, type_name)
        high = self._repeat(second, f"{prefix}/high", first_rows, 1, type_name)
        high = self._reshape(
            high, f"{prefix}/high_rows", (rows, SECOND_BITS), type_name
        )
        return self._concatenate(
            [low, high],
            f"{prefix}/table",
            (rows, SIGNS_PER_INDEX),
            1,
            type_name,
        )

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
        key = tuple(int(value) for value in values)
        if key not in self.integers:
            self.integers[key] = self.model.add_constant(
                self.main, "integers", np.array(key, np.int32)
            )
        return self.integers[key]

    def _append(self, operator, inputs, name, shape, type_name, **options):
        tensor = self.model.add_tensor(self.main, name, shape, type_name)
        self.operators.append(
            self.model.operator(operator, inputs, [tensor], **options)
        )
        return tensor
