"""Finds the binary weights of a model: constants that are ±s.

s is one number for a tensor or one for each output channel. A batch norm that
the converter folded into a kernel leaves it so, with another s a channel.
"""

import dataclasses
import math
from collections import Counter

import numpy as np

from tflite_export.flatbuffer.model import FlatModel, inputs_of, name_of

__all__ = [
    "WEIGHTED_OPERATORS",
    "WEIGHTS_INPUT",
    "BinaryConstant",
    "Kernel",
    "data_input",
    "find_binary_constants",
    "kernels_not_found",
]


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
        shape: The shape in which Keras has, or would have, the weights.
        signs: int8 array of ±1, of the tensor's shape.
        scales: float32 array, s ≥ 0 for each output channel.
        flipped: The channels whose signs are opposite to the kernel's, for a
            batch norm with negative γ was folded in.
        kernel: The trained kernel, or `None` for a model that is not ours.
        path: The kernel's path, or the tensor's name.
        twins: Equal kernels of other layers: the converter stores them once.
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
    def is_uniform(self) -> bool:
        """Whether there is one scale for the tensor."""
        return bool(np.all(self.scales == self.scales[0]))

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
            place = number, inputs[WEIGHTS_INPUT]
            if place not in found:
                found[place] = _find(model, place, operator, kernels)
    return _with_twins([c for c in found.values() if c is not None], kernels)


def kernels_not_found(
    constants: list[BinaryConstant], kernels: list[Kernel]
) -> list[str]:
    """The paths of kernels that are in none of the constants, or in part."""
    found = Counter()
    for constant in constants:
        for path in (constant.path, *(twin.path for twin in constant.twins)):
            found[path] += constant.signs.size
    return [k.path for k in kernels if found[k.path] < k.signs.size]


def _with_twins(constants, kernels):
    """Adds kernels without a constant to the one that is equal to them."""
    twins = {}
    for path in kernels_not_found(constants, kernels):
        (kernel,) = (kernel for kernel in kernels if kernel.path == path)
        for number, constant in enumerate(constants):
            if _is_equal(kernel, constant.kernel):
                twins.setdefault(number, []).append(kernel)
    return [
        dataclasses.replace(constant, twins=tuple(twins.get(number, ())))
        for number, constant in enumerate(constants)
    ]


def _is_equal(kernel, other):
    return (
        other is not None
        and np.array_equal(kernel.signs, other.signs)
        and np.array_equal(kernel.alpha, other.alpha)
    )


def _find(model, place, operator, kernels):
    """The constant at a place, `None` if it is not binary."""
    subgraph, tensor = place
    tensor = model.subgraphs[subgraph].tensors[tensor]
    if model.type_name(tensor) != "FLOAT32" or not model.is_constant(tensor):
        return None
    weights = model.constant(tensor)
    name = model.operator_name(operator)
    to_keras = WEIGHTED_OPERATORS[name].to_keras
    if weights.ndim != len(to_keras):
        return None
    axis = WEIGHTED_OPERATORS[name].axis % weights.ndim
    match = _trained(weights, name_of(tensor), name, axis, kernels)
    if match is None:
        match = _untrained(weights, axis)
    if match is None:
        return None
    kernel, signs, scales = match
    flipped = scales < 0
    signs = np.where(_aligned(flipped, signs.ndim, axis), -signs, signs)
    if kernel is None:
        shape = tuple(weights.shape[axis] for axis in to_keras)
        if name == "DEPTHWISE_CONV_2D":
            multiplier = max(operator.builtinOptions.depthMultiplier, 1)
            shape = (*shape[1:3], shape[3] // multiplier, multiplier)
    return BinaryConstant(
        *place,
        operator=name,
        axis=axis,
        to_keras=to_keras,
        shape=shape if kernel is None else kernel.signs.shape,
        signs=signs.astype(np.int8),
        scales=np.abs(scales),
        flipped=np.flatnonzero(flipped),
        kernel=kernel,
        path=name_of(tensor) if kernel is None else kernel.path,
    )


def _trained(weights, tensor_name, operator_name, axis, kernels):
    """The kernel that weights are, its signs as stored, and the scales."""
    matches = []
    for kernel in kernels:
        for part in _candidates(kernel, weights):
            signs = _as_stored(part.signs, weights.shape, operator_name)
            scales = None if signs is None else _scales(weights, signs, axis)
            if scales is not None:
                matches.append((part, signs, scales))
    # Small kernels may have the same signs: then the name decides.
    return max(
        matches, key=lambda match: _likeness(tensor_name, match), default=None
    )


def _untrained(weights, axis):
    """The same of weights of which nothing is known."""
    signs = np.where(weights < 0, np.int8(-1), np.int8(1))
    scales = _scales(weights, signs, axis)
    if scales is None or not _worth_it(weights, scales):
        return None
    return None, signs, scales


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


def _as_stored(signs, shape, operator_name):
    """A kernel's signs in the order of the file, `None` if it cannot be.

    The file may have other axes of length 1. It has one axis for the inputs
    and the multiplier of a depthwise kernel.
    """
    to_keras = WEIGHTED_OPERATORS[operator_name].to_keras
    permuted = [shape[axis] for axis in to_keras]
    expected = signs.shape
    if operator_name == "DEPTHWISE_CONV_2D":
        expected = (*expected[:-2], math.prod(expected[-2:]))
    if _longer_than_1(permuted) != _longer_than_1(expected):
        return None
    return signs.reshape(permuted).transpose(np.argsort(to_keras))


def _longer_than_1(shape):
    return [length for length in shape if length != 1]


def _scales(weights, signs, axis):
    """s of each channel with weights = s·signs, `None` if there is none."""
    first = tuple(slice(None) if i == axis else 0 for i in range(weights.ndim))
    scales = weights[first] * signs[first]
    if not np.all(np.isfinite(scales)):
        return None
    products = _aligned(scales, weights.ndim, axis) * signs
    return scales if np.array_equal(weights, products) else None


def _aligned(values, rank, axis):
    """One value a channel, to be combined with an array of all axes."""
    return values.reshape([-1 if i == axis else 1 for i in range(rank)])


def _worth_it(weights, scales):
    """A float a channel must not outweigh what the bits save."""
    if np.unique(scales).size == 1:
        return weights.size > 1
    return weights.size > 2 * scales.size


def _likeness(name, match):
    """How many of the kernel's layers are named, and whether α is a scale."""
    kernel, _, scales = match
    scopes = name.split("/")
    # `convert` has a layer's operations in a scope that ends in a dot.
    layers = sum(f"{part}." in scopes for part in kernel.path.split("/"))
    return layers, np.isin(np.abs(scales), kernel.alpha).all()


def data_input(name: str) -> int:
    """Which of an operator's inputs is the data."""
    return WEIGHTED_OPERATORS[name].data
