"""Runtimes: the one that a file is made for, and the oldest that runs it.

A runtime refuses an operator of a version that it does not know. The versions
do not tell everything, so types that an old kernel does not know, or gets
wrong, are listed here too. LiteRT has version numbers of its own: each stands
for the release of TensorFlow that has the same kernels.
"""

import dataclasses
import re

import numpy as np

from tflite_export.errors import ConversionError
from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.graph.weights import (
    ALWAYS_PER_CHANNEL,
    INT8_OPERATORS,
    INTEGERS,
    has_several_scales,
    weights_of,
)

# Older ones lack the operator that unpacks weights, and were not tried.
OLDEST, NEWEST = (2, 13), (2, 21)
# int8 weights of dense layers with a scale per channel, and of TRANSPOSE_CONV.
CHANNELS_OF_DENSE = (2, 17)
# INT4 weights. TensorFlow 2.17 has them too, but in LiteRT 1.0.1 their outputs
# are wrong on a CPU with AVX-VNNI.
INT4 = (2, 18)
# CONV_2D with several scales that are all equal: before, it returns zeros.
EQUAL_SCALES = (2, 19)
# The first LiteRT release with the kernels of each TensorFlow release.
LITERT = {(1, 0): (2, 17), (1, 1): (2, 19), (2, 0): (2, 20), (2, 1): NEWEST}
NEWEST_LITERT = (2, 3)
# The first releases of these that are on PyPI.
PATCHES = {(1, 0): ".1", (1, 1): ".2"}
# The releases of TensorFlow that brought a version of an operator, if it is not
# the oldest one.
VERSIONS = {
    "CAST": {6: 15, 7: 17},
    "CONCATENATION": {4: 14},
    "CONV_2D": {8: 15},
    "DEQUANTIZE": {6: 18},
    "DYNAMIC_UPDATE_SLICE": {2: 17, 3: 19, 4: 20},
    "EMBEDDING_LOOKUP": {4: 18},
    "FULLY_CONNECTED": {11: 15, 12: 17, 13: 18, 14: 21},
    "GATHER": {7: 15},
    "GATHER_ND": {5: 16},
    "LOG": {2: 15},
    "RANGE": {2: 14},
    "RSQRT": {3: 15},
    "SLICE": {6: 14},
    "STRIDED_SLICE": {7: 14, 8: 14},
    "TRANSPOSE": {7: 15},
    "TRANSPOSE_CONV": {5: 15},
}
STABLEHLO = (2, 17)
# The lowest versions that know float data with int8 weights, which have one
# scale, or one per channel.
HYBRID = {
    "FULLY_CONNECTED": (9, 12),
    "CONV_2D": (2, 5),
    "DEPTHWISE_CONV_2D": (4, 6),
    "TRANSPOSE_CONV": (2, 2),
    "DEQUANTIZE": (2, 5),
}


@dataclasses.dataclass(frozen=True)
class Runtime:
    """The oldest runtime that a file must run on.

    Attributes:
        name: The name that the user gave, or `None`.
        version: The release of TensorFlow with the same kernels.
        batch_size: The batch size that it needs, or `None` for any.
    """

    name: str | None = None
    version: tuple = INT4
    batch_size: int | None = None

    @classmethod
    def of(cls, name: str | None) -> "Runtime":
        """The runtime of a name such as `"tensorflow-2.13"` or `"browser"`."""
        if name is None:
            return cls()
        if name == "browser":
            return cls(name, NEWEST, batch_size=1)
        pattern = r"(tensorflow|tflite-runtime|litert)-(\d+)\.(\d+)(\.\d+)*"
        match = re.fullmatch(pattern, name) if isinstance(name, str) else None
        if match is None:
            raise ValueError(
                "`runtime` must be None, 'browser', or a name with a version "
                "such as 'tensorflow-2.13', 'tflite-runtime-2.14' or "
                f"'litert-1.1'. Received: runtime={name!r}"
            )
        version = int(match[2]), int(match[3])
        newest = NEWEST_LITERT if match[1] == "litert" else NEWEST
        if version > newest:
            raise ValueError(
                "The newest runtimes that keras_lab knows are TensorFlow 2.21 "
                f"and LiteRT 2.3. Received: runtime={name!r}"
            )
        if match[1] == "litert":
            known = [v for litert, v in LITERT.items() if litert <= version]
            version = known[-1] if known else (0, 0)
        if version < OLDEST:
            raise ValueError(
                "The oldest runtimes that a file can be made for are "
                "TensorFlow 2.13 and LiteRT 1.0. "
                f"Received: runtime={name!r}"
            )
        return cls(name, version)

    @property
    def has_channels_of_dense(self) -> bool:
        """Whether dense layers and TRANSPOSE_CONV have all int8 kernels."""
        return self.version >= CHANNELS_OF_DENSE

    @property
    def int8_operators(self) -> frozenset[str]:
        """The operators that multiply float data by int8 weights."""
        if self.has_channels_of_dense:
            return INT8_OPERATORS
        return INT8_OPERATORS - {"TRANSPOSE_CONV"}

    @property
    def has_int4(self) -> bool:
        """Whether dense layers have int4 kernels that are right."""
        return self.version >= INT4


