"""From a Keras model to a float `.tflite` file of built-in operators."""

import re

import keras

from tflite_export.errors import ConversionError
from tflite_export.flatbuffer import FlatModel

__all__ = ["as_functional", "convert", "input_names"]


def convert(model: keras.Model, batch_size: int | None = None) -> bytes:
    """The model as a TFLite flatbuffer with float weights.

    The signature is `serving_default`; its inputs and outputs have Keras'
    names.

    Args:
        model: A functional model.
        batch_size: A fixed batch size, or `None` for any.
    """
    import tensorflow as tf

    names = input_names(model)
    specs = [
        tf.TensorSpec((batch_size, *tensor.shape[1:]), tensor.dtype, name)
        for name, tensor in zip(names, model.inputs)
    ]

    @tf.function(autograph=False, input_signature=specs)
    def serve(*inputs):
        inputs = keras.tree.pack_sequence_as(model.input, inputs)
        return keras.tree.flatten(model(inputs, training=False))

    function = serve.get_concrete_function()
    # Without an object that owns them, the variables become constants.
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    try:
        content = converter.convert()
    except Exception as error:
        # The converter's own error class is not public.
        if type(error).__name__ != "ConverterError":
            raise
        raise _explained(error, model, function, batch_size) from error
    flat = FlatModel(content)
    flat.set_signature(names, model.output_names)
    return flat.to_bytes()


def _explained(error, model, function, batch_size):
    """The converter's error in terms of the model."""
    types = sorted(set(re.findall(r"error: 'tf\.(\w+)' op", str(error))))
    names = [
        operation.name
        for operation in function.graph.get_operations()
        if operation.type in types
    ]
    layers = sorted({_layer_of(name, model) for name in names})
    message = (
        f"Model '{model.name}' needs operators that the stock TFLite runtime "
        f"does not have: {', '.join(types) or 'see the error above'}"
    )
    if layers:
        message += f", in {', '.join(layers)}"
    if batch_size is None and any("TensorList" in name for name in types):
        message += ". A loop over time needs a fixed `batch_size`"
    return ConversionError(message + ".")


def _layer_of(operation, model):
    """The layer that an operation's name belongs to.

    TensorFlow appends numbers to the names of layers that are called again.
    """
    parts = [re.sub(r"_\d+$", "", part) for part in operation.split("/")]
    for layer in model.layers:
        if re.sub(r"_\d+$", "", layer.name) in parts:
            return f"layer '{layer.name}'"
    return f"'{operation}'"


def as_functional(model: keras.Model) -> keras.Model:
    """A Sequential or functional model as a functional one."""
    if isinstance(model, keras.Sequential):
        return keras.Model(model.inputs[0], model.outputs[0], name=model.name)
    if not getattr(model, "inputs", None):
        raise ConversionError(
            f"Model '{model.name}' does not name its inputs: only Sequential "
            "and functional models can be exported. Received: a model of type "
            f"{type(model).__name__}"
        )
    return model


def input_names(model: keras.Model) -> list[str]:
    """The name of each input, in the order of `model.inputs`."""
    layers = [
        layer
        for layer in model.layers
        if isinstance(layer, keras.layers.InputLayer)
    ]
    return [
        next(layer.name for layer in layers if layer.output is tensor)
        for tensor in model.inputs
    ]
