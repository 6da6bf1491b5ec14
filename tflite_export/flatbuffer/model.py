"""The TFLite flatbuffer as objects: read it, change it, write it.

`FlatModel` holds the tree of objects that the schema's own Python classes make
of a file, and adds the few methods that a transformation needs. A tensor is
given by its number in its subgraph, as in the file.
"""

import numpy as np

from tflite_export.errors import damage_as_error
from tflite_export.flatbuffer.references import check_references
from tflite_export.flatbuffer.schema import (
    LOW_BIT_TYPES,
    NUMPY_TYPES,
    OPERATORS,
    TYPES,
    schema,
    shape_of,
    unpack_low_bits,
)
from tflite_export.flatbuffer.serialize import serialize
from tflite_export.flatbuffer.verify import verify

__all__ = ["FlatModel", "inputs_of", "name_of"]


class FlatModel:
    """A TFLite model that can be changed.

    Args:
        content: The bytes of a `.tflite` file. Raises `InvalidModelError` if
            they are damaged.
    """

    def __init__(self, content: bytes):
        verify(content)
        with damage_as_error("TFLite model"):
            root = schema.Model.GetRootAs(content, 0)
            self.model = schema.ModelT.InitFromObj(root)
            check_references(self.model)
        self._small_constants = {}

    @property
    def subgraphs(self):
        return self.model.subgraphs

    def to_bytes(self) -> bytes:
        """The bytes of the file, without data that nothing refers to."""
        self._drop_unused_buffers()
        return serialize(self.model)

    # Reading.

    def operator_name(self, operator) -> str:
        code = self.model.operatorCodes[operator.opcodeIndex]
        number = max(code.builtinCode, code.deprecatedBuiltinCode)
        return OPERATORS.get(number, f"OPERATOR_{number}")

    def type_name(self, tensor) -> str:
        return TYPES[tensor.type]

    def is_constant(self, tensor) -> bool:
        return self.bytes_on_disk(tensor) > 0

    def constant(self, tensor):
        """The value of a constant tensor as an array, or `None`."""
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
        data = self.model.buffers[tensor.buffer].data
        return 0 if data is None else len(data)

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
        """The numbers of the input and of the output tensors, by name."""
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
        """Names the inputs and outputs, in their order."""
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

    def small_constant(self, subgraph, value) -> int:
        """A constant that operators share if they need the same value."""
        value = np.asarray(value)
        content = value.dtype.str, value.shape, value.tobytes()
        key = (id(subgraph), *content)
        if key not in self._small_constants:
            self._small_constants[key] = self.add_constant(
                subgraph, None, value
            )
        return self._small_constants[key]

    def operator(self, name, inputs, outputs, version=1, **options):
        """A new operator; `options` are the fields of its options."""
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

    def release(self, subgraph, tensor: int) -> None:
        """Drops the value of a constant that nothing reads any more."""
        if tensor not in subgraph.outputs and not self.consumers(
            subgraph, tensor
        ):
            subgraph.tensors[tensor].buffer = 0

    def drop_inner_names(self) -> None:
        """Drops the names of tensors that are of no use to a user.

        In a small model they are a few percent of the file. Constants, inputs
        and outputs keep their names.
        """
        main = self.subgraphs[0]
        known = {*main.inputs.tolist(), *main.outputs.tolist()}
        for subgraph in self.subgraphs:
            for index, tensor in enumerate(subgraph.tensors):
                if subgraph is main and index in known:
                    continue
                if not self.is_constant(tensor):
                    tensor.name = None

    def _operator_code(self, name, version):
        number = getattr(schema.BuiltinOperator, name)
        for index, code in enumerate(self.model.operatorCodes):
            found = max(code.builtinCode, code.deprecatedBuiltinCode)
            if found == number and code.version == version:
                return index
        code = schema.OperatorCodeT()
        code.builtinCode = number
        # Readers older than that field look here; 127 tells newer ones to look
        # there.
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


# The class of the options of each operator that transformations add.
OPTIONS = {
    "ADD": "AddOptions",
    "BATCH_MATMUL": "BatchMatMulOptions",
    "CONCATENATION": "ConcatenationOptions",
    "DEQUANTIZE": "DequantizeOptions",
    "FILL": "FillOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "GATHER": "GatherOptions",
    "GREATER_EQUAL": "GreaterEqualOptions",
    "MUL": "MulOptions",
    "PAD": "PadOptions",
    "RESHAPE": "ReshapeOptions",
    "SELECT_V2": "SelectV2Options",
    "STRIDED_SLICE": "StridedSliceOptions",
    "SUB": "SubOptions",
    "TILE": "TileOptions",
    "TRANSPOSE": "TransposeOptions",
}


def name_of(part) -> str:
    name = part.name or b""
    return name.decode(errors="replace") if isinstance(name, bytes) else name


def inputs_of(operator) -> list:
    return operator.inputs.tolist()


def _tensor_map(name, index):
    entry = schema.TensorMapT()
    entry.name = name
    entry.tensorIndex = index
    return entry
