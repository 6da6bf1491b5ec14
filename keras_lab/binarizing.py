"""`binarize_model`: from a trained Keras network to its binary counterpart.

The way back of `freeze`, by the same mechanism: models are rebuilt part by
part, each layer from its config, in which the layer of keras_lab takes the
place of the Keras layer of that name. The trained weights become latent ones.
"""

import dataclasses
import fnmatch
from collections.abc import Callable

import keras
import numpy as np

import keras_lab.layers
from keras_lab.binary_weight import binary_weights
from keras_lab.constraints import WeightClip
from keras_lab.conversion import Rebuilder, check_model, is_functional
from keras_lab.layers.base import BinaryLayer
from keras_lab.layers.recurrent import BinaryRNN
from keras_lab.quantizers import get_input_quantizer, get_kernel_quantizer

__all__ = ["ConversionReport", "binarize_model"]

# Keras layers that hold others, and under which names of their config.
WRAPPERS = {
    "Bidirectional": ("layer", "backward_layer"),
    "TimeDistributed": ("layer",),
    "RNN": ("cell",),
    "StackedRNNCells": ("cells",),
}
# The same, as attributes.
_PARTS = {**WRAPPERS, "Bidirectional": ("forward_layer", "backward_layer")}
_QUANTIZED = keras.dtype_policies.QuantizedDTypePolicy
COUNTERPARTS = {
    name.removeprefix("Binary"): getattr(keras_lab.layers, name)
    for name in keras_lab.layers.__all__
}


@dataclasses.dataclass(frozen=True)
class Row:
    """What became of a layer with weights.

    Args:
        layer: Its name, after those of the models around it.
        kind: Its class.
        weights: How many weights it has.
        skipped: Why it was left as it is; `None` if it was converted.
    """

    layer: str
    kind: str
    weights: int
    skipped: str | None = None


class ConversionReport(tuple):
    """A `Row` for each layer with weights. Prints as a table."""

    @property
    def converted(self):
        """The names of the layers that were converted."""
        return [row.layer for row in self if row.skipped is None]

    def __str__(self):
        cells = [("layer", "type", "weights", "")] + [
            (
                row.layer,
                row.kind,
                f"{row.weights:,}",
                "converted" if row.skipped is None else f"kept: {row.skipped}",
            )
            for row in self
        ]
        widths = [max(map(len, column)) for column in zip(*cells)]
        return "\n".join(
            f"{a:{widths[0]}}  {b:{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip()
            for a, b, c, d in cells
        )


def binarize_model(
    model: keras.Model,
    kernel_quantizer="lab",
    input_quantizer=None,
    filters: str | list[str] | Callable | None = None,
    skip_first: bool = True,
    skip_last: bool = True,
    return_report: bool = False,
):
    """A new model with binary layers; the weights of `model` are latent ones.

    Dense, convolution and recurrent layers become their binary counterparts,
    also in a `Bidirectional`, a `TimeDistributed`, an `RNN`, and in models
    within the model. Names, connections, sharing, dtype policies, trainable
    flags and options stay. What has no counterpart stays as it is, a custom
    layer among it.

    A latent weight is clipped to [−1, 1] in training. Where a layer has larger
    weights, the bound is its largest absolute weight instead, so that no
    trained weight is cut; a layer with a constraint of its own keeps that one.

    Binary kernels change what batch norm sees: call
    `recalibrate_batch_norm(model, data)` before you judge or fine-tune the
    result.

    Args:
        model: A built Sequential or functional model. It is left as it is.
        kernel_quantizer, input_quantizer: As in `keras_lab.BinaryDense`.
            `kernel_quantizer=None` changes the classes, not the outputs.
        filters: Which layers to convert: a pattern for their names such as
            `"block*_conv"`, a list of patterns, or a function of the layer.
            A layer in a model within the model has its name after the model's,
            `"encoder/conv"`; a pattern may be of either. Defaults to all.
        skip_first: Whether to keep the layers that an input reaches before any
            other layer that could be converted.
        skip_last: Whether to keep those after which there is no other.
        return_report: Whether to return a `ConversionReport`, too.

    Returns:
        The new model, not compiled; with `return_report`, it and the report.

    Example:

    >>> model, report = keras_lab.binarize_model(trained, return_report=True)
    >>> print(report)
    """
    check_model(model, "binarize_model")
    chooser = _Chooser(filters, skip_first, skip_last)
    binarizer = _Binarizer(
        get_kernel_quantizer(kernel_quantizer),
        get_input_quantizer(input_quantizer),
        chooser.choose(model),
    )
    if not chooser.report.converted:
        raise ValueError(
            f"Nothing of model '{model.name}' can be converted.\n"
            f"{chooser.report}"
        )
    binary = binarizer.copy(model)
    binarizer.assign_weights()
    for weight in binary_weights(binary.weights):
        weight.refresh()
    return (binary, chooser.report) if return_report else binary


class _Chooser:
    """Decides which layers of a model are converted, and says why not."""

    def __init__(self, filters, skip_first, skip_last):
        self.wanted = _filter_function(filters)
        self.skip_first, self.skip_last = skip_first, skip_last
        self.report = ConversionReport()

    def choose(self, model):
        """The ids of the layers to convert."""
        first, last = (
            {id(layer) for layer in _outermost(model, backwards)}
            for backwards in (False, True)
        )
        rows, chosen = [], set()
        for path, layer in _leaves(model):
            reason = self._reason(path, layer, first, last)
            if reason is None:
                chosen.add(id(layer))
            if layer.weights:
                count = sum(int(np.prod(w.shape)) for w in layer.weights)
                kind = type(layer).__name__
                rows.append(Row(path, kind, count, reason))
        self.report = ConversionReport(rows)
        return chosen

    def _reason(self, path, layer, first, last):
        if not _can_convert(layer):
            return _why_not(layer)
        if not self.wanted(path, layer):
            return "not among the filters"
        if self.skip_first and id(layer) in first:
            return "first layer"
        if self.skip_last and id(layer) in last:
            return "last layer"
        return None


