"""Recurrent layers with `stateful=True`: their state as inputs and outputs.

A `.tflite` file keeps nothing between calls. So the caller keeps the state: the
file has one more input and one more output for each part of it, of the same
name, and what comes out of one call goes into the next one.
"""

import itertools

import keras
import numpy as np

import keras_lab
from tflite_export.errors import ConversionError
from tflite_export.interpreter import by_input
from tflite_export.prepare import input_names, output_names


def with_states(model: keras.Model) -> keras.Model:
    """A functional model, with the states of its layers as inputs and outputs.

    Part i of the state of a layer is called `<layer>_state_<i>`. For an LSTM, 0
    is h and 1 is c. Without stateful layers it is the given model.
    """
    stateful = {
        path: layer
        for path, layer in keras_lab.walk(model).items()
        if isinstance(layer, keras.layers.RNN) and layer.stateful
    }
    if not stateful:
        return model
    layers = {layer.name: layer for layer in model.layers}
    for path, layer in stateful.items():
        _check_used_once(path, layers.get(path) is layer)
    given = {
        name: _state_inputs(layer, layers) for name, layer in stateful.items()
    }
    returned = {}

    def new_layer(layer):
        if layer.name in stateful:
            return layer  # Replaced when it is called.
        return type(layer).from_config(layer.get_config())

    def call(layer, *args, **kwargs):
        name = layer.name
        if name not in stateful:
            return layer(*args, **kwargs)
        _check_used_once(name, name not in returned)
        outputs = _call(layer, given[name], *args, **kwargs)
        returned[name] = keras.tree.flatten(outputs)[1:]
        return outputs

    states = keras.tree.flatten(list(given.values()))
    inputs = [
        keras.Input(batch_shape=tensor.shape, dtype=tensor.dtype, name=name)
        for name, tensor in zip(input_names(model), model.inputs)
    ]
    rebuilt = keras.models.clone_model(
        keras.Model([*model.inputs, *states], model.output),
        [*inputs, *states],
        clone_function=new_layer,
        call_function=call,
    )
    outputs = dict(zip(output_names(model), rebuilt.outputs))
    for name in stateful:
        for number, state in enumerate(returned[name]):
            outputs[_state_name(name, number)] = state
    rebuilt = keras.Model(rebuilt.inputs, outputs, name=model.name)
    for layer in model.layers:
        rebuilt.get_layer(layer.name).set_weights(layer.get_weights())
    return rebuilt


def with_zero_states(model: keras.Model, rebuilt: keras.Model, data):
    """Validation data for the model that `with_states` made of the given one.

    States that are missing are zero.
    """
    if data is None or rebuilt is model:
        return data
    names, states = input_names(model), {}
    if isinstance(data, dict):
        known = set(input_names(rebuilt)).difference(names)
        states = {name: data[name] for name in known.intersection(data)}
        data = {k: array for k, array in data.items() if k not in states}
    rank = len(model.inputs[0].shape)
    arrays = by_input("validation_data", names, data, rank) | states
    samples = len(arrays[names[0]])
    for name, tensor in zip(input_names(rebuilt), rebuilt.inputs):
        if name not in arrays:
            arrays[name] = np.zeros((samples, *tensor.shape[1:]), "float32")
    return arrays


def _check_used_once(name, is_used_once):
    if not is_used_once:
        raise ConversionError(
            f"Layer '{name}' is stateful, and it is used several times or "
            "inside another layer. Use it once, in the model itself. "
            f"Received: {name}.stateful=True"
        )


def _state_name(layer_name, number):
    return f"{layer_name}_state_{number}"


def _state_inputs(layer, taken):
    """The inputs for the state of a layer, in the structure of the state."""
    numbers = itertools.count()

    def state_input(state):
        name = _state_name(layer.name, next(numbers))
        if name in taken:
            raise ConversionError(
                f"The state of the stateful layer '{layer.name}' needs the "
                "name of another layer. Rename that one. "
                f"Received: a layer named '{name}'"
            )
        return keras.Input(batch_shape=state.shape, dtype="float32", name=name)

    return keras.tree.map_structure(state_input, layer.states)


def _call(layer, states, sequence, *more, **kwargs):
    """Calls a new layer that takes and returns its state."""
    if more or kwargs.pop("initial_state", None) is not None:
        raise ConversionError(
            f"Layer '{layer.name}' is stateful, so the caller of the file "
            "gives it its state. Remove `initial_state` from its call. "
            f"Received: {layer.name}.stateful=True"
        )
    options = layer.get_config()
    # A loop of one step would only take time.
    unroll = options["unroll"] or sequence.shape[1] == 1
    options.update(stateful=False, return_state=True, unroll=unroll)
    if options.get("one_hot"):
        # Freezing makes a model of a layer that takes indices, and a model
        # inside the model cannot have the state as inputs.
        length, options["one_hot"] = options["one_hot"], None
        indices = keras.Input(batch_shape=sequence.shape, dtype=sequence.dtype)
        vectors = keras.ops.one_hot(keras.ops.squeeze(indices, -1), length)
        name = f"{layer.name}_one_hot"
        sequence = keras.Model(indices, vectors, name=name)(sequence)
    new = type(layer).from_config(options)
    return new(sequence, initial_state=states, **kwargs)
