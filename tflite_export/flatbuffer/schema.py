"""TFLite's schema: its classes, operators and types."""

import numpy as np

try:
    from ai_edge_litert import schema_py_generated as schema
except ImportError:
    try:
        from tensorflow.lite.python import schema_py_generated as schema
    except ImportError as error:
        raise ImportError(
            "Reading .tflite files needs ai-edge-litert, and the export also "
            'needs TensorFlow. Run: pip install "keras_lab[export]"'
        ) from error


def _names(enumeration):
    return {
        value: name
        for name, value in vars(enumeration).items()
        if isinstance(value, int)
    }


OPERATORS = _names(schema.BuiltinOperator)
TYPES = _names(schema.TensorType)
NUMPY_TYPES = {
    name: np.dtype(name.lower()).newbyteorder("<")
    for name in (
        "FLOAT16",
        "FLOAT32",
        "FLOAT64",
        "BOOL",
        "INT8",
        "INT16",
        "INT32",
        "INT64",
        "UINT8",
        "UINT16",
        "UINT32",
        "UINT64",
    )
}
# Bits per element; several elements share a byte.
LOW_BIT_TYPES = {"INT4": 4, "INT2": 2}
BITS = {
    **{name: 8 * dtype.itemsize for name, dtype in NUMPY_TYPES.items()},
    **LOW_BIT_TYPES,
}


def shape_of(tensor) -> tuple:
    return () if tensor.shape is None else tuple(int(n) for n in tensor.shape)


def open_shape_of(tensor) -> tuple:
    """The shape, with -1 for a size that is open."""
    sizes = tensor.shapeSignature
    return shape_of(tensor) if sizes is None else tuple(map(int, sizes))


def pack_low_bits(values, bits: int):
    """Packs small signed integers into bytes, the first in the lowest bits."""
    codes = values.reshape(-1).astype(np.uint8) & ((1 << bits) - 1)
    per_byte = 8 // bits
    codes = np.pad(codes, (0, -len(codes) % per_byte)).reshape(-1, per_byte)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(codes << shifts, axis=1).astype(np.uint8)


def unpack_low_bits(data, bits: int, shape):
    """The integers that `pack_low_bits` packed, as int8."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = (data[:, None] >> shifts).reshape(-1) << (8 - bits)
    codes = codes.astype(np.uint8).view(np.int8) >> (8 - bits)
    return codes[: int(np.prod(shape))].reshape(shape)
