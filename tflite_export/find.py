"""Finds the binary weights of a model: constants that are ±s.

s is one number per tensor or one per output channel. A batch norm that the
converter folds into a kernel leaves it binary, with another s per channel.
"""

import dataclasses
import math
from collections import Counter

import numpy as np

from tflite_export.flatbuffer.model import FlatModel, name_of
from tflite_export.graph.names import layers_in, unique_names
from tflite_export.graph.weights import (
    WEIGHTED_OPERATORS,
    BinaryConstant,
    Kernel,
    weight_uses,
)

# So many signs per channel can be those of a float kernel by chance.
FEW_SIGNS = 16


def find_binary_constants(
    model: FlatModel,
    kernels: list[Kernel] = (),
    float_layers: frozenset[str] = frozenset(),
) -> list[BinaryConstant]:
    """The binary weights of a model, in the order in which they are used.

    If the trained kernels are known, only they are binary, and the signs are
    theirs, even in a channel that a batch norm with γ = 0 made zero. If there
    are none, every constant that is ±s is. `float_layers` are the paths of
    layers whose kernels are not binary, although their values may look so.
    """
    uses, matches = {}, {}
    for place, operator in weight_uses(model):
        if place not in uses:
            uses[place] = operator
            matches[place] = _matches(
                model, place, operator, kernels, float_layers
            )
    if float_layers:
        matches = _without_chance(matches)
    chosen = _choose(matches)
    constants = [
        _constant(model, place, operator, chosen[place])
        for place, operator in uses.items()
        if place in chosen
    ]
    return _with_twins(_with_unique_paths(constants), kernels)


def kernels_not_found(
    constants: list[BinaryConstant], kernels: list[Kernel]
) -> list[str]:
    """The paths of kernels that the constants do not hold, or only in part."""
    found = Counter()
    for constant in constants:
        for path in (constant.path, *(twin.path for twin in constant.twins)):
            found[path] += constant.signs.size
    return [k.path for k in kernels if found[k.path] < k.signs.size]


def _with_unique_paths(constants):
    """Tensors of another origin may have the same name, or none."""
    foreign = [c.path for c in constants if c.kernel is None]
    paths = iter(unique_names(foreign))
    return [
        dataclasses.replace(c, path=next(paths)) if c.kernel is None else c
        for c in constants
    ]


def _with_twins(constants, kernels):
    """Adds each kernel without a constant to one that is equal to it."""
    missing = set(kernels_not_found(constants, kernels))
    constants = list(constants)
    for kernel in (k for k in kernels if k.path in missing):
        for number, constant in enumerate(constants):
            other = constant.kernel
            if (
                other is not None
                and np.array_equal(kernel.signs, other.signs)
                and np.array_equal(kernel.alpha, other.alpha)
            ):
                twins = (*constant.twins, kernel)
                constants[number] = dataclasses.replace(constant, twins=twins)
                break
    return constants


@dataclasses.dataclass(frozen=True)
class _Match:
    """A kernel that a constant may be, its signs as stored, and the scales.

    `kernel` is `None` if nothing is known about the weights.
    """

    kernel: Kernel | None
    signs: np.ndarray
    scales: np.ndarray
    likeness: tuple = ()
    is_named: bool = False


def _matches(model, place, operator, kernels, float_layers):
    """The kernels that the constant at a place may be."""
    number, index = place
    subgraph = model.subgraphs[number]
    tensor = subgraph.tensors[index]
    if model.type_name(tensor) != "FLOAT32" or not model.is_constant(tensor):
        return []
    weights, name = model.constant(tensor), model.operator_name(operator)
    if weights is None or weights.ndim != len(
        WEIGHTED_OPERATORS[name].to_keras
    ):
        return []
    axis = WEIGHTED_OPERATORS[name].axis % weights.ndim
    # A constant into which a batch norm is folded has the name of that layer.
    # The output of the operator has the names of both.
    output = subgraph.tensors[int(operator.outputs[0])]
    layers = [layers_in(name_of(part)) for part in (tensor, output)]
    if not kernels:
        # The table of a GATHER may be anything.
        return [] if name == "GATHER" else _by_value(weights, axis)
    named = {*layers[0], *layers[1]}
    matches = []
    for kernel in kernels:
        is_named = any(map(kernel.is_of, named))
        if not is_named and not named.isdisjoint(float_layers):
            continue
        for part in _candidates(kernel, weights):
            signs = _as_stored(part.signs, weights.shape, name)
            scales = None if signs is None else _scales(weights, signs, axis)
            if scales is not None:
                likeness = _likeness(layers, part, scales)
                match = _Match(part, signs, scales, likeness, is_named)
                matches.append(match)
    return matches


def _without_chance(matches):
    """Drops what may match by chance: a few signs, in a layer without a name.

    The converter does not name the layer of an output before a batch norm, for
    instance. With one weight per channel, any kernel matches.
    """
    named = {m.kernel.path for ms in matches.values() for m in ms if m.is_named}
    return {
        place: [
            match
            for match in candidates
            if match.kernel is None
            or match.is_named
            or match.kernel.path not in named
            or match.signs.size >= FEW_SIGNS * match.scales.size
        ]
        for place, candidates in matches.items()
    }


