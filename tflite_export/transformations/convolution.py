"""What several transformations ask about a convolution."""

from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.flatbuffer.schema import schema, shape_of

__all__ = [
    "has_fixed_size",
    "is_grouped",
    "missing",
    "padding",
    "places",
    "steps",
]


def has_fixed_size(subgraph, operator) -> bool:
    """Whether height, width and channels of the data are known."""
    tensor = subgraph.tensors[inputs_of(operator)[0]]
    sizes = tensor.shapeSignature
    return min((shape_of(tensor) if sizes is None else sizes)[1:]) > 0


def is_grouped(model: FlatModel, subgraph, operator) -> bool:
    """Whether the channels of a CONV_2D are convolved in groups."""
    if model.operator_name(operator) != "CONV_2D":
        return False
    data, weights = (subgraph.tensors[i] for i in inputs_of(operator)[:2])
    return shape_of(data)[-1] != shape_of(weights)[-1]


def steps(operator, axis: int) -> tuple[int, int]:
    """Stride and dilation along rows (0) or columns (1)."""
    options = operator.builtinOptions
    return (
        (options.strideH, options.dilationHFactor),
        (options.strideW, options.dilationWFactor),
    )[axis]


def missing(operator, axis: int, size: int, taps: int, output: int) -> int:
    """How many more inputs the outputs need; less than none are skipped.

    Args:
        operator: The convolution.
        axis: Rows (0) or columns (1).
        size: How many the data has of them.
        taps: How many the kernel has.
        output: How many the output has.
    """
    stride, dilation = steps(operator, axis)
    return (output - 1) * stride + (taps - 1) * dilation + 1 - size


def padding(
    operator, axis: int, size: int, taps: int, output: int
) -> tuple[int, int]:
    """How many zeros come before and after the data along an axis.

    The arguments are those of `missing`.
    """
    total = missing(operator, axis, size, taps, output)
    if operator.builtinOptions.padding != schema.Padding.SAME or total <= 0:
        return 0, 0
    return total // 2, total - total // 2


def places(operator, axis: int, tap: int, output: int) -> range:
    """Which of the padded data a tap of the kernel is multiplied with."""
    stride, dilation = steps(operator, axis)
    first = tap * dilation
    return range(first, first + (output - 1) * stride + 1, stride)
