"""Questions about a convolution: its size, groups, strides and padding."""

from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.flatbuffer.schema import schema, shape_of

__all__ = [
    "can_be_matmul",
    "has_fixed_size",
    "is_grouped",
    "missing",
    "padding",
    "places",
    "steps",
]


def has_fixed_size(subgraph, operator) -> bool:
    """Whether all sizes of the data but the batch size are known."""
    tensor = subgraph.tensors[inputs_of(operator)[0]]
    sizes = tensor.shapeSignature
    return min((shape_of(tensor) if sizes is None else sizes)[1:]) > 0


def is_grouped(model: FlatModel, subgraph, operator) -> bool:
    """Whether the channels of a CONV_2D are convolved in groups."""
    if model.operator_name(operator) != "CONV_2D":
        return False
    data, weights = (subgraph.tensors[i] for i in inputs_of(operator)[:2])
    return shape_of(data)[-1] != shape_of(weights)[-1]


def can_be_matmul(model: FlatModel, subgraph, operator) -> bool:
    """Whether it is a CONV_2D of a known size with one group."""
    return (
        model.operator_name(operator) == "CONV_2D"
        and has_fixed_size(subgraph, operator)
        and not is_grouped(model, subgraph, operator)
    )


def steps(operator, axis: int) -> tuple[int, int]:
    """Stride and dilation along rows (0) or columns (1)."""
    options = operator.builtinOptions
    return (
        (options.strideH, options.dilationHFactor),
        (options.strideW, options.dilationWFactor),
    )[axis]


def missing(operator, axis: int, size: int, taps: int, output: int) -> int:
    """How many more inputs the outputs need than there are.

    The number is negative if the convolution skips some of the inputs.

    Args:
        operator: The convolution.
        axis: 0 for rows, 1 for columns.
        size: The length of the data along this axis.
        taps: The length of the kernel.
        output: The length of the output.
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
    """The places in the padded data that a tap of the kernel multiplies."""
    stride, dilation = steps(operator, axis)
    first = tap * dilation
    return range(first, first + (output - 1) * stride + 1, stride)