def _choose(matches):
    """One match per place: small kernels may have the same signs.

    The names decide. Where they do not, as many kernels as possible get a
    place of their own.
    """
    best = {}
    for place, candidates in matches.items():
        most = max((match.likeness for match in candidates), default=None)
        best[place] = [m for m in candidates if m.likeness == most]
    owners, chosen = {}, {}

    def find_free(place, seen):
        """Gives the place a kernel, if others can make room for it."""
        for match in best[place]:
            kernel = match.kernel
            key = kernel and (kernel.path, kernel.first_channel)
            if key in seen:
                continue
            seen.add(key)
            if key not in owners or find_free(owners[key], seen):
                owners[key], chosen[place] = place, match
                return True
        return False

    for place, candidates in best.items():
        # A kernel may have several places: a shared layer, before several
        # batch norms.
        if candidates and not find_free(place, set()):
            chosen[place] = candidates[0]
    return chosen


def _constant(model, place, operator, match):
    number, index = place
    kernel, signs = match.kernel, match.signs
    name = model.operator_name(operator)
    to_keras = WEIGHTED_OPERATORS[name].to_keras
    axis = WEIGHTED_OPERATORS[name].axis % signs.ndim
    flipped = match.scales < 0
    signs = np.where(_aligned(flipped, signs.ndim, axis), -signs, signs)
    if kernel is not None:
        path, shape = kernel.path, kernel.signs.shape
    else:
        path = name_of(model.subgraphs[number].tensors[index])
        shape = tuple(signs.shape[axis] for axis in to_keras)
        if name == "DEPTHWISE_CONV_2D":
            multiplier = max(operator.builtinOptions.depthMultiplier, 1)
            shape = (*shape[1:3], shape[3] // multiplier, multiplier)
    return BinaryConstant(
        *place,
        operator=name,
        axis=axis,
        to_keras=to_keras,
        shape=shape,
        signs=signs.astype(np.int8),
        scales=np.abs(match.scales),
        flipped=np.flatnonzero(flipped),
        kernel=kernel,
        path=path,
    )


def _by_value(weights, axis):
    """The match of weights about which nothing is known, if they are ±s."""
    signs = np.where(weights < 0, np.int8(-1), np.int8(1))
    scales = _scales(weights, signs, axis)
    if scales is None:
        return []
    # The bits must save more than one float per channel costs.
    uniform = np.unique(scales).size == 1
    least = 1 if uniform else 2 * scales.size
    return [_Match(None, signs, scales)] if weights.size > least else []


def _candidates(kernel, weights):
    """The kernel, or those of its gates that a layer multiplies separately."""
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
    """The signs of a kernel in the order of the file, or `None`."""
    # The file may have other axes of length 1. A depthwise kernel has one axis
    # there for both the inputs and the multiplier.
    to_keras = WEIGHTED_OPERATORS[operator_name].to_keras
    permuted = [shape[axis] for axis in to_keras]
    expected = signs.shape
    if operator_name == "DEPTHWISE_CONV_2D":
        expected = (*expected[:-2], math.prod(expected[-2:]))
    longer = [[n for n in sizes if n != 1] for sizes in (permuted, expected)]
    if longer[0] != longer[1] and not _is_matrix_of(permuted, expected):
        return None
    return signs.reshape(permuted).transpose(np.argsort(to_keras))


def _is_matrix_of(shape, kernel_shape):
    """Whether a matrix may hold a kernel of `EinsumDense`, with more axes."""
    if len(shape) != 2 or math.prod(shape) != math.prod(kernel_shape):
        return False
    splits = range(1, len(kernel_shape))
    return any(math.prod(kernel_shape[:k]) == shape[0] for k in splits)


def _scales(weights, signs, axis):
    """s per channel such that weights = s · signs, or `None`."""
    first = tuple(slice(None) if i == axis else 0 for i in range(weights.ndim))
    scales = weights[first] * signs[first]
    if not np.all(np.isfinite(scales)):
        return None
    products = _aligned(scales, weights.ndim, axis) * signs
    return scales if np.array_equal(weights, products) else None


def _aligned(values, rank, axis):
    """One value per channel, in a shape that combines with all axes."""
    return values.reshape([-1 if i == axis else 1 for i in range(rank)])


def _likeness(names, kernel, scales):
    """How close a kernel's layer is to the named ones; whether α is a scale.

    The paths need not be equal: freezing may put a layer into a model of the
    same name, and the path of a kernel leaves out the cell.
    """
    owner = kernel.path.split("/")[:-1]
    likeness = []
    for layers in names:
        # How many parts of a path occur in another one, in the same order.
        rests = [iter(path.split("/")) for path in layers]
        common = [sum(part in rest for part in owner) for rest in rests]
        most = max(common, default=0)
        likeness += [most, -len(owner) if most else 0]
    return *likeness, bool(np.isin(np.abs(scales), kernel.alpha).all())