DEFAULT_RUNTIME = Runtime()


def set_versions(model: FlatModel) -> None:
    """Raises the versions of operators to what their integer weights need.

    They must be high enough that no runtime silently computes something else,
    and no higher, so that older runtimes take the file too.
    """
    for subgraph, operator in model.all_operators():
        name = model.operator_name(operator)
        if name not in HYBRID:
            continue
        weights = weights_of(model, subgraph, operator)
        if model.type_name(weights) in INTEGERS:
            several = has_several_scales(weights)
            model.require_version(operator, HYBRID[name][several])


def needs(model: FlatModel) -> dict:
    """What each operator of a model needs: a release of TensorFlow by name."""
    found = {}
    for subgraph, operator in model.all_operators():
        name = model.operator_name(operator)
        version = max(
            _by_version(name, model.operator_version(operator)),
            _by_types(model, subgraph, operator),
        )
        found[name] = max(version, found.get(name, OLDEST))
    return found


def check_runtime(model: FlatModel, runtime: Runtime) -> None:
    """Raises ConversionError if a model does not run on the user's runtime."""
    if runtime.name is None:
        return
    if runtime.batch_size is not None and has_open_size(model):
        raise ConversionError(
            "LiteRT.js does not run a model with an input of open size. Give "
            "each `keras.Input` of the model all sizes of its shape. "
            f"Received: runtime={runtime.name!r}"
        )
    missing = [
        f"{name} ({describe_version(version)})"
        for name, version in needs(model).items()
        if version > runtime.version
    ]
    if missing:
        raise ConversionError(
            "The model needs operators that this runtime does not have. In "
            f"brackets is the first that has them: {', '.join(missing)}. "
            f"Received: runtime={runtime.name!r}"
        )


def has_open_size(model: FlatModel) -> bool:
    """Whether an input has a size that is open: of the batch, or another."""
    return any(-1 in shape for shape in model.input_shapes())


def describe_version(version: tuple) -> str:
    """A release of TensorFlow, with the LiteRT that has the same kernels."""
    litert = next(ours for ours, same in LITERT.items() if same >= version)
    name = f"{litert[0]}.{litert[1]}{PATCHES.get(litert, '')}"
    return f"TensorFlow {version[0]}.{version[1]} or LiteRT {name}"


def _by_version(name, version):
    if name.startswith("STABLEHLO_"):
        return STABLEHLO
    known = VERSIONS.get(name, {})
    if known and version > max(known):
        return NEWEST
    releases = [n for first, n in known.items() if first <= version]
    return (2, max(releases)) if releases else OLDEST


def _by_types(model, subgraph, operator):
    """What the types of an operator's weights need."""
    name = model.operator_name(operator)
    types = {
        model.type_name(subgraph.tensors[i])
        for i in inputs_of(operator)
        if i >= 0
    }
    if "INT2" in types:
        return NEWEST
    if "FLOAT32" not in types or not types.intersection(INTEGERS):
        return OLDEST
    if "INT4" in types:
        return INT4
    if name == "TRANSPOSE_CONV":
        return CHANNELS_OF_DENSE
    if name not in HYBRID:
        return OLDEST
    weights = weights_of(model, subgraph, operator)
    if name == "FULLY_CONNECTED" and has_several_scales(weights):
        return CHANNELS_OF_DENSE
    if name not in ALWAYS_PER_CHANNEL and has_several_scales(weights):
        scales = weights.quantization.scale
        return EQUAL_SCALES if np.all(scales == scales[0]) else OLDEST
    return OLDEST
