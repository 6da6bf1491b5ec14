"""Finds the binary weights of a model: constants that are ±s.

s is one number for a tensor or one for each output channel. A batch norm that
the converter folded into a kernel leaves it so, with another s a channel.
"""

import dataclasses

import numpy as np

from tflite_export.flatbuffer import FlatModel, inputs_of, name_of

__all__ = ["BinaryConstant", "Kernel", "find_binary_constants"]


@dataclasses.dataclass(frozen=True)
class WeightedOperator:
    """Where an operator has its weights.

    Attributes:
        axis: The axis of output channels.
        to_keras: The axes of the weights in the order of Keras' kernel.
        data: Which of the inputs is the data.
    """

    axis: int
    to_keras: tuple
    data: int = 0


WEIGHTS_INPUT = 1
WEIGHTED_OPERATORS = {
    "FULLY_CONNECTED": WeightedOperator(0, (1, 0)),
    "CONV_2D": WeightedOperator(0, (1, 2, 3, 0)),
    "DEPTHWISE_CONV_2D": WeightedOperator(3, (0, 1, 2, 3)),
    "TRANSPOSE_CONV": WeightedOperator(0, (1, 2, 0, 3), data=2),
    "CONV_3D": WeightedOperator(4, (0, 1, 2, 3, 4)),
    "BATCH_MATMUL": WeightedOperator(-1, (0, 1)),
}


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A trained binary kernel, as Keras has it.

    Attributes:
        path: The variable's path, the layer's name in it.
        signs: int8 array of ±1, of the kernel's shape.
        alpha: float32 array, one α or several.
        first_channel: For a part of a kernel, where it begins.
    """

    path: str
    signs: np.ndarray
    alpha: np.ndarray
    first_channel: int = 0


@dataclasses.dataclass(frozen=True)
class BinaryConstant:
    """A constant tensor of the file that is scales·signs.

    Attributes:
        subgraph: The number of its subgraph.
        tensor: Its number there.
        operator: The name of the operator whose weights it is.
        axis: The axis of output channels.
        to_keras: The axes of `signs` in the order of Keras' kernel.
        signs: int8 array of ±1, of the tensor's shape.
        scales: float32 array, s ≥ 0 for each output channel.
        flipped: The channels whose signs are opposite to the kernel's, for a
            batch norm with negative γ was folded in.
        kernel: The trained kernel, or `None` for a model that is not ours.
        path: The kernel's path, or the tensor's name.
    """

    subgraph: int
    tensor: int
    operator: str
    axis: int
    to_keras: tuple
    signs: np.ndarray
    scales: np.ndarray
    flipped: np.ndarray
    kernel: Kernel | None
    path: str

    @property
    def is_uniform(self) -> bool:
        """Whether there is one scale for the tensor."""
        return bool(np.all(self.scales == self.scales[0]))

    @property
    def keras_shape(self) -> tuple:
        """The shape in which Keras has, or would have, the weights."""
        if self.kernel is not None:
            return self.kernel.signs.shape
        return tuple(self.signs.shape[axis] for axis in self.to_keras)

    @property
    def first_channel(self) -> int:
        """Where a part of a kernel begins."""
        return 0 if self.kernel is None else self.kernel.first_channel

    def with_channels_first(self) -> "BinaryConstant":
        """The same with the axis of channels moved to the front."""
        order = [self.axis, *np.delete(np.arange(self.signs.ndim), self.axis)]
        return dataclasses.replace(
            self,
            axis=0,
            signs=self.signs.transpose(order),
            to_keras=tuple(order.index(axis) for axis in self.to_keras),
        )


def find_binary_constants(
    model: FlatModel, kernels: list[Kernel] = ()
) -> list[BinaryConstant]:
    """The binary weights of a model, in the order in which they are used.

    Args:
        model: The model.
        kernels: What was trained, where it is known. Then the signs are the
            trained ones also in a channel that a batch norm with γ = 0 made
            zero.
    """
    found = {}
    for number, subgraph in enumerate(model.subgraphs):
        for operator in subgraph.operators:
            name = model.operator_name(operator)
            inputs = inputs_of(operator)
            if name not in WEIGHTED_OPERATORS or len(inputs) < 2:
                continue
            key = number, inputs[WEIGHTS_INPUT]
            if key in found:
                continue
            tensor = subgraph.tensors[key[1]]
            constant = _find(model, tensor, name, kernels)
            if constant is not None:
                found[key] = dataclasses.replace(
                    constant, subgraph=key[0], tensor=key[1]
                )
    return list(found.values())


def _find(model, tensor, name, kernels):
    if model.type_name(tensor) != "FLOAT32" or not model.is_constant(tensor):
        return None
    weights = model.constant(tensor)
    operator = WEIGHTED_OPERATORS[name]
    if weights.ndim != len(operator.to_keras):
        return None
    axis = operator.axis % weights.ndim
    matches = []
    for kernel in kernels:
        for part in _candidates(kernel, weights):
            signs = _as_stored(part.signs, weights.shape, operator.to_keras)
            scales = None if signs is None else _scales(weights, signs, axis)
            if scales is not None:
                matches.append((part, signs, scales))
    if matches:
        # Small kernels may have the same signs: then the name decides.
        kernel, signs, scales = max(
            matches, key=lambda match: _likeness(name_of(tensor), match)
        )
        flipped = scales < 0
        shape = _broadcast_shape(weights.ndim, axis)
        signs = np.where(flipped.reshape(shape), -signs, signs)
        path = kernel.path
    else:
        kernel, path = None, name_of(tensor)
        signs = np.where(weights < 0, np.int8(-1), np.int8(1))
        scales = _scales(weights, signs, axis)
        if scales is None or not _worth_it(weights, scales):
            return None
        flipped = np.zeros(scales.shape, bool)
    return BinaryConstant(
        subgraph=-1,
        tensor=-1,
        operator=name,
        axis=axis,
        to_keras=operator.to_keras,
        signs=signs.astype(np.int8),
        scales=np.abs(scales),
        flipped=np.flatnonzero(flipped),
        kernel=kernel,
        path=path,
    )


def _candidates(kernel, weights):
    """The kernel, or its gates that a recurrent layer multiplies apart."""
    if kernel.signs.size == weights.size:
        return [kernel]
    inputs, channels = kernel.signs.shape[0], kernel.signs.shape[-1]
    if kernel.signs.ndim != 2 or weights.shape[1:] != (inputs,):
        return []
    count = len(weights)
    first = np.where(weights[0] < 0, -1, 1)
    starts = np.flatnonzero(np.all(kernel.signs.T == first, axis=1))
    return [
        dataclasses.replace(
            kernel,
            signs=kernel.signs[:, start : start + count],
            first_channel=int(start),
        )
        for start in starts
        if start + count <= channels
    ]


def _as_stored(signs, shape, to_keras):
    """A kernel's signs in the order of the file, `None` if it cannot be."""
    permuted = [shape[axis] for axis in to_keras]
    significant = [n for n in permuted if n != 1]
    merged = [n for n in signs.shape if n != 1]
    if signs.size != np.prod(shape):
        return None
    if significant != merged and shape[:1] != (1,):
        return None
    return signs.reshape(permuted).transpose(np.argsort(to_keras))


def _scales(weights, signs, axis):
    """s of each channel with weights = s·signs, `None` if there is none."""
    first = tuple(slice(None) if i == axis else 0 for i in range(weights.ndim))
    scales = weights[first] * signs[first]
    if not np.all(np.isfinite(scales)):
        return None
    aligned = scales.reshape(_broadcast_shape(weights.ndim, axis))
    return scales if np.array_equal(weights, aligned * signs) else None


def _broadcast_shape(rank, axis):
    return [-1 if i == axis else 1 for i in range(rank)]


def _worth_it(weights, scales):
    """A float a channel must not outweigh what the bits save."""
    if np.unique(scales).size == 1:
        return weights.size > 1
    return weights.size > 2 * scales.size


def _likeness(name, match):
    kernel, _, scales = match
    layer = kernel.path.rsplit("/", 1)[0]
    unfolded = np.isin(np.abs(scales), kernel.alpha).all()
    return layer in name, unfolded, layer.rsplit("/", 1)[-1] in name


def data_input(name: str) -> int:
    """Which of an operator's inputs is the data."""
    return WEIGHTED_OPERATORS[name].data
