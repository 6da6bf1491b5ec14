"""Decides which transformations each binary weight goes through."""

from tflite_export.flatbuffer.model import FlatModel
from tflite_export.formats import Note
from tflite_export.graph.loops import loop_of
from tflite_export.graph.packed_bits import Unpacker
from tflite_export.graph.weight_site import WeightSite
from tflite_export.graph.weights import BinaryConstant
from tflite_export.recipe import Recipe
from tflite_export.transformations import (
    ARITHMETIC,
    FLOAT_PRODUCTS,
    IN_INT8,
    SCALES,
    STORAGE,
    store_packed_bits,
)


def plan(
    model: FlatModel,
    constants: list[BinaryConstant],
    recipe: Recipe,
) -> list[WeightSite]:
    """A site for each constant, with its steps. The model is not changed."""
    unpacker = Unpacker(model)
    sites = [
        WeightSite(
            model,
            c,
            recipe.format,
            unpacker,
            recipe.runtime,
            winograd=c.signs.size >= recipe.fewest_for_winograd,
            in_float=c.path in recipe.in_float,
        )
        for c in constants
    ]
    for site in sites:
        site.note = _why_float(site)
        if not site.note:
            ways = (way for way in ARITHMETIC if way.can_apply(site))
            site.arithmetic = next(ways, None)
            site.int8 = site.arithmetic in IN_INT8
            site.steps = _steps(site)
            site.note = _why_not_int8(site)
    unpacker.one_table = any(
        store_packed_bits in site.steps and not site.int8 for site in sites
    )
    return sites


def _steps(site):
    """The transformations of a site whose arithmetic is known, in order."""
    steps = [step for step in SCALES if step.can_apply(site)]
    if site.arithmetic is not None:
        steps.append(site.arithmetic)
    return steps + [step for step in STORAGE if step.can_apply(site)]


def _why_float(site):
    """Why the weight must stay as it is, or empty."""
    model, constant = site.model, site.constant
    if constant.tensor in site.subgraph.outputs:
        return Note.IS_OUTPUT
    if len(site.users) != len(model.consumers(site.subgraph, constant.tensor)):
        return Note.HAS_OTHER_READERS
    is_elsewhere = constant.subgraph and not loop_of(model, constant.subgraph)
    if site.format.is_packed and is_elsewhere:
        return Note.IN_SUBGRAPH
    return Note.NONE


def _why_not_int8(site):
    """Why the arithmetic is not int8, if the format has int8, or empty."""
    if site.format.is_exact:
        return Note.NONE
    is_product = site.arithmetic in FLOAT_PRODUCTS
    if is_product and site.why_not_int8 != Note.KEPT_IN_FLOAT:
        return Note.AS_PRODUCTS
    return site.why_not_int8
