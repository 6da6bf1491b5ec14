"""Rewrites a float `.tflite` file in one of the formats."""

import dataclasses
import math
import warnings

from tflite_export.container import read_content
from tflite_export.errors import NothingBinaryError, damage_as_error
from tflite_export.find import (
    find_binary_constants,
    kernels_not_found,
)
from tflite_export.flatbuffer.model import FlatModel
from tflite_export.formats import Format, Storage
from tflite_export.graph.dequantize import keep_unfolded, unfold_float16
from tflite_export.metadata import write_metadata
from tflite_export.plan import plan
from tflite_export.recipe import Recipe
from tflite_export.runtimes import set_versions
from tflite_export.transformations import (
    PREPARATIONS,
    REPAIRS,
    conv_as_winograd,
)
from tflite_export.transformations.store_other_weights import (
    store_other_weights,
)

# About how many bytes more the operators of one such convolution take.
WINOGRAD_BYTES = 1000


def pack(path) -> bytes:
    """Packs the binary weights of any float `.tflite` model.

    Weights that are ±s, with one s per tensor or per output channel, take one
    bit in the result. All else stays as it is. The result computes what the
    given model computes, in int8 where the format `"packed"` does.

    A packed file has a few kilobytes of tables. If the result is not smaller
    than the given file, there is a warning.

    Args:
        path: The path of a `.tflite` or `.tflz` file with float32 or float16
            weights, or its content as bytes.

    Returns:
        The bytes of the packed `.tflite` file.

    Raises:
        NothingBinaryError: If no weight is ±s.
        InvalidModelError: If the file is damaged, or not one that `pack` knows.
    """
    content = read_content(path)
    model = FlatModel(content)
    with damage_as_error("TFLite model, or one that `pack` does not know"):
        unfolded = unfold_float16(model)
        kept = {constant.place for constant in find_binary_constants(model)}
        keep_unfolded(model, unfolded, kept)
        packed = rewrite(model.to_bytes(), Recipe(Format.PACKED))
    if len(packed) >= len(content):
        warnings.warn(
            f"The packed file is not smaller: {len(packed):,} bytes instead of "
            f"{len(content):,}. It has tables, which pay off only in a model "
            "with more binary weights.",
            stacklevel=2,
        )
    return packed


def rewrite(content: bytes, recipe: Recipe) -> bytes:
    """Writes a float file as the recipe says.

    A file in the format `"packed"` is never larger than in `"packed_float"`.
    """
    found, winograd = rewrite_once(content, recipe)
    if recipe.format != Format.PACKED:
        return found
    # Faster operators must not make the file larger than exact ones do. Those
    # of the smallest convolutions gain the least.
    in_float32 = dataclasses.replace(recipe, format=Format.PACKED_FLOAT)
    exact, _ = rewrite_once(content, in_float32, name=recipe.format)
    while winograd and len(found) > len(exact):
        extra = (len(found) - len(exact)) / WINOGRAD_BYTES
        dropped = min(math.ceil(extra), len(winograd))
        fewest = 1 + sorted(winograd)[dropped - 1]
        recipe = dataclasses.replace(recipe, fewest_for_winograd=fewest)
        found, winograd = rewrite_once(content, recipe)
    return min(found, exact, key=len)


def rewrite_once(
    content: bytes, recipe: Recipe, name: Format | None = None
) -> tuple[bytes, list[int]]:
    """Writes a float file as the recipe says, however large it gets.

    `name` is the format that the file says it has, by default that of the
    recipe.

    Returns:
        The bytes of the file, and the sizes of the convolutions that are
        Winograd's products in it.
    """
    model, format, kernels = FlatModel(content), recipe.format, recipe.kernels
    _prepare(model, format)
    constants = find_binary_constants(model, kernels, recipe.float_layers)
    if not constants and not kernels and format != Format.FLOAT:
        raise NothingBinaryError(
            "The model has no binary weights. Received: a model in which no "
            "float32 or float16 constant is ±s, with one s per tensor or per "
            "output channel"
        )
    sites = []
    if format != Format.FLOAT:
        sites = plan(model, constants, recipe)
    not_packed = kernels_not_found(constants, kernels)
    for site in sites:
        for step in site.steps:
            step.apply(site)
        if site.storage == Storage.FLOAT32:
            not_packed.append(site.constant.path)
    binary = {part.place for part in (*sites, *constants)}
    store_other_weights(model, recipe, binary)
    set_versions(model)
    if format != Format.FLOAT:
        size = len(content)
        write_metadata(model, name or format, size, sites, not_packed)
        model.drop_inner_names()
    winograd = [
        site.constant.signs.size
        for site in sites
        if conv_as_winograd in site.steps
    ]
    return model.to_bytes(), winograd


def _prepare(model, format):
    more = () if format == Format.FLOAT else PREPARATIONS
    for step in (*REPAIRS, *more):
        for subgraph, operator in list(model.all_operators()):
            if step.can_apply(model, subgraph, operator):
                step.apply(model, subgraph, operator)
