"""`binarize_model`: from a trained Keras network to its binary counterpart.

The model is rebuilt from its layers. A layer of keras_lab replaces the Keras
layer that it is named after, and the trained weights become its latent weights.
"""

import dataclasses
import fnmatch
from collections.abc import Callable

import keras
import numpy as np

import keras_lab.layers
from keras_lab.binary_weight import weights_of
from keras_lab.constraints import WeightClip
from keras_lab.convert.graph import (
    first_and_last,
    is_functional,
    is_keras_class,
    leaf_layers,
    with_inner_layers,
)
from keras_lab.convert.rebuild import (
    Rebuilder,
    assign,
    check_can_rebuild,
    without_alphas,
)
from keras_lab.layers.base import BinaryLayer
from keras_lab.layers.recurrent import BinaryRecurrent, BinaryRNN
from keras_lab.layers.recurrent_cells import BinaryCell
from keras_lab.quantizers import get_input_quantizer, get_kernel_quantizer

__all__ = ["ConversionReport", "binarize_model"]

# Keras layers with layers inside: their keys in the config, and the attributes.
WRAPPERS = {
    "Bidirectional": {
        "layer": "forward_layer",
        "backward_layer": "backward_layer",
    },
    "TimeDistributed": {"layer": "layer"},
    "RNN": {"cell": "cell"},
    "StackedRNNCells": {"cells": "cells"},
    "Sequential": {"layers": "layers"},
    "Functional": {"layers": "layers"},
}
_QUANTIZED = keras.dtype_policies.QuantizedDTypePolicy
# A plain RNN is converted if there is a cell to convert in it.
COUNTERPARTS = {
    name.removeprefix("Binary"): getattr(keras_lab.layers, name)
    for name in keras_lab.layers.__all__
    if name != "BinaryRNN"
}


@dataclasses.dataclass(frozen=True)
class Row:
    """What happened to a layer that has weights.

    Attributes:
        layer: Its path: its name after the names of the models around it.
        kind: Its class.
        weights: The number of its weights.
        skipped: Why it was kept as it is; `None` if it was converted.
    """

    layer: str
    kind: str
    weights: int
    skipped: str | None = None


class ConversionReport(tuple):
    """A `Row` for each layer that has weights. Prints as a table."""

    @property
    def converted(self):
        """The paths of the layers that were converted."""
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
    """Returns a new model with binary layers and the weights of `model`.

    Dense, convolutional and recurrent layers become their binary counterparts,
    also in a `Bidirectional`, a `TimeDistributed`, an `RNN`, and in models
    inside the model. Their weights become latent weights. Names, connections,
    sharing, dtype policies, trainable flags and options stay the same. A layer
    without a counterpart is kept as it is: a custom layer, or one with LoRA
    weights. A layer that is binary already is kept as it was trained, so you
    can convert a model in stages.

    A latent weight is clipped to [−1, 1] in training. If a layer has larger
    weights, the bound is its largest absolute weight instead, so that no
    trained weight is cut. A layer that has a constraint keeps it.

    Binary kernels change the inputs of batch norm: call
    `recalibrate_batch_norm(model, data)` before you evaluate or fine-tune the
    result.

    Args:
        model: A built Sequential or functional model. It is left unchanged.
            If it is an instance of a subclass with its own `train_step`, make
            one from the result: `Own(new.inputs, new.outputs)`.
        kernel_quantizer, input_quantizer: As in `keras_lab.BinaryDense`. With
            `kernel_quantizer=None` only the classes change, not the outputs.
        filters: Which layers to convert: a pattern for their names such as
            `"block*_conv"`, a list of patterns, or a function of the layer
            that returns a bool. A pattern may match the name of a layer or its
            path, such as `"encoder/conv"`. Defaults to `None`: all layers.
        skip_first: Whether to keep each layer that is the first of these kinds
            on at least one path from an input. Defaults to `True`.
        skip_last: Whether to keep each layer that is the last of these kinds
            on at least one path to an output. Defaults to `True`.
        return_report: Whether to return a `ConversionReport`, too. Defaults to
            `False`.

    Returns:
        The new model, not compiled. With `return_report`, a tuple of it and the
        report.

    Raises:
        ValueError: If the model has its own `call`, or if no layer of it can
            be converted.

    Example:

    >>> model, report = keras_lab.binarize_model(trained, return_report=True)
    >>> print(report)
    """
    check_can_rebuild(model)
    if not is_functional(model):
        raise ValueError(
            f"Model '{model.name}' cannot be rebuilt from its layers: its "
            "class has its own `call`. Write it as a functional model, "
            "`keras.Model(inputs, outputs)`, or convert the models that it "
            f"uses. Received: a model of type {type(model).__name__}"
        )
    chooser = _Chooser(filters, skip_first, skip_last)
    binarizer = _Binarizer(
        get_kernel_quantizer(kernel_quantizer),
        get_input_quantizer(input_quantizer),
        chooser.choose(model),
    )
    if not chooser.report.converted:
        raise ValueError(
            f"No layer of model '{model.name}' can be converted.\n"
            f"{chooser.report}"
        )
    binary = binarizer.rebuild(model)
    _copy_trainable(model, binary)
    return (binary, chooser.report) if return_report else binary


