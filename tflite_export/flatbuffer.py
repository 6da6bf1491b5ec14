"""The TFLite flatbuffer as objects: read it, change it, write it.

`FlatModel` holds the tree of objects that the schema's own Python classes make
of a file, and adds the few verbs that a transformation needs. Tensors and
operators are named by their number in their subgraph, as in the file.
"""

import math
import os
from pathlib import Path

import flatbuffers
import numpy as np

from tflite_export.errors import InvalidModelError, damage_as_error
from tflite_export.verify import verify

try:
    from ai_edge_litert import schema_py_generated as schema
except ImportError:
    from tensorflow.lite.python import schema_py_generated as schema

__all__ = ["FlatModel", "quantization", "read_content", "schema"]


def _names(enumeration):
    return {
        value: name
        for name, value in vars(enumeration).items()
        if isinstance(value, int)
    }


OPERATORS = _names(schema.BuiltinOperator)
TYPES = _names(schema.TensorType)
NUMPY_TYPES = {
    "FLOAT32": np.dtype("<f4"),
    "FLOAT16": np.dtype("<f2"),
    "FLOAT64": np.dtype("<f8"),
    "INT8": np.dtype("i1"),
    "UINT8": np.dtype("u1"),
    "INT16": np.dtype("<i2"),
    "UINT16": np.dtype("<u2"),
    "INT32": np.dtype("<i4"),
    "UINT32": np.dtype("<u4"),
    "INT64": np.dtype("<i8"),
    "UINT64": np.dtype("<u8"),
    "BOOL": np.dtype("?"),
}
# Bits of an element; several share a byte.
LOW_BIT_TYPES = {"INT4": 4, "INT2": 2}
ALIGNMENT = 16
MOST_ELEMENTS = 1 << 48


