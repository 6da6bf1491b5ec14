"""Rewrites a float `.tflite` model in one of the formats."""

from tflite_export.container import read_content
from tflite_export.errors import NothingBinaryError, damage_as_error
from tflite_export.find import find_binary_constants, kernels_not_found
from tflite_export.flatbuffer.model import FlatModel
from tflite_export.formats import Format, OtherWeights, Storage
from tflite_export.graph.versions import set_versions
from tflite_export.graph.weights import Kernel
from tflite_export.metadata import write_metadata
from tflite_export.plan import plan
from tflite_export.runtimes import DEFAULT_RUNTIME, Runtime
from tflite_export.transformations.registry import PREPARATIONS, REPAIRS
from tflite_export.transformations.store_other_weights import (
    store_other_weights,
)


def pack(path) -> bytes:
    """Packs the binary weights of any float `.tflite` model.

    Weights that are ±s, with one s per tensor or per output channel, take one
    bit in the result. All else stays as it is. The result computes what the
    given model computes, in int8 where the format `"packed"` does.

    Args:
        path: The path of a `.tflite` or `.tflz` file with float32 weights, or
            its content as bytes.

    Returns:
        The bytes of the packed `.tflite` file.
    """
    content, _ = read_content(path)
    model = FlatModel(content)
    with damage_as_error("TFLite model, or one that `pack` does not know"):
        return rewrite(model, Format.PACKED)


def rewrite(
    model: FlatModel,
    format: Format,
    kernels: list[Kernel] = (),
    other_weights: OtherWeights = OtherWeights.FLOAT32,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> bytes:
    """Writes the weights of a float model in a format.

    The model is changed. Trained kernels that are known give the signs.
    """
    float_bytes = len(model.to_bytes())
    _prepare(model, format)
    constants = find_binary_constants(model, kernels)
    if not constants and not kernels:
        raise NothingBinaryError(
            "The model has no binary weights: no constant is ±s, with one s "
            "per tensor or per output channel."
        )
    if format == Format.FLOAT:
        binary = {(c.subgraph, c.tensor) for c in constants}
        store_other_weights(model, other_weights, format, runtime, binary)
        set_versions(model)
        return model.to_bytes()
    sites = plan(model, constants, format, runtime)
    not_packed = kernels_not_found(constants, kernels)
    for site in sites:
        for step in site.steps:
            step.apply(site)
        if site.storage == Storage.FLOAT32:
            not_packed.append(site.constant.path)
    binary = {site.place for site in sites}
    store_other_weights(model, other_weights, format, runtime, binary)
    set_versions(model)
    write_metadata(model, format, float_bytes, sites, not_packed)
    model.drop_inner_names()
    return model.to_bytes()


def _prepare(model, format):
    more = () if format == Format.FLOAT else PREPARATIONS
    for step in (*REPAIRS, *more):
        for subgraph in model.subgraphs:
            for operator in list(subgraph.operators):
                if step.can_apply(model, subgraph, operator):
                    step.apply(model, subgraph, operator)
