"""Decides which transformations each binary weight goes through."""

import dataclasses

from tflite_export.flatbuffer.model import FlatModel
from tflite_export.formats import Format
from tflite_export.graph.loops import loop_of
from tflite_export.graph.site import Site
from tflite_export.graph.unpacker import Unpacker
from tflite_export.graph.weights import BinaryConstant
from tflite_export.transformations.int8_arithmetic import FLOAT_PRODUCTS
from tflite_export.transformations.registry import (
    PREPARATIONS,
    REPAIRS,
    TRANSFORMATIONS,
    Preparation,
    Transformation,
)

__all__ = ["Placement", "plan", "preparations"]


@dataclasses.dataclass(frozen=True)
class Placement:
    """What is to happen to one binary weight.

    Attributes:
        site: The weight and the operators that use it.
        steps: The transformations to run, in order. None: it stays float32.
        note: Why the arithmetic is not the usual one of the format, or empty.
    """

    site: Site
    steps: tuple[Transformation, ...]
    note: str


def preparations(format: Format) -> tuple[Preparation, ...]:
    """What is done to a model before its binary weights are looked for."""
    return REPAIRS if format == Format.FLOAT else (*REPAIRS, *PREPARATIONS)


def plan(
    model: FlatModel, constants: list[BinaryConstant], format: Format
) -> list[Placement]:
    """A placement for each constant. The model is not changed."""
    unpacker = Unpacker(model)
    return [
        _place(Site(model, constant, format, unpacker))
        for constant in constants
    ]


def _place(site):
    note = _why_float(site)
    if note:
        return Placement(site, (), note)
    steps = tuple(step for step in TRANSFORMATIONS if step.can_apply(site))
    return Placement(site, steps, _note(site, steps))


def _why_float(site):
    """Why the weight must stay as it is, or empty."""
    if site.constant.tensor in site.subgraph.outputs:
        return "its weights are an output"
    readers = site.model.consumers(site.subgraph, site.constant.tensor)
    if len(site.users) != len(readers):
        return "other operators read its weights"
    number = site.constant.subgraph
    if (
        site.format.is_packed
        and number != 0
        and loop_of(site.model, number) is None
    ):
        return "neither in the main subgraph nor in one loop of it"
    return ""


def _note(site, steps):
    if site.format.is_exact:
        return ""
    if any(step in FLOAT_PRODUCTS for step in steps):
        return "as float products, which are faster when unpacked"
    return site.why_not_int8
