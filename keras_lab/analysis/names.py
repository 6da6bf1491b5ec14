"""The layers and the binary weights of a model, each under one unique name.

Keras' own paths are not unique: two nested models may each have a `dense`. Here
a layer's name begins with the names of the models around it. A layer that is
used several times is there once.
"""

import dataclasses
import re
from collections.abc import Callable

import keras

from keras_lab.analysis.measurements import QUANTITIES
from keras_lab.binary_weight import BinaryWeight, weights_of

__all__ = ["Part", "leaf_layers", "named_parts", "parse_quantity"]

# The gates that Keras stacks in a kernel, in its order: of an LSTM input,
# forget, candidate and output; of a GRU update, reset and candidate.
GATES = {4: "ifco", 3: "zrh"}
# A recurrent layer and its cell are one thing to whoever looks at them.
CELL_NAMES = ("lstm_cell", "gru_cell", "simple_rnn_cell")


@dataclasses.dataclass(frozen=True)
class Part:
    """A binary weight, or one gate of a recurrent one.

    Attributes:
        weight: The `BinaryWeight`.
        layer: The unique name of its layer.
        gate: The number of the gate; `None` for a weight without gates.
    """

    weight: BinaryWeight
    layer: str
    gate: int | None = None

    @property
    def name(self) -> str:
        """Like `dense_1/kernel` or `lstm/recurrent_kernel_i`."""
        return f"{self.layer}/{self.weight.latent.name}{self._suffix}"

    def quantity(self, name: str) -> str:
        """Like `dense_1/alpha` or `lstm/recurrent_alpha_i`."""
        named = self.weight.alpha.name.replace("alpha", name)
        return f"{self.layer}/{named}{self._suffix}"

    @property
    def _suffix(self):
        if self.gate is None:
            return ""
        count = self.weight.shape[1]
        return "_" + GATES.get(count, [str(n) for n in range(count)])[self.gate]

    def select(self, array):
        """What belongs to this part, of an array of the latent's shape."""
        if self.gate is None:
            return array
        return array.reshape(self.weight.shape)[:, self.gate]

    def select_alpha(self, alpha):
        """The α of this part, to be broadcast against `select`."""
        weight = self.weight
        shape = [1] * len(weight.shape)
        for axis in weight.keep:
            shape[axis] = weight.shape[axis]
        alpha = alpha.reshape(shape)
        return alpha if self.gate is None else alpha[:, self.gate]


def parse_quantity(entry: str) -> tuple[str, str] | None:
    """`Part.quantity` backwards: the quantity and the `Part.name`.

    `None` for an entry of the logs that is something else.
    """
    quantities = "|".join(QUANTITIES)
    match = re.fullmatch(rf"(.+)/(\w+_)?({quantities})(_[a-z0-9]+)?", entry)
    if match is None:
        return None
    layer, before, quantity, gate = match.groups("")
    return quantity, f"{layer}/{before}kernel{gate}"


def _is_model(layer):
    return isinstance(layer, keras.Model)


def leaf_layers(
    model: keras.Model, has_layers: Callable = _is_model
) -> dict[str, keras.Layer]:
    """The layers of a model by name; nested models give theirs instead.

    Args:
        model: The model.
        has_layers: Which layers to take for models. Defaults to all models.
    """
    layers, seen = {}, set()

    def visit(model, prefix):
        for layer in model.layers:
            if id(layer) in seen:
                continue
            seen.add(id(layer))
            if has_layers(layer):
                visit(layer, f"{prefix}{layer.name}/")
            else:
                layers[_unused(prefix + layer.name, layers)] = layer

    visit(model, "")
    return layers


def named_parts(model: keras.Model) -> list[Part]:
    """A `Part` for each binary weight of a model, or for each of its gates."""
    named, seen = {}, set()

    def add(weight, layer):
        if id(weight) not in seen:
            seen.add(id(weight))
            key = _unused(f"{layer}/{weight.latent.name}", named)
            # A second weight of this name: its layer is numbered instead.
            extra = key[len(f"{layer}/{weight.latent.name}") :]
            named[key] = (weight, layer + extra)

    for name, layer in leaf_layers(model).items():
        for weight in weights_of(layer.weights):
            add(weight, "/".join([name, *_inner_scopes(weight, layer.name)]))
    for weight in weights_of(model.weights):
        add(weight, weight.latent.path.rpartition("/")[0] or model.name)
    return [
        Part(weight, layer, gate)
        for weight, layer in named.values()
        for gate in _gates(weight)
    ]


def _gates(weight):
    stacked = len(weight.shape) > len(weight.latent.shape)
    return range(weight.shape[1]) if stacked else [None]


def _inner_scopes(weight, layer_name):
    """The names of the layers between a layer and a weight inside it."""
    scopes = weight.latent.path.split("/")[:-1]
    if layer_name in scopes:
        last = len(scopes) - 1 - scopes[::-1].index(layer_name)
        scopes = scopes[last + 1 :]
    if scopes and scopes[-1] in CELL_NAMES:
        scopes = scopes[:-1]
    return scopes


def _unused(name, names):
    number, unused = 1, name
    while unused in names:
        unused, number = f"{name}_{number}", number + 1
    return unused
