"""Rewrites a float `.tflite` file in one of the formats."""

import math
import warnings

from tflite_export.binary_constants import (
    find_binary_constants,
    kernels_not_found,
)
from tflite_export.container import read_content
from tflite_export.errors import NothingBinaryError, damage_as_error
from tflite_export.flatbuffer.model import FlatModel
from tflite_export.formats import Format, OtherWeights, Storage
from tflite_export.graph.dequantize import keep_unfolded, unfold_float16
from tflite_export.graph.weights import Kernel
from tflite_export.metadata import write_metadata
from tflite_export.plan import plan
from tflite_export.runtimes import DEFAULT_RUNTIME, Runtime, set_versions
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
        packed = rewrite(model.to_bytes(), Format.PACKED)
    if len(packed) >= len(content):
        warnings.warn(
            f"The packed file is not smaller: {len(packed):,} bytes instead of "
            f"{len(content):,}. It has tables, which pay off only in a model "
            "with more binary weights.",
            stacklevel=2,
        )
    return packed


def rewrite(content: bytes, format: Format, **options) -> bytes:
    """Writes a float file in a format, with the options of `rewrite_once`.

    A file in the format `"packed"` is never larger than in `"packed_float"`.
    """
    found, winograd = rewrite_once(content, format, **options)
    if format != Format.PACKED:
        return found
    # Faster operators must not make the file larger than exact ones do. Those
    # of the smallest convolutions gain the least.
    exact, _ = rewrite_once(
        content, Format.PACKED_FLOAT, name=format, **options
    )
    while winograd and len(found) > len(exact):
        extra = (len(found) - len(exact)) / WINOGRAD_BYTES
        dropped = min(math.ceil(extra), len(winograd))
        fewest = 1 + sorted(winograd)[dropped - 1]
        found, winograd = rewrite_once(
            content, format, fewest_for_winograd=fewest, **options
        )
    return min(found, exact, key=len)


def rewrite_once(
    content: bytes,
    format: Format,
    kernels: list[Kernel] = (),
    other_weights: OtherWeights = OtherWeights.FLOAT32,
    runtime: Runtime = DEFAULT_RUNTIME,
    float_layers: frozenset[str] = frozenset(),
    in_float: frozenset[str] = frozenset(),
    fewest_for_winograd: int = 0,
    name: Format | None = None,
) -> tuple[bytes, list[int]]:
    """Writes a float file in a format, however large it gets.

    Args:
        content: The bytes of the float file.
        format: The format to write.
        kernels, float_layers: As in `find_binary_constants`.
        other_weights: How to store weights that are not binary.
        runtime: The oldest runtime that must run the file.
        in_float, fewest_for_winograd: As in `plan`.
        name: The format that the file says it has. Defaults to `format`.

    Returns:
        The bytes of the file, and the sizes of the convolutions that are
        Winograd's products in it.
    """
    model = FlatModel(content)
    _prepare(model, format)
    constants = find_binary_constants(model, kernels, float_layers)
    if not constants and not kernels and format != Format.FLOAT:
        raise NothingBinaryError(
            "The model has no binary weights. Received: a model in which no "
            "float32 or float16 constant is ±s, with one s per tensor or per "
            "output channel"
        )
    sites = []
    if format != Format.FLOAT:
        options = runtime, fewest_for_winograd, in_float
        sites = plan(model, constants, format, *options)
    not_packed = kernels_not_found(constants, kernels)
    for site in sites:
        for step in site.steps:
            step.apply(site)
        if site.storage == Storage.FLOAT32:
            not_packed.append(site.constant.path)
    binary = {part.place for part in (*sites, *constants)}
    store_other_weights(model, other_weights, format, runtime, binary)
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
