"""A binary weight with its surroundings: what a transformation works on."""

import dataclasses
import functools
from collections.abc import Callable
from types import ModuleType

import numpy as np

from tflite_export.flatbuffer.model import FlatModel
from tflite_export.formats import Format, Note, Storage
from tflite_export.graph.packed_bits import Unpacker
from tflite_export.graph.replacement import is_grouped
from tflite_export.graph.signs import (
    can_encode,
    comes_from_sign,
    may_tie,
    reaches_sign,
)
from tflite_export.graph.weights import (
    INT8_OPERATORS,
    BinaryConstant,
    bias_of,
    data_of,
    weight_uses,
)
from tflite_export.runtimes import Runtime

# Those whose int8 kernel takes weights that other operators compute.
UNPACKED_INT8 = INT8_OPERATORS - {"CONV_2D"}


@dataclasses.dataclass(eq=False)
class WeightSite:
    """A binary weight, the operators that use it, and the format to write.

    The plan asks each transformation whether it applies to the site; its
    answer depends on the model as it was found. Running the steps changes the
    model, and `stored`, `place` and `storage` record what became of the weight.

    Attributes:
        model: The model.
        constant: The weight as it was found.
        format: The format to write.
        unpacker: Writes the operators that unpack weights. All sites of a
            model share it.
        runtime: The oldest runtime that must run the file.
        winograd: Whether a convolution may take more bytes to be faster.
        in_float: Whether the users must not compute in int8.
        users: The operators whose weight it is.
        arithmetic: The transformation that says how the users compute, or
            `None` if they stay as they are.
        int8: Whether the users compute in int8, else in float32.
        steps: The transformations to run, in order. None: it stays float32.
        note: Why the arithmetic is not the usual one of the format.
        stored: The weight in the form that the file gets: its axes may be in
            another order, its scales others.
        place: The subgraph and the number of the tensor with the signs.
        storage: How the signs are stored.
    """

    model: FlatModel
    constant: BinaryConstant
    format: Format
    unpacker: Unpacker
    runtime: Runtime
    winograd: bool
    in_float: bool
    arithmetic: ModuleType | None = None
    int8: bool = False
    steps: tuple = ()
    note: Note = Note.NONE
    storage: Storage = Storage.FLOAT32

    def __post_init__(self):
        self.stored = self.constant
        self.place = self.constant.place
        uses = weight_uses(self.model)
        self.users = [user for place, user in uses if place == self.place]

    @property
    def subgraph(self):
        return self.model.subgraphs[self.constant.subgraph]

    def every_user(self, question: Callable, *arguments) -> bool:
        """Whether `question(model, subgraph, user, ...)` is true for all."""
        return all(
            question(self.model, self.subgraph, user, *arguments)
            for user in self.users
        )

    @functools.cached_property
    def why_not_int8(self) -> str:
        """Why the users cannot compute in int8; empty if they can."""
        if self.format.is_exact:
            return "the format computes in float32"
        names = set(map(self.model.operator_name, self.users))
        kernels = UNPACKED_INT8 if self.format.is_packed else INT8_OPERATORS
        if not names <= kernels:
            return Note.NO_KERNEL
        if any(is_grouped(self.model, self.subgraph, u) for u in self.users):
            return Note.NO_KERNEL_FOR_GROUPS
        if self.in_float:
            return Note.KEPT_IN_FLOAT
        if not names <= self.runtime.int8_operators:
            return Note.NO_KERNEL_IN_RUNTIME
        if "FULLY_CONNECTED" in names and self._lacks_scales_in_runtime():
            return Note.NO_SCALES_IN_RUNTIME
        signs = self._sign_inputs
        if any(signs):
            if not all(signs):
                return Note.SOME_SIGNS
            if not self.every_user(can_encode):
                return Note.SIGNS_IN_FLOAT
            # Without an offset many sums are zero. Float arithmetic rounds
            # them as Keras does, int8 arithmetic does not.
            if any(may_tie(self.model, self.subgraph, u) for u in self.users):
                return Note.TAKES_SIGNS
            return Note.NONE
        return Note.TAKES_SIGNS if self._feeds_sign else Note.NONE

    @property
    def has_sign_inputs(self) -> bool:
        """Whether the inputs of all users are signs."""
        return all(self._sign_inputs)

    @property
    def is_near_signs(self) -> bool:
        """Whether inputs are signs, or signs are taken of outputs.

        Then a rounding error may become a wrong sign.
        """
        return any(self._sign_inputs) or self._feeds_sign

    @property
    def can_scale_rows(self) -> bool:
        """Whether the outputs can be multiplied by scales, not the weights.

        The bias of each layer must stay finite when it is divided by them.
        """
        return bool(np.all(self.constant.scales > 0)) and self.every_user(
            _can_divide_bias, self.constant.scales
        )

    def _lacks_scales_in_runtime(self):
        """Whether the runtime has one scale per dense layer, which is too few.

        It is enough if the outputs can be multiplied by the scales instead.
        """
        if self.runtime.has_channels_of_dense or self.constant.is_uniform:
            return False
        return any(self._sign_inputs) or not self.can_scale_rows

    @functools.cached_property
    def _sign_inputs(self):
        graph = self.model, self.subgraph
        return [
            comes_from_sign(*graph, data_of(self.model, user))
            for user in self.users
        ]

    @functools.cached_property
    def _feeds_sign(self):
        return any(
            reaches_sign(self.model, self.subgraph, int(user.outputs[0]))
            for user in self.users
        )


def _can_divide_bias(model, subgraph, operator, scales):
    if model.operator_name(operator) != "FULLY_CONNECTED":
        return False
    for bias in bias_of(operator):
        value = model.constant(subgraph.tensors[bias])
        with np.errstate(over="ignore"):
            if value is None or not np.all(np.isfinite(value / scales)):
                return False
    return True
