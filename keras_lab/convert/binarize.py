"""`binarize_model`: from a trained Keras network to its binary counterpart.

The model is rebuilt from its layers. A layer of keras_lab replaces the Keras
layer that it is named after, and the trained weights become its latent weights.
"""

import re
from collections.abc import Callable

import keras

from keras_lab.binary_weight import full_precision, weights_of
from keras_lab.convert.blocks import is_complete, make_block_config
from keras_lab.convert.choose_layers import Chooser, layers_of_graph
from keras_lab.convert.conversion_report import ConversionReport
from keras_lab.convert.counterparts import (
    clip_limit,
    convert_config,
    is_altered,
    options_of,
)
from keras_lab.convert.graph import is_functional, walk, with_inner_layers
from keras_lab.convert.rebuild import (
    Rebuilder,
    assign,
    check_can_rebuild,
    without_alphas,
)
from keras_lab.convert.trial_calls import outputs, same

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
    reasons. A layer that is binary already is kept as it was trained, and so is
    a custom layer with binary layers inside. So you can convert a model in
    stages.

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
    check_can_rebuild(model)
    if not is_functional(model):
        raise ValueError(
            f"Model '{model.name}' cannot be rebuilt from its layers: its "
            "class has its own `call`. Write it as a functional model, "
            "`keras.Model(inputs, outputs)`, or convert the models that it "
            f"uses. Received: a model of type {type(model).__name__}"
        )
    options = options_of(kernel_quantizer, input_quantizer)
    chooser = Chooser(model, options, filters, skip_first, skip_last)
    while True:
        report = chooser.choose()
        if not report.converted:
            raise ValueError(
                f"No layer of model '{model.name}' can be converted.\n{report}"
            )
        try:
            binary = _Binarizer(options, chooser.plans).rebuild(model)
        except _BlockError as error:
            # The block stays float and whole.
            chooser.keep(error.block, error.reason)
            continue
        return (binary, report) if return_report else binary


class _BlockError(Exception):
    """A custom layer cannot be rebuilt with binary layers inside."""

    def __init__(self, block, error):
        error = error.__cause__ or error
        # Keras puts the words of an error between others, in bold.
        text = re.split(r"\x1b\[1m|ncountered:", str(error))[-1]
        text = " ".join(text.partition("\x1b")[0].split())
        self.block = block
        self.reason = (
            "cannot be rebuilt with binary layers inside: "
            f"{type(error).__name__}: {text:.200}"
        )


class _Binarizer(Rebuilder):
    """Rebuilds a model with binary layers instead of the chosen ones."""

    def __init__(self, options, plans):
        super().__init__()
        self.options, self.plans = options, plans

    def rebuild(self, model):
        _check_not_shared(model)
        binary = super().rebuild(model)
        self._copy_trainable()
        return binary

    def new_config(self, layer):
        config = self.serialize(layer)
        plan = self._plan_of(layer)
        if plan:
            return make_block_config(config, plan)
        if plan is not None:
            convert_config(config, self.options, clip_limit(layer))
        return config

    def _plan_of(self, layer):
        return self.plans.get(id(layer))

    def call(self, layer, *args, **kwargs):
        try:
            return super().call(layer, *args, **kwargs)
        except Exception as error:
            for old, new in self.pairs:
                if new is layer and self._plan_of(old):
                    raise _BlockError(old, error) from error
            raise

    def make_sequential(self, layers, name):
        try:
            return super().make_sequential(layers, name)
        except Exception as error:
            # Keras does not say which layer it was.
            for old, new in self.pairs:
                is_inside = any(new is layer for layer in layers)
                if is_inside and self._plan_of(old):
                    raise _BlockError(old, error) from error
            raise

    def new_layer(self, layer):
        if not self._plan_of(layer):
            return super().new_layer(layer)
        try:
            return super().new_layer(layer)
        except Exception as error:
            # The user's class may raise anything.
            raise _BlockError(layer, error) from error

    def lenient_config(self, config, known):
        # A block without binary layers, because it can also be loaded.
        return make_block_config(config, {})

    def set_weights(self, layer, new):
        plan = self._plan_of(layer)
        if plan is None:
            self._copy_weights(layer, new)
            return
        values = [(weight.name, weight.numpy()) for weight in layer.weights]
        try:
            assign(new, without_alphas(new.weights), values)
        except ValueError as error:
            raise _BlockError(layer, error) if plan else error from error
        if plan and not is_complete(new, plan):
            raise _BlockError(layer, ValueError("it creates other layers"))
        for weight in weights_of(new.weights):
            weight.refresh()

    def check(self, layer, new, arguments):
        plan = self._plan_of(layer)
        if not plan:
            # Of a converted wrapper, such as an RNN of cells, only the custom
            # layers must be the same, and they were rebuilt with it.
            if plan is None:
                super().check(layer, new, arguments)
            return
        weights = weights_of(new.weights)
        if self.options["input_quantizer"] is None:
            with full_precision(weights):
                found = outputs(new, arguments)
            if not same(layer, outputs(layer, arguments), found):
                reason = "rebuilt from its config, it computes something else"
                raise _BlockError(layer, ValueError(reason))
        # A layer inside that is called only sees the signs of its weights.
        before = outputs(new, arguments)
        latents = [(weight.latent, weight.latent.numpy()) for weight in weights]
        for weight in weights:
            weight.latent.assign(weight.value())
        after = outputs(new, arguments)
        for latent, value in latents:
            latent.assign(value)
        if not same(layer, before, after):
            reason = "it reads the weights of a layer inside it directly"
            raise _BlockError(layer, ValueError(reason))

    def _copy_weights(self, layer, new):
        # The weights of a binary layer include α.
        values = [(weight.name, weight.numpy()) for weight in layer.weights]
        try:
            assign(new, new.weights, values)
        except ValueError as error:
            altered = [p for p in walk(layer).values() if is_altered(p)]
            if not altered:
                raise
            raise ValueError(
                f"Layer '{layer.name}' cannot be rebuilt, because a layer "
                f"inside it {is_altered(altered[0])}, which its config does "
                "not include. Binarize the model before that. "
                f"Received: '{altered[0].path}'"
            ) from error

    def _copy_trainable(self):
        # A model sets the flags of the layers inside it. It comes before them.
        for old, new in reversed(self.models):
            new.trainable = old.trainable
        for old, new in self.pairs:
            parts = with_inner_layers(old), with_inner_layers(new)
            for old_part, new_part in zip(*parts):
                new_part.trainable = old_part.trainable


def _check_not_shared(model):
    """Raises ValueError if two layers hold the same layer as an attribute.

    Rebuilt from their configs, they would no longer share its weights.
    """
    leaves = layers_of_graph(model)
    holders = {id(layer): path for path, layer in leaves.items()}
    for path, layer in leaves.items():
        for part in walk(layer).values():
            other = holders.setdefault(id(part), path)
            if other != path and part.weights:
                raise ValueError(
                    f"'{other}' and '{path}' share the layer '{part.name}', "
                    "for example a tied embedding, so they cannot be rebuilt. "
                    "Convert the part of the model without them. Received: a "
                    f"model with the layer '{part.path}' in two places"
                )