def _copy_trainable(model, new):
    parts = with_inner_layers(model), with_inner_layers(new)
    # A model sets the flags of the layers inside it. It comes before them.
    for old_part, new_part in zip(*parts, strict=True):
        new_part.trainable = old_part.trainable


class _Chooser:
    """Decides which layers of a model are converted, and why others are not."""

    def __init__(self, filters, skip_first, skip_last):
        self.wanted = _filter_function(filters)
        self.skip_first, self.skip_last = skip_first, skip_last
        self.report = ConversionReport()

    def choose(self, model):
        """The ids of the layers to convert."""
        first, last = first_and_last(model, _counts)
        rows, chosen = [], set()
        for path, layer in leaf_layers(model, is_functional).items():
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
    """Rebuilds a model with binary layers instead of the chosen ones."""

    def __init__(self, kernel_quantizer, input_quantizer, chosen):
        super().__init__()
        self.chosen = chosen
        serialize = keras.saving.serialize_keras_object
        self.options = {
            "kernel_quantizer": serialize(kernel_quantizer),
            "input_quantizer": serialize(input_quantizer),
        }

    def new_config(self, layer):
        config = self.serialize(layer)
        if id(layer) in self.chosen:
            self._convert(config, _clip(layer))
        return config

    def set_weights(self, layer, new):
        values = [(weight.name, weight.numpy()) for weight in layer.weights]
        if id(layer) in self.chosen:
            assign(new, without_alphas(new.weights), values)
            for weight in weights_of(new.weights):
                weight.refresh()
        else:
            # The weights of a binary layer include α.
            assign(new, new.weights, values)

    def _convert(self, node, clip):
        """Changes the config of a layer; returns whether it can be changed."""
        config, name = node["config"], node["class_name"]
        if (node["module"] or "").partition(".")[0] != "keras":
            return False  # A custom class may have any name.
        if name not in COUNTERPARTS:
            inner = [config[key] for key in WRAPPERS.get(name, ())]
            nodes = [x if isinstance(x, list) else [x] for x in inner]
            changed = any([self._convert(x, clip) for xs in nodes for x in xs])
            if changed and name == "RNN":
                _use_class(node, BinaryRNN)
            return changed
        cls = COUNTERPARTS[name]
        _use_class(node, cls)
        config.update(self.options)
        if self.options["kernel_quantizer"] is not None:
            for constraint in _constraints_of(cls):
                if config.get(constraint) is None:
                    config[constraint] = clip
        return True


def _use_class(node, cls):
    node.update(
        class_name=cls.__name__,
        module=cls.__module__,
        registered_name=keras.saving.get_registered_name(cls),
    )


def _constraints_of(cls):
    return (cls._cell if issubclass(cls, BinaryRecurrent) else cls)._constraints


def _clip(layer):
    largest = 1.0
    for weight in layer.weights:
        if "kernel" not in weight.name:
            continue
        most = float(np.abs(weight.numpy()).max())
        if not np.isfinite(most):
            raise ValueError(
                f"The weight '{weight.path}' has a NaN or infinite value, so "
                f"layer '{layer.name}' cannot be converted."
            )
        largest = max(largest, most)
    return keras.saving.serialize_keras_object(WeightClip(largest))


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
            "`filters` must be None, a pattern for names, a list of patterns, "
            f"or a function of a layer. Received: filters={filters!r}"
        )
    return lambda path, layer: any(
        fnmatch.fnmatchcase(name, pattern)
        for name in (path, layer.name)
        for pattern in patterns
    )


def _can_convert(layer):
    return _why_not(layer) is None


def _why_not(layer):
    """Why a layer cannot be converted; `None` if it can."""
    if _is_binary(layer):
        return "is binary already"
    if not is_keras_class(type(layer)):
        return "a custom layer"
    name = type(layer).__name__
    parts = [
        part
        for attribute in WRAPPERS.get(name, {}).values()
        for part in keras.tree.flatten(getattr(layer, attribute, None))
        if part is not None
    ]
    if name not in COUNTERPARTS and not any(map(_can_convert, parts)):
        reasons = [_why_not(part) for part in parts if part.weights]
        return reasons[0] if reasons else "has no binary counterpart"
    if isinstance(layer.dtype_policy, _QUANTIZED):
        return "is quantized already"
    if getattr(layer, "lora_enabled", False):
        return "has LoRA weights"
    return None


def _is_binary(layer):
    classes = (BinaryLayer, BinaryRecurrent, BinaryRNN, BinaryCell)
    return isinstance(layer, classes)


def _counts(layer):
    """Whether there is a layer in it that is binary or could become binary.

    A layer that must stay as it is counts, too: the one after it is not first.
    """
    if not isinstance(layer, keras.Layer):
        return False  # An operation, such as a sum.
    return any(
        _is_binary(part) or type(part).__name__ in COUNTERPARTS
        for part in with_inner_layers(layer)
    )
