"""`binarize_model`: from a trained Keras network to its binary counterpart.

The model is rebuilt from its layers. A layer of keras_lab replaces the Keras
layer that it is named after, and the trained weights become its latent weights.
"""

from collections.abc import Callable

import keras

from keras_lab.convert.blocks import change_config
from keras_lab.convert.choose_layers import (
    ConversionReport,
    calls_by_path,
    choose_layers,
)
from keras_lab.convert.counterparts import options_of
from keras_lab.convert.rebuild import Rebuilder
from keras_lab.convert.states import assign, assign_latents
from keras_lab.layer_tree import walk, with_inner_layers
from keras_lab.model_checks import check_built, check_is_model, is_functional

__all__ = ["ConversionReport", "binarize_model"]


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

    Dense, convolutional, recurrent, attention and embedding layers become
    their binary counterparts, also in a `Bidirectional`, a `TimeDistributed`,
    an `RNN`, in models inside the model, and in custom layers that keep them as
    attributes, such as the transformer blocks of KerasHub. Their weights become
    latent weights. Names, connections, sharing, dtype policies, trainable flags
    and options stay the same. A layer without a counterpart is kept as it is,
    and so is one with LoRA weights or a tied embedding. A custom layer that
    cannot be rebuilt with other layers inside is kept whole. The report has the
    reasons. What is binary already stays as it was trained, so you can convert
    a model in stages.

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
            on at least one path from an input. An embedding is such a layer,
            and a block with layers inside counts as one. Defaults to `True`.
        skip_last: Whether to keep each layer that is the last of these kinds
            on at least one path to an output. Defaults to `True`.
        return_report: Whether to return a `ConversionReport`, too. Defaults to
            `False`.

    Returns:
        The new model, not compiled. With `return_report`, a tuple of it and the
        report.

    Raises:
        ValueError: If the model has its own `call`, if no layer of it can be
            converted, or if two custom layers share a layer.

    Example:

    >>> model, report = keras_lab.binarize_model(trained, return_report=True)
    >>> print(report)
    """
    check_is_model(model)
    check_built(model)
    if not is_functional(model):
        raise ValueError(
            f"Model '{model.name}' cannot be rebuilt from its layers: its "
            "class has its own `call`. Write it as a functional model, "
            "`keras.Model(inputs, outputs)`, or convert the models that it "
            f"uses. Received: a model of type {type(model).__name__}"
        )
    options = options_of(kernel_quantizer, input_quantizer)
    calls = calls_by_path(model)
    _check_not_shared(calls)
    changes, report = choose_layers(
        model, calls, options, filters, skip_first, skip_last
    )
    if not changes:
        hint = ""
        if any(row.skipped in ("first layer", "last layer") for row in report):
            hint = " Pass `skip_first=False` or `skip_last=False`."
        raise ValueError(
            f"No layer of model '{model.name}' can be converted.{hint}\n"
            f"{report}"
        )
    binary = _Binarizer(changes).rebuild(model)
    return (binary, report) if return_report else binary


class _Binarizer(Rebuilder):
    """Rebuilds a model with binary layers instead of the chosen ones.

    Args:
        changes: For the `id` of each chosen layer, what replaces it.
    """

    def __init__(self, changes):
        super().__init__()
        self.changes = changes

    def rebuild(self, model):
        binary = super().rebuild(model)
        self._copy_trainable()
        return binary

    def new_config(self, layer):
        config = self.serializer.serialize(layer)
        change = self.changes.get(id(layer))
        return change_config(config, change) if change else config

    def lenient_config(self, config, known):
        # A block without binary layers, because it can also be loaded.
        return change_config(config, {"plan": {}})

    def set_weights(self, layer, new):
        if id(layer) in self.changes:
            assign_latents(layer, new)
        else:
            # The weights of a layer that was binary before include α.
            values = [(weight.name, weight.numpy()) for weight in layer.weights]
            assign(new, new.weights, values)

    def check(self, layer, new, call):
        # A block has been tried. Of a converted wrapper, such as an RNN of
        # cells, only the custom layers must be the same, and they were rebuilt
        # with it.
        if id(layer) not in self.changes:
            super().check(layer, new, call)

    def _copy_trainable(self):
        # A model sets the flags of the layers inside it. It comes before them.
        for old, new in reversed(self.models):
            new.trainable = old.trainable
        for old, new in self.pairs:
            parts = with_inner_layers(old), with_inner_layers(new)
            for old_part, new_part in zip(*parts):
                new_part.trainable = old_part.trainable


def _check_not_shared(calls):
    """Raises ValueError if two layers hold the same layer as an attribute.

    Rebuilt from their configs, they would no longer share its weights.
    """
    holders = {id(call.layer): path for path, call in calls.items()}
    for path, call in calls.items():
        for part in walk(call.layer).values():
            other = holders.setdefault(id(part), path)
            if other != path and part.weights:
                raise ValueError(
                    f"'{other}' and '{path}' share the layer '{part.name}', "
                    "for example a tied embedding, so they cannot be rebuilt. "
                    "Convert the part of the model without them. Received: a "
                    f"model with the layer '{part.path}' in two places"
                )
