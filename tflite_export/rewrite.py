"""Rewrites a float `.tflite` file in one of the formats."""

import dataclasses

import numpy as np

from tflite_export.errors import NothingBinaryError, damage_as_error
from tflite_export.find import Kernel, find_binary_constants, kernels_not_found
from tflite_export.flatbuffer.model import FlatModel
from tflite_export.metadata import Stored, write_metadata
from tflite_export.plan import (
    Format,
    Products,
    Storage,
    plan,
    weighted_users,
)
from tflite_export.transformations.conv_as_matmul import conv_as_matmul
from tflite_export.transformations.conv_as_winograd import as_winograd
from tflite_export.transformations.dense_as_matmul import dense_as_matmul
from tflite_export.transformations.explicit_padding import pad_explicitly
from tflite_export.transformations.fill_loop_variables import (
    fill_loop_variables,
)
from tflite_export.transformations.hoist_projection import hoist_projections
from tflite_export.transformations.native import dequantize, store_natively
from tflite_export.transformations.scale_rows import (
    blocks_of,
    scale_outputs,
)
from tflite_export.transformations.sign_inputs import encode_sign_inputs
from tflite_export.transformations.unpack_once import Unpacker

__all__ = ["pack", "rewrite"]

# The lowest versions of operators that compute in int8 with float inputs.
INT8_VERSIONS = {
    "FULLY_CONNECTED": 12,
    "CONV_2D": 5,
    "DEPTHWISE_CONV_2D": 6,
    "TRANSPOSE_CONV": 2,
}


def pack(content: bytes) -> bytes:
    """Packs the binary weights of any float `.tflite` model.

    Weights that are ±s, with one s for a tensor or for each output channel,
    take one bit in the result; all else stays as it is. The result computes
    what the given model computes, in int8 where `"packed"` does.

    Args:
        content: The bytes of a `.tflite` file with float32 weights.

    Returns:
        The bytes of the packed one.
    """
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise TypeError(
            "`pack` needs the content of a .tflite file as bytes. "
            f"Received: {type(content).__name__}"
        )
    model = FlatModel(bytes(content))
    with damage_as_error("TFLite model, or one that `pack` does not know"):
        return rewrite(model, Format.PACKED)


def rewrite(
    model: FlatModel, format: Format, kernels: list[Kernel] = ()
) -> bytes:
    """Writes the binary weights of a float model in a format.

    Args:
        model: A model with float32 weights. It is changed.
        format: The format.
        kernels: What was trained, where it is known.
    """
    float_bytes = len(model.to_bytes())
    pad_explicitly(model)
    if format != Format.FLOAT:
        hoist_projections(model)
        fill_loop_variables(model)
    constants = find_binary_constants(model, kernels)
    if not constants and not kernels:
        raise NothingBinaryError(
            "The model has no binary weights: no constant is ±s, with one s "
            "for the tensor or for each output channel."
        )
    if format == Format.FLOAT:
        return model.to_bytes()
    placements = plan(model, constants, format)
    stored = _apply(model, placements)
    not_packed = kernels_not_found(constants, kernels) + [
        placement.constant.path
        for placement in placements
        if placement.storage == Storage.FLOAT32
    ]
    write_metadata(model, format, float_bytes, placements, stored, not_packed)
    model.drop_inner_names()
    return model.to_bytes()


def _apply(model, placements):
    """Changes the model; returns where the signs of each weight lie now."""
    unpacker = Unpacker(model)
    stored = []
    for placement in placements:
        constant = placement.constant
        subgraph = model.subgraphs[constant.subgraph]
        users = weighted_users(model, subgraph, constant.tensor)
        if placement.int8:
            for user in users:
                _compute_in_int8(model, user)
        if placement.encode_signs:
            for user in users:
                encode_sign_inputs(model, constant, user)
            constant = dataclasses.replace(constant, scales=2 * constant.scales)
        if placement.products == Products.WINOGRAD:
            *where, weights = unpacker.pack_for_winograd(constant)
            scales = None if constant.is_uniform else constant.scales
            for user in users:
                as_winograd(model, subgraph, user, weights, scales)
            stored.append(Stored(0, *where))
        elif placement.storage == Storage.BITS:
            if placement.scale_outputs:
                constant = _scale_outputs(model, unpacker, constant, users)
            if placement.products == Products.PATCHES:
                constant = _as_matrix(constant)
                for user in users:
                    conv_as_matmul(model, subgraph, user)
            if placement.products == Products.ROWS:
                for user in users:
                    dense_as_matmul(model, subgraph, user)
            type_name = "INT8" if placement.int8 else "FLOAT32"
            stored.append(Stored(0, *unpacker.pack(constant, type_name)))
        else:
            stored.append(Stored(constant.subgraph, constant.tensor, constant))
            if placement.storage == Storage.FLOAT32:
                continue
            store_natively(model, constant, placement.storage.upper())
            if not placement.int8:
                dequantize(model, constant)
    unpacker.finish()
    return stored


def _scale_outputs(model, unpacker, constant, users):
    """The constant without its scales, which the users' outputs get."""
    subgraph = model.subgraphs[constant.subgraph]
    blocks = blocks_of(constant.scales)
    if blocks is None:
        scales = model.small_constant(subgraph, constant.scales)
    else:
        scales = unpacker.repeat_rows(blocks, constant)
    for user in users:
        scale_outputs(model, subgraph, user, constant.scales, scales)
    ones = np.ones_like(constant.scales)
    return dataclasses.replace(constant, scales=ones)


def _as_matrix(constant):
    """[channels, taps · inputs], of the order of the kernel."""
    channels = constant.signs.shape[0]
    return dataclasses.replace(
        constant, signs=constant.signs.reshape(channels, -1), to_keras=(1, 0)
    )


def _compute_in_int8(model, operator):
    model.require_version(
        operator, INT8_VERSIONS[model.operator_name(operator)]
    )
    # Eight bits for inputs of one sign, not seven.
    if hasattr(operator.builtinOptions, "asymmetricQuantizeInputs"):
        operator.builtinOptions.asymmetricQuantizeInputs = True
