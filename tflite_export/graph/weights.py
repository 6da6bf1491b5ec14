"""Weights in a TFLite graph: which operators have them, and in which order."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.flatbuffer.schema import shape_of


@dataclasses.dataclass(frozen=True)
class WeightedOperator:
    """The layout of an operator's weights."""

    axis: int  # Of output channels.
    to_keras: tuple  # The axes in the order of the Keras kernel.
    # Which inputs of the operator are the data and the weights.
    data: int = 0
    weights: int = 1


WEIGHTED_OPERATORS = {
    "FULLY_CONNECTED": WeightedOperator(0, (1, 0)),
    "CONV_2D": WeightedOperator(0, (1, 2, 3, 0)),
    "DEPTHWISE_CONV_2D": WeightedOperator(3, (0, 1, 2, 3)),
    "TRANSPOSE_CONV": WeightedOperator(0, (1, 2, 0, 3), data=2),
    "CONV_3D": WeightedOperator(4, (0, 1, 2, 3, 4)),
    "BATCH_MATMUL": WeightedOperator(-1, (0, 1)),
    # An embedding; one scale per row.
    "GATHER": WeightedOperator(0, (0, 1), data=1, weights=0),
}
# The types of integer weights.
INTEGERS = ("INT8", "INT4", "INT2")
# The operators that multiply float data by int8 weights.
INT8_OPERATORS = frozenset(
    ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
)
# With one scale for all channels their int8 kernels compute something else.
ALWAYS_PER_CHANNEL = ("DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A trained binary kernel as Keras has it, or a part of its channels."""

    path: str  # Unique in the model.
    signs: np.ndarray  # int8, ±1, in the shape of the kernel.
    alpha: np.ndarray  # float32, one α or several.
    first_channel: int = 0

    def is_of(self, layer: str) -> bool:
        """Whether it is the kernel of a layer, given the layer's path.

        The path may also have a layer of the same name around it, which
        freezing adds, or the cell of a recurrent layer.
        """
        owner, layer = self.path.split("/")[:-1], layer.split("/")
        rest = iter(layer)
        return owner[:1] == layer[:1] and all(part in rest for part in owner)


@dataclasses.dataclass(frozen=True)
class BinaryConstant:
    """A constant tensor of the file that equals scales · signs.

    Attributes:
        subgraph: The number of its subgraph.
        tensor: Its number in the subgraph.
        operator: The name of the operator whose weights it is.
        axis: The axis of output channels.
        to_keras: The axes of `signs` in the order of the Keras kernel.
        shape: The shape that the weights have, or would have, in Keras.
        signs: int8 array of ±1 in the shape of the tensor.
        scales: float32 array with one scale s ≥ 0 per output channel.
        flipped: The channels whose signs are opposite to those of the kernel,
            because a batch norm with a negative γ was folded into them.
        kernel: The trained kernel, or `None` for a model of another origin.
        path: The path of the kernel, or the name of the tensor.
        twins: Equal kernels of other layers, which the converter stores once.
    """

    subgraph: int
    tensor: int
    operator: str
    axis: int
    to_keras: tuple
    shape: tuple
    signs: np.ndarray
    scales: np.ndarray
    flipped: np.ndarray
    kernel: Kernel | None
    path: str
    twins: tuple = ()

    @property
    def place(self) -> tuple:
        """The numbers of its subgraph and of the tensor in it."""
        return self.subgraph, self.tensor

    @property
    def is_uniform(self) -> bool:
        """Whether all channels have the same scale."""
        return bool(np.all(self.scales == self.scales[0]))

    @property
    def fewest_scales(self) -> np.ndarray:
        """One scale if all channels have the same one, else one per channel.

        Runtimes before TensorFlow 2.19 return zeros from a CONV_2D with several
        scales that are all equal.
        """
        if self.is_uniform and self.operator not in ALWAYS_PER_CHANNEL:
            return self.scales[:1]
        return self.scales

    def with_channels_first(self) -> "BinaryConstant":
        """The same constant with the axis of channels moved to the front."""
        order = [self.axis, *np.delete(np.arange(self.signs.ndim), self.axis)]
        return dataclasses.replace(
            self,
            axis=0,
            signs=self.signs.transpose(order),
            to_keras=tuple(order.index(axis) for axis in self.to_keras),
        )


def weight_uses(model: FlatModel) -> Iterator[tuple]:
    """Yields each use of weights: (subgraph, tensor), and the operator.

    A tensor that several operators use occurs several times.
    """
    for number, subgraph in enumerate(model.subgraphs):
        for operator in subgraph.operators:
            name = model.operator_name(operator)
            if name not in WEIGHTED_OPERATORS:
                continue
            inputs = inputs_of(operator)
            place = WEIGHTED_OPERATORS[name].weights
            if name == "GATHER" and not _is_embedding(model, subgraph, inputs):
                continue
            if len(inputs) > place and inputs[place] >= 0:
                yield (number, inputs[place]), operator


def data_of(model: FlatModel, operator) -> int:
    """The data that an operator multiplies by weights."""
    weighted = WEIGHTED_OPERATORS[model.operator_name(operator)]
    return inputs_of(operator)[weighted.data]


def weights_of(model: FlatModel, subgraph, operator):
    """The tensor of an operator's weights, or what a DEQUANTIZE reads."""
    weighted = WEIGHTED_OPERATORS.get(model.operator_name(operator))
    position = 0 if weighted is None else weighted.weights
    return subgraph.tensors[inputs_of(operator)[position]]


def bias_of(operator) -> list[int]:
    """A list of the bias, which comes after the weights, or an empty one."""
    return [number for number in inputs_of(operator)[2:] if number >= 0]


def reads_as_weights(model: FlatModel, operator, tensor: int) -> bool:
    """Whether an operator reads a tensor as its weights, and nowhere else."""
    inputs = inputs_of(operator)
    weighted = WEIGHTED_OPERATORS.get(model.operator_name(operator))
    return (
        weighted is not None
        and inputs.count(tensor) == 1
        and inputs[weighted.weights] == tensor
    )


def has_several_scales(tensor) -> bool:
    """Whether the integers of a tensor have more than one scale."""
    parameters = tensor.quantization
    scales = None if parameters is None else parameters.scale
    return scales is not None and len(scales) > 1


def _is_embedding(model, subgraph, inputs):
    """Whether a GATHER looks up rows of weights.

    Those that unpack bits have int16 indices.
    """
    weights, indices = (subgraph.tensors[number] for number in inputs[:2])
    types = model.type_name(weights), model.type_name(indices)
    return (
        types[0] in ("FLOAT32", "INT8")
        and types[1] in ("INT32", "INT64")
        and len(shape_of(weights)) == 2
        and shape_of(weights)[0] > 1
    )
