"""Converts a Keras model to a float `.tflite` model of built-in operators."""

import contextlib
import functools
import re
import tempfile

import keras
import numpy as np

import keras_lab
from tflite_export.errors import ConversionError
from tflite_export.flatbuffer.model import FlatModel, inputs_of
from tflite_export.graph.names import layers_in, scope_of
from tflite_export.prepare import (
    channels_first_note,
    input_names,
    output_names,
)

# max(x, LOWEST) is x: an operator that does nothing.
LOWEST = np.finfo(np.float32).min


def convert(model: keras.Model, batch_size: int | None = None) -> bytes:
    """A functional model of plain Keras layers as a float `.tflite` file.

    The signature is `serving_default`. Its inputs and outputs have the names
    that they have in Keras. The batch size is fixed, or `None` for any.
    """
    import tensorflow as tf

    with _calls_marked(model):
        serve = _serving_function(model, batch_size)
        function = serve.get_concrete_function()
    # The module has no function: TensorFlow would trace it again to save it.
    module = tf.Module()
    module.weights = function.variables
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [function], module
    )
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    # The weights must become constants.
    converter.experimental_enable_resource_variables = False
    converter.exclude_conversion_metadata = True
    try:
        content = converter.convert()
    except Exception as error:
        # The class of the converter's errors is not public.
        if type(error).__name__ != "ConverterError":
            raise
        raise _explained(error, model, function, batch_size) from error
    flat = FlatModel(content)
    _remove_barriers(flat)
    _name_inputs_and_outputs(flat, model)
    return flat.to_bytes()


def _serving_function(model, batch_size):
    import tensorflow as tf

    specs = [
        tf.TensorSpec((batch_size, *tensor.shape[1:]), tensor.dtype, name)
        for name, tensor in zip(_numbered("input", model.inputs), model.inputs)
    ]

    @tf.function(autograph=False, input_signature=specs)
    def serve(*inputs):
        inputs = keras.tree.pack_sequence_as(model.input, inputs)
        outputs = keras.tree.flatten(model(inputs, training=False))
        return dict(zip(_numbered("output", outputs), outputs))

    return serve


def _numbered(name, parts):
    return [f"{name}_{number}" for number in range(len(parts))]


@contextlib.contextmanager
def _calls_marked(model):
    """Makes `_marked_call` call every layer of the exporter's own model."""
    layers = keras_lab.walk(model)
    for path, layer in layers.items():
        layer.call = functools.partial(
            _marked_call, layer, scope_of(path), layer.call
        )
    try:
        yield
    finally:
        for layer in layers.values():
            del layer.call


def _marked_call(layer, scope, call, *args, **kwargs):
    """Calls a layer in a name scope that is its own.

    Keras has a scope of the layer's name too, but the name alone is not unique,
    and TensorFlow appends numbers to it.

    The converter would fold a scale per input, such as a batch norm before a
    Dense layer, into the kernel, which would no longer be binary. It does not
    fold across an operator that it knows nothing about.
    """
    import tensorflow as tf

    with tf.name_scope(scope):
        # Nothing is folded into integers, whose lowest value differs.
        if (
            isinstance(layer, keras.layers.Dense)
            and args
            and args[0].dtype.is_floating
        ):
            args = (tf.maximum(args[0], LOWEST), *args[1:])
        return call(*args, **kwargs)


def _remove_barriers(flat):
    for subgraph, barrier in list(flat.all_operators()):
        if (
            flat.operator_name(barrier) != "MAXIMUM"
            or barrier.outputs[0] in subgraph.outputs
        ):
            continue
        x, lowest = inputs_of(barrier)
        value = flat.constant(subgraph.tensors[lowest])
        if value is None or not np.all(value == LOWEST):
            continue
        subgraph.operators.remove(barrier)
        for operator in subgraph.operators:
            operator.inputs[operator.inputs == barrier.outputs[0]] = x


def _name_inputs_and_outputs(flat, model):
    """Gives inputs and outputs the names and the order that Keras has."""
    main = flat.subgraphs[0]
    inputs, outputs = flat.signature()
    if "output_0" not in outputs:
        raise ConversionError(
            f"TensorFlow could not convert model '{model.name}'. Is there "
            "space in the folder for temporary files? Received: "
            f"{tempfile.gettempdir()}, and outputs named {sorted(outputs)}"
        )
    main.inputs, main.outputs = (
        np.array([tensors[n] for n in _numbered(name, tensors)], np.int32)
        for name, tensors in (("input", inputs), ("output", outputs))
    )
    flat.set_signature(input_names(model), output_names(model))


def _explained(error, model, function, batch_size):
    """The converter's error in terms of the model."""
    note = channels_first_note(model)
    types = sorted(set(re.findall(r"error: 'tf\.(\w+)' op", str(error))))
    if not types:
        # An operator of TFLite with arguments that it does not take.
        reason = re.search(r"error: (.+)", str(error))
        return ConversionError(
            f"TensorFlow's converter cannot convert model '{model.name}'."
            f"{note} Its reason: {reason[1] if reason else error}"
        )
    message = (
        f"Model '{model.name}' needs operators that the stock TFLite runtime "
        f"does not have: {', '.join(types)}"
    )
    graph = function.graph.as_graph_def()
    layers = set()
    for part in (graph.node, *(f.node_def for f in graph.library.function)):
        for node in part:
            if node.op in types:
                # The innermost layer in the name of the operation.
                path = layers_in(node.name)[-1:]
                layers.add(f"layer '{path[0]}'" if path else f"'{node.name}'")
    if layers:
        message += f", in {', '.join(sorted(layers))}"
    if batch_size is None and any("TensorList" in name for name in types):
        message += ". A loop over time needs a fixed `batch_size`"
    return ConversionError(f"{message}.{note}")
