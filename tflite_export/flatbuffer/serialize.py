"""Writes the objects of TFLite's schema as a flatbuffer."""

import flatbuffers
import numpy as np

from tflite_export.flatbuffer.schema import schema

ALIGNMENT = 16
# A scale must be positive. With this one, any product is practically zero.
SMALLEST_SCALE = np.float32(1e-30)


def serialize(model) -> bytes:
    """The bytes of a file, given the schema's object of the model."""
    buffers = model.buffers
    sizes = [0 if b.data is None else len(b.data) for b in buffers]
    builder = _Builder(sum(sizes) + ALIGNMENT * len(sizes) + 65536)
    try:
        model.buffers = [
            _Packed(_pack_buffer(builder, buffer)) for buffer in buffers
        ]
        builder.Finish(model.Pack(builder), b"TFL3")
    finally:
        model.buffers = buffers
    return bytes(memoryview(builder.Bytes)[builder.Head() :])


class Symmetric(schema.QuantizationParametersT):
    """Quantization without zero points: value = scale · integer.

    The format needs a zero point for each scale, 8 bytes of zeros. Tensors with
    the same number of channels share them. They also share equal scales, such
    as those of a loop variable inside and outside the loop.
    """

    def Pack(self, builder):
        scale = builder.shared(self.scale)
        zeros = builder.shared(np.zeros(len(self.scale), np.int64))
        schema.QuantizationParametersStart(builder)
        schema.QuantizationParametersAddScale(builder, scale)
        schema.QuantizationParametersAddZeroPoint(builder, zeros)
        schema.QuantizationParametersAddQuantizedDimension(
            builder, self.quantizedDimension
        )
        return schema.QuantizationParametersEnd(builder)


def quantization(scales, axis: int = 0) -> Symmetric:
    """Quantization with one scale, or one per index of an axis."""
    parameters = Symmetric()
    scales = np.atleast_1d(np.asarray(scales, np.float32))
    parameters.scale = np.maximum(scales, SMALLEST_SCALE)
    parameters.quantizedDimension = axis if len(parameters.scale) > 1 else 0
    return parameters


class _Builder(flatbuffers.Builder):
    """A builder that writes equal vectors only once."""

    def __init__(self, size):
        super().__init__(size)
        self._vectors = {}

    def shared(self, vector):
        key = vector.dtype.str, vector.tobytes()
        if key not in self._vectors:
            self._vectors[key] = self.CreateNumpyVector(vector)
        return self._vectors[key]


class _Packed:
    """Stands for a part that the builder already holds."""

    def __init__(self, offset):
        self.offset = offset

    def Pack(self, builder):
        return self.offset


def _pack_buffer(builder, buffer):
    """Writes data at a multiple of 16 bytes, as the schema requires."""
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