class FlatModel:
    """A TFLite model that can be changed.

    Args:
        content: The bytes of a `.tflite` file. Damaged ones raise
            `InvalidModelError`.
    """

    def __init__(self, content: bytes):
        verify(content)
        with damage_as_error("TFLite model"):
            root = schema.Model.GetRootAs(content, 0)
            self.model = schema.ModelT.InitFromObj(root)
            self._check_references()

    @property
    def subgraphs(self):
        return self.model.subgraphs

    def to_bytes(self) -> bytes:
        """The model as a file, without the data that nothing refers to."""
        self._drop_unused_buffers()
        size = sum(_length(b.data) + ALIGNMENT for b in self.model.buffers)
        builder = _Builder(size + 65536)
        buffers, self.model.buffers = self.model.buffers, None
        try:
            packed = [_pack_buffer(builder, buffer) for buffer in buffers]
            self.model.buffers = [_Packed(offset) for offset in packed]
            builder.Finish(self.model.Pack(builder), b"TFL3")
        finally:
            self.model.buffers = buffers
        return bytes(memoryview(builder.Bytes)[builder.Head() :])

    # Reading.

    def operator_name(self, operator) -> str:
        code = self.model.operatorCodes[operator.opcodeIndex]
        number = max(code.builtinCode, code.deprecatedBuiltinCode)
        return OPERATORS.get(number, f"OPERATOR_{number}")

    def type_name(self, tensor) -> str:
        return TYPES[tensor.type]

    def is_constant(self, tensor) -> bool:
        return _length(self.model.buffers[tensor.buffer].data) > 0

    def constant(self, tensor):
        """The value of a constant tensor as an array, `None` for others."""
        if not self.is_constant(tensor):
            return None
        data = np.asarray(self.model.buffers[tensor.buffer].data, np.uint8)
        shape, name = shape_of(tensor), TYPES[tensor.type]
        if name in LOW_BIT_TYPES:
            return unpack_low_bits(data, LOW_BIT_TYPES[name], shape)
        if name not in NUMPY_TYPES:
            return None
        return data.view(NUMPY_TYPES[name]).reshape(shape)

    def bytes_on_disk(self, tensor) -> int:
        return _length(self.model.buffers[tensor.buffer].data)

    def consumers(self, subgraph, tensor: int):
        """The operators that read a tensor."""
        return [
            operator
            for operator in subgraph.operators
            if tensor in inputs_of(operator)
        ]

    def producer(self, subgraph, tensor: int):
        """The operator that writes a tensor, or `None`."""
        for operator in subgraph.operators:
            if tensor in operator.outputs:
                return operator
        return None

    def signature(self) -> tuple[dict, dict]:
        """The numbers of the input and output tensors, by name."""
        for signature in self.model.signatureDefs or []:
            if signature.subgraphIndex == 0:
                return tuple(
                    {name_of(part): part.tensorIndex for part in parts}
                    for parts in (signature.inputs, signature.outputs)
                )
        main = self.subgraphs[0]
        return tuple(
            {name_of(main.tensors[i]): i for i in indices.tolist()}
            for indices in (main.inputs, main.outputs)
        )

    def set_signature(self, inputs: list[str], outputs: list[str]) -> None:
        """Names the inputs and outputs, given in their order."""
        main = self.subgraphs[0]
        signature = schema.SignatureDefT()
        signature.signatureKey = "serving_default"
        signature.inputs, signature.outputs = (
            [_tensor_map(*pair) for pair in zip(names, indices.tolist())]
            for names, indices in (
                (inputs, main.inputs),
                (outputs, main.outputs),
            )
        )
        self.model.signatureDefs = [signature]

    # Writing.

    def add_buffer(self, data) -> int:
        data = np.ascontiguousarray(data)
        buffer = schema.BufferT()
        buffer.data = data.reshape(-1).view(np.uint8)
        self.model.buffers.append(buffer)
        return len(self.model.buffers) - 1

    def add_tensor(
        self, subgraph, name, shape, type_name, parameters=None, buffer=0
    ) -> int:
        tensor = schema.TensorT()
        tensor.name = name
        tensor.shape = np.array(shape, np.int32)
        tensor.type = getattr(schema.TensorType, type_name)
        tensor.quantization = parameters
        tensor.buffer = buffer
        tensor.hasRank = True
        subgraph.tensors.append(tensor)
        return len(subgraph.tensors) - 1

    def add_constant(self, subgraph, name, value, parameters=None) -> int:
        value = np.asarray(value)
        types = {dtype: name for name, dtype in NUMPY_TYPES.items()}
        return self.add_tensor(
            subgraph,
            name,
            value.shape,
            types[value.dtype.newbyteorder("<")],
            parameters,
            self.add_buffer(value),
        )

    def operator(self, name, inputs, outputs, version=1, **options):
        """A new operator; `options` are the fields of its options' table."""
        operator = schema.OperatorT()
        operator.opcodeIndex = self._operator_code(name, version)
        operator.inputs = np.array(inputs, np.int32)
        operator.outputs = np.array(outputs, np.int32)
        table = OPTIONS.get(name)
        if table:
            kind = getattr(schema.BuiltinOptions, table)
            operator.builtinOptionsType = kind
            operator.builtinOptions = getattr(schema, table + "T")()
            for key, value in options.items():
                setattr(operator.builtinOptions, key, value)
        return operator

    def require_version(self, operator, version: int) -> None:
        """Raises the version of an operator, if it is lower."""
        code = self.model.operatorCodes[operator.opcodeIndex]
        if code.version < version:
            name = self.operator_name(operator)
            operator.opcodeIndex = self._operator_code(name, version)

    def _operator_code(self, name, version):
        number = getattr(schema.BuiltinOperator, name)
        for index, code in enumerate(self.model.operatorCodes):
            found = max(code.builtinCode, code.deprecatedBuiltinCode)
            if found == number and code.version == version:
                return index
        code = schema.OperatorCodeT()
        code.builtinCode = number
        # Readers older than the field above look here; 127 says: look there.
        code.deprecatedBuiltinCode = min(number, 127)
        code.version = version
        self.model.operatorCodes.append(code)
        return len(self.model.operatorCodes) - 1

    def _drop_unused_buffers(self):
        used = {0}
        for subgraph in self.subgraphs:
            used.update(tensor.buffer for tensor in subgraph.tensors)
        used.update(entry.buffer for entry in self.model.metadata or [])
        for index, buffer in enumerate(self.model.buffers):
            if index not in used:
                buffer.data = None

    def _check_references(self):
        """Everything that is a number of something must be one of it."""
        model = self.model
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
                self._check_tensor(tensor)
            for operator in subgraph.operators:
                operator.inputs = _indices(operator.inputs)
                operator.outputs = _indices(operator.outputs)
                _check_index(
                    "operator code", operator.opcodeIndex, model.operatorCodes
                )
            used = [subgraph.inputs, subgraph.outputs]
            for operator in subgraph.operators:
                used += [operator.inputs, operator.outputs]
            for index in np.concatenate(used).tolist():
                if index != -1:  # an optional input that is not there
                    _check_index("tensor", index, subgraph.tensors)

    def _check_tensor(self, tensor):
        _check_index("buffer", tensor.buffer, self.model.buffers)
        if tensor.type not in TYPES:
            raise InvalidModelError(
                "Damaged TFLite model: a tensor of an unknown type. "
                f"Received: type {tensor.type}"
            )
        if math.prod(max(n, 1) for n in shape_of(tensor)) > MOST_ELEMENTS:
            raise InvalidModelError(
                "Damaged TFLite model: a tensor larger than any memory. "
                f"Received: shape {shape_of(tensor)}"
            )
        size = self.bytes_on_disk(tensor)
        name = TYPES[tensor.type]
        if size == 0 or not (name in NUMPY_TYPES or name in LOW_BIT_TYPES):
            return
        shape = shape_of(tensor)
        count = 1
        for dimension in shape:
            count *= max(dimension, 0)
        bits = LOW_BIT_TYPES.get(name) or 8 * NUMPY_TYPES[name].itemsize
        if size != -(-count * bits // 8):
            raise InvalidModelError(
                "Damaged TFLite model: a tensor and its data differ in size. "
                f"Received: {name} of shape {shape} with {size} bytes"
            )


class _Builder(flatbuffers.Builder):
    """Writes a vector of zeros only once."""

    def __init__(self, size):
        super().__init__(size)
        self._zeros = {}

    def zeros(self, count):
        if count not in self._zeros:
            zeros = np.zeros(count, np.int64)
            self._zeros[count] = self.CreateNumpyVector(zeros)
        return self._zeros[count]


class _Packed:
    """Stands for a part that is in the builder already."""

    def __init__(self, offset):
        self.offset = offset

    def Pack(self, builder):
        return self.offset


def _pack_buffer(builder, buffer):
    """Data at a multiple of 16 bytes, as the schema asks for."""
    data = buffer.data
    if data is not None:
        data = np.asarray(data, np.uint8).tobytes()
        builder.StartVector(1, len(data), ALIGNMENT)
        builder.head -= len(data)
        builder.Bytes[builder.head : builder.head + len(data)] = data
        vector = builder.EndVector()
    schema.BufferStart(builder)
    if data is not None:
        schema.BufferAddData(builder, vector)
    schema.BufferAddOffset(builder, buffer.offset)
    schema.BufferAddSize(builder, buffer.size)
    return schema.BufferEnd(builder)


# The options' table of each operator that transformations make.
OPTIONS = {
    "ADD": "AddOptions",
    "BATCH_MATMUL": "BatchMatMulOptions",
    "CONCATENATION": "ConcatenationOptions",
    "DEQUANTIZE": "DequantizeOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "GATHER": "GatherOptions",
    "GREATER_EQUAL": "GreaterEqualOptions",
    "PAD": "PadOptions",
    "RESHAPE": "ReshapeOptions",
    "SELECT_V2": "SelectV2Options",
    "STRIDED_SLICE": "StridedSliceOptions",
    "TRANSPOSE": "TransposeOptions",
}


class Symmetric(schema.QuantizationParametersT):
    """Quantization without zero points: value = scale · integer.

    The format wants a zero point for each scale, 8 bytes of zeros. All tensors
    with as many channels share theirs.
    """

    def Pack(self, builder):
        scale = builder.CreateNumpyVector(self.scale)
        zeros = builder.zeros(len(self.scale))
        schema.QuantizationParametersStart(builder)
        schema.QuantizationParametersAddScale(builder, scale)
        schema.QuantizationParametersAddZeroPoint(builder, zeros)
        schema.QuantizationParametersAddQuantizedDimension(
            builder, self.quantizedDimension
        )
        return schema.QuantizationParametersEnd(builder)


def quantization(scales, axis: int = 0) -> Symmetric:
    """One scale, or one for each index of an axis."""
    parameters = Symmetric()
    parameters.scale = np.atleast_1d(np.asarray(scales, np.float32))
    parameters.quantizedDimension = axis if len(parameters.scale) > 1 else 0
    return parameters


def read_content(path) -> bytes:
    """The bytes of a file, given by its path or as they are."""
    if isinstance(path, (bytes, bytearray, memoryview)):
        return bytes(path)
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            "Give the path of a .tflite file, or its bytes. "
            f"Received: {path!r} of type {type(path).__name__}"
        )
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no such file. Received: '{path}'")
    return path.read_bytes()


