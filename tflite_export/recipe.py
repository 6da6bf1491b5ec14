"""What to make of a float file."""

import dataclasses

from tflite_export.formats import Format, OtherWeights
from tflite_export.graph.weights import Kernel
from tflite_export.runtimes import DEFAULT_RUNTIME, Runtime


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What to make of a float file.

    Attributes:
        format: The format to write.
        kernels: The trained kernels. If there are none, every constant that is
            ±s is a binary weight.
        float_layers: The paths of layers whose kernels are not binary, although
            their values may look so.
        other_weights: How to store weights that are not binary.
        runtime: The oldest runtime that must run the file.
        in_float: The paths of kernels that must not compute in int8.
        fewest_for_winograd: Convolutions with fewer weights do not become
            Winograd's products, which take more bytes.
    """

    format: Format
    kernels: list[Kernel] = ()
    float_layers: frozenset[str] = frozenset()
    other_weights: OtherWeights = OtherWeights.FLOAT32
    runtime: Runtime = DEFAULT_RUNTIME
    in_float: frozenset[str] = frozenset()
    fewest_for_winograd: int = 0
