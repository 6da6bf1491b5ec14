"""The paper's networks as lists of layers, for Keras 3 and `tf_keras` alike.

The networks are those of `examples/paper`. A peer has neither keras_lab nor
Keras 3, so it is given a network as JSON and builds it from its own layers:

    [["Input", {"shape": [784]}], ["Dense", {"units": 2048, …}], …]
"""

import dataclasses
from collections.abc import Callable, Mapping
from types import ModuleType

__all__ = ["NETWORKS", "Kit", "build", "describe", "lstm"]

# The recipe of each, and what of its sizes is not the paper's.
NETWORKS = {
    "mnist": ("mnist", {}),
    "cifar10": ("cifar10", {}),
    "svhn": ("svhn", {}),
    "svhn32": ("svhn", {"width": 32}),
    "lstm": ("war_and_peace", {}),
}
OPTIONS = {
    "Dense": ("units", "use_bias"),
    "Conv2D": ("filters", "kernel_size", "padding", "use_bias"),
    "LSTM": ("units", "return_sequences"),
    "BatchNormalization": ("momentum", "epsilon"),
    "ReLU": (),
    "MaxPooling2D": (),
    "Flatten": (),
}
KERNELS = ("Dense", "Conv2D", "LSTM")
CHARACTERS = 87


def paper_network(name, scheme="full_precision", **sizes):
    """A network of `examples/paper`, compiled."""
    from examples.paper.recipes import RECIPES
    from examples.paper.schemes import SCHEMES

    recipe, changes = NETWORKS[name]
    classes = CHARACTERS if name == "lstm" else 10
    sizes = {**changes, **sizes}
    return RECIPES[recipe].build(SCHEMES[scheme], classes, **sizes)


def describe(name: str, **sizes: int) -> list:
    """A network of the paper as a list of layers.

    The LSTM's inputs are one-hot vectors: only keras_lab takes indices.

    Args:
        name: A key of `NETWORKS`.
        sizes: Sizes that are not the paper's, `width` or `cells`.
    """
    model = paper_network(name, **sizes)
    if name == "lstm":
        return lstm(model.get_layer("lstm").units)
    shape = list(model.input_shape[1:])
    layers = map(_describe_layer, model.layers)
    return [["Input", {"shape": shape}], *layers]


def lstm(cells: int, steps: int = 100) -> list:
    """The paper's character model as a list of layers."""
    return [
        ["Input", {"shape": [steps, CHARACTERS]}],
        ["LSTM", {"units": cells, "return_sequences": True}],
        ["Dense", {"units": CHARACTERS}],
    ]


def _describe_layer(layer):
    name = type(layer).__name__.removeprefix("Binary")
    config = layer.get_config()
    return [name, {option: config[option] for option in OPTIONS[name]}]


@dataclasses.dataclass(frozen=True)
class Kit:
    """What to build a network from.

    Attributes:
        keras: The module, Keras 3 or `tf_keras`.
        layers: The layers that have kernels, by their names in Keras; those of
            `keras` where there is none.
        kernel: Further arguments of those layers.
        inputs: The same for all but the first of them. Where there are any,
            activations are binary, and the network has no ReLU.
        norm: Further arguments of batch norm.
    """

    keras: ModuleType
    layers: Mapping[str, Callable] = dataclasses.field(default_factory=dict)
    kernel: Mapping[str, object] = dataclasses.field(default_factory=dict)
    inputs: Mapping[str, object] = dataclasses.field(default_factory=dict)
    norm: Mapping[str, object] = dataclasses.field(default_factory=dict)

    def make(self, name, options, first=False):
        """A layer by its name in Keras."""
        if name == "Input":
            return self.keras.Input(options["shape"])
        layer = self.layers.get(name) or getattr(self.keras.layers, name)
        if name in KERNELS:
            more = {**self.kernel, **({} if first else self.inputs)}
        else:
            more = self.norm if name == "BatchNormalization" else {}
        return layer(**options, **more)


def build(description: list, kit: Kit):
    """A model of the layers that were described."""
    model, first = kit.keras.Sequential(), True
    for name, options in description:
        if name == "ReLU" and kit.inputs:
            continue
        model.add(kit.make(name, options, first))
        first = first and name not in KERNELS
    return model
