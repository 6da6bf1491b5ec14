"""Decides how each binary weight is stored and computed with."""

import dataclasses
import enum

from tflite_export.find import (
    WEIGHTED_OPERATORS,
    WEIGHTS_INPUT,
    BinaryConstant,
    data_input,
)
from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.transformations import conv_as_matmul, dense_as_matmul
from tflite_export.transformations.conv_as_winograd import can_be_winograd
from tflite_export.transformations.convolution import is_grouped
from tflite_export.transformations.pass_into_loop import loop_of
from tflite_export.transformations.scale_rows import can_scale_outputs
from tflite_export.transformations.sign_inputs import (
    can_encode,
    comes_from_sign,
    reaches_sign,
)

__all__ = ["Format", "Placement", "Products", "Storage", "plan"]


class Format(enum.StrEnum):
    """What a user asks for."""

    PACKED = "packed"
    PACKED_FLOAT = "packed_float"
    FAST = "fast"
    FLOAT = "float"

    @property
    def is_packed(self) -> bool:
        return self in (Format.PACKED, Format.PACKED_FLOAT)

    @property
    def is_exact(self) -> bool:
        """Whether all arithmetic is float32."""
        return self in (Format.PACKED_FLOAT, Format.FLOAT)


class Storage(enum.StrEnum):
    """How weights lie in the file."""

    BITS = "bits"
    INT4 = "int4"
    INT8 = "int8"
    FLOAT32 = "float32"


class Products(enum.Enum):
    """How a convolution or a dense layer is written as products of matrices."""

    PATCHES = enum.auto()
    WINOGRAD = enum.auto()
    ROWS = enum.auto()


@dataclasses.dataclass(frozen=True)
class Placement:
    """What is to happen to one binary weight.

    Attributes:
        constant: The weight.
        storage: How it lies in the file.
        int8: Whether its operators compute in int8, else in float32.
        encode_signs: Whether their inputs are signs, to be encoded as {0, 1}.
        products: How they are to be written as float products, if at all.
        scale_outputs: Whether to multiply their outputs by the scales, not
            the weights.
        note: Why the arithmetic is not the format's usual one; may be empty.
    """

    constant: BinaryConstant
    storage: Storage
    int8: bool
    encode_signs: bool = False
    products: Products | None = None
    scale_outputs: bool = False
    note: str = ""


# Operators whose int8 kernel takes weights that are computed.
UNPACKED_INT8 = ("FULLY_CONNECTED", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
# Operators whose int8 kernel takes constant weights.
CONSTANT_INT8 = (*UNPACKED_INT8, "CONV_2D")


def plan(
    model: FlatModel, constants: list[BinaryConstant], format: Format
) -> list[Placement]:
    """A placement for each constant."""
    return [_plan_one(model, constant, format) for constant in constants]


def _plan_one(model, constant, format):
    subgraph = model.subgraphs[constant.subgraph]
    users = weighted_users(model, subgraph, constant.tensor)
    note = _why_float(model, constant, users, format)
    if note:
        return Placement(constant, Storage.FLOAT32, int8=False, note=note)
    why_not = ""
    encode_signs = False
    if not format.is_exact:
        why_not = _why_not_int8(model, subgraph, constant, users, format)
        encode_signs = not why_not and all(
            _sign_input(model, subgraph, user) for user in users
        )
    int8 = not format.is_exact and not why_not
    products = None
    # Signs are exact as integers, and stay so.
    if format.is_packed and not encode_signs:
        products = _products(model, subgraph, constant, users, format, int8)
    if products:
        int8 = False
        if not format.is_exact:
            why_not = "as float products, which are faster when unpacked"
    return Placement(
        constant,
        _storage(constant, format, int8),
        int8=int8,
        encode_signs=encode_signs,
        products=products,
        scale_outputs=format.is_packed
        and (int8 or products == Products.ROWS)
        and not encode_signs
        and all(
            can_scale_outputs(model, subgraph, user, constant) for user in users
        ),
        note=why_not,
    )


def _products(model, subgraph, constant, users, format, int8):
    """How to write operators of unpacked weights as products, or `None`.

    `int8` is whether they would compute in int8 otherwise.
    """

    def all_can(be, *more):
        return all(be(model, subgraph, user, *more) for user in users)

    if all_can(dense_as_matmul.can_be_matmul, int8):
        return Products.ROWS
    if not all_can(conv_as_matmul.can_be_matmul):
        return None
    if (
        format.is_exact
        or constant.subgraph != 0
        or not all_can(can_be_winograd)
        or _near_signs(model, subgraph, users)
    ):
        return Products.PATCHES
    return Products.WINOGRAD


def _near_signs(model, subgraph, users):
    """Whether inputs are signs, or signs are taken of outputs.

    A rounding error then may become a wrong sign.
    """
    return any(
        _sign_input(model, subgraph, user)
        or _reaches_sign(model, subgraph, user)
        for user in users
    )


def _reaches_sign(model, subgraph, user):
    output = int(user.outputs[0])
    return reaches_sign(model, subgraph, output, set(WEIGHTED_OPERATORS))


def _why_float(model, constant, users, format):
    """Why the weights must stay as they are, or nothing."""
    number, tensor = constant.subgraph, constant.tensor
    subgraph = model.subgraphs[number]
    if tensor in subgraph.outputs:
        return "its weights are an output"
    if len(users) != len(model.consumers(subgraph, tensor)):
        return "other operators read its weights"
    if format.is_packed and number != 0 and loop_of(model, number) is None:
        return "neither in the main subgraph nor in one loop of it"
    return ""


def weighted_users(model, subgraph, tensor):
    """The operators whose weights a tensor is."""
    return [
        operator
        for operator in model.consumers(subgraph, tensor)
        if model.operator_name(operator) in WEIGHTED_OPERATORS
        and inputs_of(operator)[WEIGHTS_INPUT] == tensor
    ]


def _sign_input(model, subgraph, user):
    data = inputs_of(user)[data_input(model.operator_name(user))]
    return comes_from_sign(model, subgraph, data)


def _why_not_int8(model, subgraph, constant, users, format):
    """Why the operators of a constant cannot compute in int8, or nothing."""
    names = {model.operator_name(user) for user in users}
    kernels = UNPACKED_INT8 if format.is_packed else CONSTANT_INT8
    if not names <= set(kernels):
        return "no int8 kernel for these weights"
    if any(is_grouped(model, subgraph, user) for user in users):
        return "no int8 kernel for groups"
    signs = [_sign_input(model, subgraph, user) for user in users]
    if any(signs):
        if not all(signs):
            return "only some of its inputs are signs"
        if not all(can_encode(model, subgraph, user) for user in users):
            return "sign inputs, exact only in float here"
        return ""
    if any(_reaches_sign(model, subgraph, user) for user in users):
        return "signs are taken of its outputs"
    return ""


def _storage(constant, format, int8):
    if format.is_packed:
        return Storage.BITS
    # XNNPACK's INT4 kernel wants an even number of inputs.
    even = constant.signs.shape[-1] % 2 == 0
    if int8 and constant.operator == "FULLY_CONNECTED" and even:
        return Storage.INT4
    return Storage.INT8