def shape_of(tensor) -> tuple:
    return () if tensor.shape is None else tuple(int(n) for n in tensor.shape)


def name_of(part) -> str:
    name = part.name or b""
    return name.decode(errors="replace") if isinstance(name, bytes) else name


def inputs_of(operator) -> list:
    return operator.inputs.tolist()


def pack_low_bits(values, bits: int):
    """Small signed integers, several a byte, the first in the lowest bits."""
    codes = values.reshape(-1).astype(np.uint8) & ((1 << bits) - 1)
    per_byte = 8 // bits
    codes = np.pad(codes, (0, -len(codes) % per_byte)).reshape(-1, per_byte)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(codes << shifts, axis=1).astype(np.uint8)


def unpack_low_bits(data, bits: int, shape):
    """What `pack_low_bits` packed, as int8."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = (data[:, None] >> shifts).reshape(-1) << (8 - bits)
    codes = codes.astype(np.uint8).view(np.int8) >> (8 - bits)
    return codes[: int(np.prod(shape))].reshape(shape)


def _tensor_map(name, index):
    entry = schema.TensorMapT()
    entry.name = name
    entry.tensorIndex = index
    return entry


def _length(data):
    return 0 if data is None else len(data)


def _indices(values):
    return np.array([] if values is None else values, np.int32).reshape(-1)


def _check_index(what, index, parts):
    if not 0 <= index < len(parts):
        raise InvalidModelError(
            f"Damaged TFLite model: it refers to {what} {index}, "
            f"of {len(parts)}."
        )
