"""All transformations, in the order in which they run.

To add one, write a module with `can_apply` and `apply` and put it in its place
here: `plan` asks each in turn, and `rewrite` runs those that apply. The answers
of `can_apply` all refer to the model before any of them has run.
"""

from typing import Protocol

from tflite_export.flatbuffer.model import FlatModel
from tflite_export.graph.site import Site
from tflite_export.transformations import (
    conv_as_matmul,
    conv_as_winograd,
    dense_as_matmul,
    dequantize,
    explicit_padding,
    fill_loop_variables,
    hoist_projection,
    int8_arithmetic,
    low_bit_constant,
    scale_rows,
    sign_inputs,
    unpack_once,
)

__all__ = [
    "PREPARATIONS",
    "REPAIRS",
    "TRANSFORMATIONS",
    "Preparation",
    "Transformation",
]


class Preparation(Protocol):
    """A change of one operator, before binary weights are looked for."""

    def can_apply(self, model: FlatModel, subgraph, operator) -> bool: ...

    def apply(self, model: FlatModel, subgraph, operator) -> None: ...


class Transformation(Protocol):
    """A change of one binary weight and the operators that use it."""

    def can_apply(self, site: Site) -> bool: ...

    def apply(self, site: Site) -> None: ...


# What a runtime would compute wrongly, in any format.
REPAIRS: tuple[Preparation, ...] = (explicit_padding,)
# What makes a file with binary weights smaller or faster.
PREPARATIONS: tuple[Preparation, ...] = (hoist_projection, fill_loop_variables)

TRANSFORMATIONS: tuple[Transformation, ...] = (
    # The arithmetic.
    int8_arithmetic,
    sign_inputs,
    # Operators that are faster with unpacked weights. Rows are scaled first,
    # because a dense layer has a bias to scale, and a product has not.
    conv_as_winograd,
    scale_rows,
    conv_as_matmul,
    dense_as_matmul,
    # The storage.
    unpack_once,
    low_bit_constant,
    dequantize,
)
