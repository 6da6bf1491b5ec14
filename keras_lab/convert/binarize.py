"""`binarize_model`: from a trained Keras network to its binary counterpart.

The way back of `freeze`, by the same mechanism: models are rebuilt part by
part, with the layer of keras_lab in the place of the Keras layer of that name.
The trained weights become latent ones.
"""

import dataclasses
import fnmatch
from collections.abc import Callable

import keras
import numpy as np

import keras_lab.layers
from keras_lab.analysis.names import leaf_layers
from keras_lab.binary_weight import weights_of
from keras_lab.constraints import WeightClip
from keras_lab.convert.graph import first_and_last
from keras_lab.convert.rebuild import (
    Rebuilder,
    assign,
    check_model,
    is_keras_class,
    is_made_of_layers,
    without_alphas,
)
from keras_lab.layers.base import BinaryLayer
from keras_lab.layers.recurrent import BinaryRecurrent
from keras_lab.layers.recurrent_cells import BinaryCell
from keras_lab.quantizers import get_input_quantizer, get_kernel_quantizer

__all__ = ["ConversionReport", "binarize_model"]

# Keras layers that hold others: where in the config, and as which attribute.
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
    flags and options stay. What has no counterpart stays as it is: a custom
    layer, one with LoRA weights, one that takes integers. A layer that is
    binary already stays as it was trained: convert a model in stages if you
    like.

    A latent weight is clipped to [−1, 1] in training. Where a layer has larger
    weights, the bound is its largest absolute weight instead, so that no
    trained weight is cut; a layer with a constraint of its own keeps that one.

    Binary kernels change what batch norm sees: call
    `recalibrate_batch_norm(model, data)` before you judge or fine-tune the
    result.

    Args:
        model: A built Sequential or functional model. It is left as it is. Of
            a subclass with a `train_step` of its own, make one of the result:
            `Own(new.inputs, new.outputs)`.
        kernel_quantizer, input_quantizer: As in `keras_lab.BinaryDense`.
            `kernel_quantizer=None` changes the classes, not the outputs.
        filters: Which layers to convert: a pattern for their names such as
            `"block*_conv"`, a list of patterns, or a function of the layer.
            A layer in a model within the model has its name after the model's,
            `"encoder/conv"`; a pattern may be of either. Defaults to all.
        skip_first: Whether to keep the layers that an input reaches, on one
            path at least, before any other of these kinds.
        skip_last: Whether to keep those that reach an output so.
        return_report: Whether to return a `ConversionReport`, too.

    Returns:
        The new model, not compiled; with `return_report`, it and the report.

    Example:

    >>> model, report = keras_lab.binarize_model(trained, return_report=True)
    >>> print(report)
    """
    check_model(model, "binarize_model")
    if not is_made_of_layers(model):
        raise ValueError(
            f"Model '{model.name}' cannot be rebuilt of its layers: its class "
            "has a `call` of its own. Write it as a functional model, "
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
            f"Nothing of model '{model.name}' can be converted.\n"
            f"{chooser.report}"
        )
    binary = binarizer.rebuild(model)
    _copy_trainable(model, binary)
    return (binary, chooser.report) if return_report else binary


def _copy_trainable(model, new):
    # Models set the flags of what they hold, so they come first.
    parts = zip(model._flatten_layers(), new._flatten_layers(), strict=True)
    for old_part, new_part in parts:
        new_part.trainable = old_part.trainable


class _Chooser:
    """Decides which layers of a model are converted, and says why not."""

    def __init__(self, filters, skip_first, skip_last):
        self.wanted = _filter_function(filters)
        self.skip_first, self.skip_last = skip_first, skip_last
        self.report = ConversionReport()

    def choose(self, model):
        """The ids of the layers to convert."""
        first, last = first_and_last(model, _counts)
        rows, chosen = [], set()
        for path, layer in leaf_layers(model, is_made_of_layers).items():
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

    def set_weights(self, layer, new):
        values = [(weight.name, weight.numpy()) for weight in layer.weights]
        if id(layer) in self.chosen:
            assign(new, without_alphas(new.weights), values)
            for weight in weights_of(new.weights):
                weight.refresh()
        else:
            # Of a layer that is binary already, α among them.
            assign(new, new.weights, values)

    def _convert(self, node, clip):
        config, name = node["config"], node["class_name"]
        if (node["module"] or "").partition(".")[0] != "keras":
            return  # A custom class may have any name.
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
    return (cls._cell if issubclass(cls, BinaryRecurrent) else cls)._constraints


def _clip(layer):
    largest = 1.0
    for weight in layer.weights:
        if "kernel" not in weight.name:
            continue
        most = float(np.abs(weight.numpy()).max())
        if not np.isfinite(most):
            raise ValueError(
                f"The weight '{weight.path}' of the trained model has a NaN or "
                "an infinite number in it: there is nothing to convert."
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
            "`filters` must be None, a name pattern, a list of them, or a "
            f"function of a layer. Received: filters={filters!r}"
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
    if _takes_integers(layer):
        return "takes integers"
    return None


def _is_binary(layer):
    return isinstance(layer, (BinaryLayer, BinaryRecurrent, BinaryCell))


def _takes_integers(layer):
    return any(
        not keras.backend.is_float_dtype(tensor.dtype)
        for node in layer._inbound_nodes
        for tensor in node.input_tensors[:1]
    )


def _counts(layer):
    """Whether there is a layer in it that is binary, or of a kind to become so.

    One that must stay as it is counts, too: what comes after it is not first.
    """
    if not isinstance(layer, keras.Layer):
        return False  # An operation, such as a sum.
    return any(
        _is_binary(part) or type(part).__name__ in COUNTERPARTS
        for part in layer._flatten_layers()
    )
