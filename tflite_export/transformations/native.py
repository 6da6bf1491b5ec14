"""Weights as constants of the runtime's own low-bit types.

±1 fits INT8 and INT4, the scale of a channel being its α. Nothing is unpacked:
XNNPACK takes such constants as they are.
"""

import numpy as np

from tflite_export.find import BinaryConstant
from tflite_export.flatbuffer.model import FlatModel
from tflite_export.flatbuffer.schema import pack_low_bits, schema
from tflite_export.flatbuffer.serialize import quantization
from tflite_export.transformations.unpack_once import SMALLEST_SCALE

__all__ = ["dequantize", "store_natively"]


def store_natively(
    model: FlatModel, constant: BinaryConstant, type_name: str
) -> None:
    """Stores a constant as INT8 or INT4 in its own place."""
    tensor = model.subgraphs[constant.subgraph].tensors[constant.tensor]
    data = constant.signs
    if type_name == "INT4":
        data = pack_low_bits(constant.signs, 4)
    tensor.type = getattr(schema.TensorType, type_name)
    tensor.buffer = model.add_buffer(data)
    tensor.quantization = quantization(
        np.maximum(constant.scales, SMALLEST_SCALE), constant.axis
    )


def dequantize(model: FlatModel, constant: BinaryConstant) -> None:
    """Lets the operators read a natively stored constant as float.

    The runtime converts a constant only once.
    """
    subgraph = model.subgraphs[constant.subgraph]
    weights = model.add_tensor(
        subgraph, f"{constant.path}/float", constant.signs.shape, "FLOAT32"
    )
    for operator in subgraph.operators:
        operator.inputs[operator.inputs == constant.tensor] = weights
    subgraph.operators.insert(
        0,
        model.operator("DEQUANTIZE", [constant.tensor], [weights], version=5),
    )
