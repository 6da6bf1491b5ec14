"""The TFLite flatbuffer as objects: read it, change it, write it.

`FlatModel` holds the tree of objects that the schema's own Python classes make
of a file, and adds the few methods that a transformation needs. A tensor is
given by its number in its subgraph, as in the file.
"""

from collections.abc import Iterator

import numpy as np

from tflite_export.errors import damage_as_error
from tflite_export.flatbuffer.integrity import check_references, check_structure
from tflite_export.flatbuffer.schema import (
    LOW_BIT_TYPES,
    NUMPY_TYPES,
    OPERATORS,
    TYPES,
    open_shape_of,
    schema,
    shape_of,
    unpack_low_bits,
)
from tflite_export.flatbuffer.serialize import serialize


class FlatModel:
    """A TFLite model that can be changed.

    Args:
        content: The bytes of a `.tflite` file. Raises `InvalidModelError` if
            they are damaged.
    """

    def __init__(self, content: bytes):
        check_structure(content)
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
        used = {0, *(entry.buffer for entry in self.model.metadata or [])}
        for subgraph in self.subgraphs:
            used.update(tensor.buffer for tensor in subgraph.tensors)
        for index, buffer in enumerate(self.model.buffers):
            if index not in used:
                buffer.data = None
        return serialize(self.model)

    # Reading.

    def operator_name(self, operator) -> str:
        code = self.model.operatorCodes[operator.opcodeIndex]
        number = max(code.builtinCode, code.deprecatedBuiltinCode)
        return OPERATORS.get(number, f"OPERATOR_{number}")

    def operator_version(self, operator) -> int:
        return self.model.operatorCodes[operator.opcodeIndex].version

    def type_name(self, tensor) -> str:
        return TYPES[tensor.type]

    def is_constant(self, tensor) -> bool:
        return self.bytes_on_disk(tensor) > 0

    def constant(self, tensor):
        """The value of a constant tensor as an array, or `None`.

        A sparse tensor, which holds only a part of its values, has none.
        """
        if not self.is_constant(tensor) or tensor.sparsity is not None:
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

    def all_operators(self) -> Iterator[tuple]:
        """Yields each operator, after the subgraph that it is in."""
        for subgraph in self.subgraphs:
            for operator in subgraph.operators:
                yield subgraph, operator

    def computed_once(self, subgraph) -> set[int]:
        """The constants, and the tensors that depend on nothing else.

        The runtime computes them when it allocates the model.
        """
        known = {
            number
            for number, tensor in enumerate(subgraph.tensors)
            if self.is_constant(tensor)
        }
        for operator in subgraph.operators:
            inputs = {i for i in inputs_of(operator) if i >= 0}
            if inputs and inputs <= known:
                known.update(operator.outputs.tolist())
        return known

    def consumers(self, subgraph, tensor: int):
        """The operators that read a tensor."""
        return [
            operator
            for operator in subgraph.operators
            if tensor in inputs_of(operator)
        ]

    def producer(self, subgraph, tensor: int, *names: str):
        """The operator with one of these names that writes a tensor, if any."""
        for operator in subgraph.operators:
            if tensor in operator.outputs:
                has_name = self.operator_name(operator) in names
                return operator if has_name else None
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

    def input_shapes(self) -> list[tuple]:
        """The shapes of the inputs, with -1 for a size that is open."""
        main = self.subgraphs[0]
        return [open_shape_of(main.tensors[i]) for i in main.inputs]

    def set_signature(self, inputs: list[str], outputs: list[str]) -> None:
        """Names the inputs and outputs, in their order."""
        main = self.subgraphs[0]
        signature = schema.SignatureDefT()
        signature.signatureKey = "serving_default"
        signature.inputs = _tensor_maps(inputs, main.inputs)
        signature.outputs = _tensor_maps(outputs, main.outputs)
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

    def add_tensor_like(
        self, subgraph, tensor: int, type_name="FLOAT32", parameters=None
    ) -> int:
        """A tensor of the same sizes as another one, which may be open."""
        like = subgraph.tensors[tensor]
        new = self.add_tensor(
            subgraph, None, shape_of(like), type_name, parameters
        )
        subgraph.tensors[new].shapeSignature = like.shapeSignature
        return new

    def add_constant(self, subgraph, name, value) -> int:
        value = np.asarray(value)
        types = {dtype: name for name, dtype in NUMPY_TYPES.items()}
        return self.add_tensor(
            subgraph,
            name,
            value.shape,
            types[value.dtype.newbyteorder("<")],
            buffer=self.add_buffer(value),
        )

    def small_constant(self, subgraph, value) -> int:
        """A constant that operators share if they need the same value."""
        value = np.asarray(value)
        key = id(subgraph), value.dtype.str, value.shape, value.tobytes()
        known = self._small_constants
        if key not in known:
            known[key] = self.add_constant(subgraph, None, value)
        return known[key]

    def operator(self, name, inputs, outputs, version=1, **options):
        """A new operator; `options` are the fields of its options."""
        operator = schema.OperatorT()
        operator.opcodeIndex = self._operator_code(name, version)
        operator.inputs = np.array(inputs, np.int32)
        operator.outputs = np.array(outputs, np.int32)
        words = "".join(map(str.capitalize, name.split("_")))
        table = words.replace("Matmul", "MatMul") + "Options"
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, table)
        operator.builtinOptions = getattr(schema, table + "T")()
        vars(operator.builtinOptions).update(options)
        return operator

    def insert(
        self,
        subgraph,
        position: int,
        operator: str,
        inputs: list,
        shape: tuple,
        type_name: str = "FLOAT32",
        **options,
    ) -> int:
        """Inserts an operator; returns the tensor that it writes."""
        tensor = self.add_tensor(subgraph, None, shape, type_name)
        new = self.operator(operator, inputs, [tensor], **options)
        subgraph.operators.insert(position, new)
        return tensor

    def require_version(self, operator, version: int) -> None:
        """Raises the version of an operator, if it is lower."""
        code = self.model.operatorCodes[operator.opcodeIndex]
        if code.version < version:
            name = self.operator_name(operator)
            operator.opcodeIndex = self._operator_code(name, version)

    def release(self, subgraph, tensor: int) -> None:
        """Drops the value of a constant that nothing reads any more."""
        is_read = tensor in subgraph.outputs or self.consumers(subgraph, tensor)
        if not is_read:
            subgraph.tensors[tensor].buffer = 0

    def drop_inner_names(self) -> None:
        """Drops the names of tensors that are of no use to a user.

        In a small model they are a few percent of the file. Constants, inputs
        and outputs keep their names.
        """
        main = self.subgraphs[0]
        used = [main.tensors[i] for i in (*main.inputs, *main.outputs)]
        kept = set(map(id, used))
        for subgraph in self.subgraphs:
            for tensor in subgraph.tensors:
                if not self.is_constant(tensor) and id(tensor) not in kept:
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


def name_of(part) -> str:
    name = part.name or b""
    return name.decode(errors="replace") if isinstance(name, bytes) else name


def inputs_of(operator) -> list:
    return operator.inputs.tolist()


def _tensor_maps(names, indices):
    entries = [schema.TensorMapT() for _ in names]
    for entry, name, index in zip(entries, names, indices.tolist()):
        entry.name, entry.tensorIndex = name, index
    return entries