class _Binarizer(Rebuilder):
    """Rebuilds a model with binary layers in the place of the chosen ones."""

    def __init__(self, kernel_quantizer, input_quantizer, chosen):
        super().__init__()
        self.chosen = chosen
        serialize = keras.saving.serialize_keras_object
        self.options = {
            "kernel_quantizer": serialize(kernel_quantizer),
            "input_quantizer": serialize(input_quantizer),
        }

    def new_config(self, layer):
        config = keras.saving.serialize_keras_object(layer)
        if id(layer) in self.chosen:
            self._convert(config, _clip(layer))
        return config

    def _convert(self, node, clip):
        config, name = node["config"], node["class_name"]
        for part in WRAPPERS.get(name, ()):
            inner = config[part]
            for item in inner if isinstance(inner, list) else [inner]:
                self._convert(item, clip)
        if name not in COUNTERPARTS:
            return
        cls = COUNTERPARTS[name]
        node.update(
            class_name=cls.__name__,
            module=cls.__module__,
            registered_name=keras.saving.get_registered_name(cls),
        )
        config.update(self.options)
        if self.options["kernel_quantizer"] is None:
            return
        for constraint in _constraints_of(cls):
            if config.get(constraint) is None:
                config[constraint] = clip


def _constraints_of(cls):
    return (cls._cell if issubclass(cls, BinaryRNN) else cls)._constraints


def _clip(layer):
    kernels = [w for w in layer.weights if "kernel" in w.name]
    largest = max(float(np.abs(w.numpy()).max()) for w in kernels)
    clip = WeightClip(max(1.0, largest))
    return keras.saving.serialize_keras_object(clip)


def _filter_function(filters):
    if filters is None:
        return lambda path, layer: True
    if callable(filters):
        return lambda path, layer: filters(layer)
    patterns = [filters] if isinstance(filters, str) else filters
    if not (
        isinstance(patterns, (list, tuple))
        and all(isinstance(pattern, str) for pattern in patterns)
    ):
        raise TypeError(
            "`filters` must be None, a name pattern, a list of them, or a "
            f"function of a layer. Received: filters={filters!r}"
        )
    return lambda path, layer: any(
        fnmatch.fnmatchcase(name, pattern)
        for name in (path, layer.name)
        for pattern in patterns
    )


def _can_convert(layer):
    """Whether it is a layer of Keras itself that has a counterpart."""
    name = type(layer).__name__
    if not type(layer).__module__.startswith("keras."):
        return False
    if name in COUNTERPARTS:
        return not isinstance(layer.dtype_policy, _QUANTIZED)
    parts = [getattr(layer, part, None) for part in _PARTS.get(name, ())]
    parts = keras.tree.flatten(parts)
    return any(_can_convert(part) for part in parts if part is not None)


def _why_not(layer):
    if isinstance(layer, (BinaryLayer, BinaryRNN)):
        return "is binary already"
    if not type(layer).__module__.startswith("keras."):
        return "a custom layer"
    if isinstance(layer.dtype_policy, _QUANTIZED):
        return "is quantized already"
    return "has no binary counterpart"


def _is_model(layer):
    return isinstance(layer, keras.Sequential) or is_functional(layer)


def _leaves(model, path="", seen=None):
    """(path, layer) of each layer, also of those in models within."""
    seen = set() if seen is None else seen
    for layer in model.layers:
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        if _is_model(layer):
            yield from _leaves(layer, f"{path}{layer.name}/", seen)
        else:
            yield path + layer.name, layer


def _outermost(model, backwards=False):
    """Layers that can be converted with no other such layer before them.

    With `backwards`, with no other after them.
    """
    sources = _graph(model)
    if backwards:
        sources = _reversed(sources)
    layers = {layer.name: layer for layer in model.layers}
    has_passed = {}
    for name, before in sources.items():
        passed = any(has_passed[source] for source in before)
        layer = layers.get(name)  # None for an operation, such as a sum.
        found = layer is not None and _holds_convertible(layer)
        if found and not passed:
            yield from (
                _outermost(layer, backwards) if _is_model(layer) else [layer]
            )
        has_passed[name] = passed or found


def _holds_convertible(layer):
    if _is_model(layer):
        return any(_can_convert(leaf) for _, leaf in _leaves(layer))
    return _can_convert(layer)


def _graph(model):
    """The names of the layers, in their order, with those before each."""
    if isinstance(model, keras.Sequential):
        names = [layer.name for layer in model.layers]
        return {name: set(names[:i][-1:]) for i, name in enumerate(names)}
    return {
        node["name"]: set(_histories(node["inbound_nodes"]))
        for node in model.get_config()["layers"]
    }


def _reversed(sources):
    targets = {name: set() for name in reversed(sources)}
    for name, before in sources.items():
        for source in before:
            targets[source].add(name)
    return targets


def _histories(node):
    """The names of the layers whose outputs a serialized call takes."""
    if isinstance(node, dict):
        if node.get("class_name") == "__keras_tensor__":
            yield node["config"]["keras_history"][0]
            return
        node = list(node.values())
    if isinstance(node, (list, tuple)):
        for part in node:
            yield from _histories(part)
