"""Recurrent layers with `stateful=True`: their state as inputs and outputs.

A `.tflite` file keeps nothing between calls. So the caller keeps the state: the
file has one more input and one more output for each part of it, of the same
name, and what comes out of one call goes into the next one.
"""

import copy

import keras
import numpy as np

import keras_lab
from tflite_export.errors import ConversionError
from tflite_export.interpreter import by_input
from tflite_export.prepare import as_functional, input_names, output_names


def with_states(model: keras.Model) -> keras.Model:
    """The model, with the states of its stateful layers as inputs and outputs.

    Part i of the state of a layer is called `<layer>_state_<i>`. For an LSTM, 0
    is h and 1 is c. Without stateful layers it is the given model.
    """
    stateful = [
        path
        for path, layer in keras_lab.walk(model).items()
        if isinstance(layer, keras.layers.RNN) and layer.stateful
    ]
    if not stateful:
        return model
    functional = as_functional(model)
    config = copy.deepcopy(functional.get_config())
    layers = {layer["name"]: layer for layer in config["layers"]}
    names = output_names(functional)
    outputs = dict(zip(names, _references(config["output_layers"])))
    inputs = _references(config["input_layers"])
    for name in stateful:
        if name not in layers or len(layers[name]["inbound_nodes"]) != 1:
            raise ConversionError(
                f"Layer '{name}' is stateful, and it is used several times or "
                "inside another layer. Use it once, in the model itself. "
                f"Received: {name}.stateful=True"
            )
        structure, states = _states(functional.get_layer(name), layers)
        _pass_states(layers[name], structure, states)
        if layers[name]["config"].get("one_hot"):
            config["layers"].append(_take_vectors(layers[name]))
        for number, state in enumerate(states):
            config["layers"].append(
                _serialized(keras.layers.InputLayer(**state))
            )
            inputs.append([state["name"], 0, 0])
            outputs[state["name"]] = [name, 0, 1 + number]
    config["input_layers"], config["output_layers"] = inputs, outputs
    rebuilt = keras.Model.from_config(config)
    rebuilt.set_weights(functional.get_weights())
    return rebuilt


def with_zero_states(model: keras.Model, rebuilt: keras.Model, data):
    """Validation data for the model that `with_states` made of the given one.

    States that are missing are zero.
    """
    names = input_names(as_functional(model))
    has_states = isinstance(data, dict) and set(data) > set(names)
    if data is None or rebuilt is model or has_states:
        return data
    rank = len(model.inputs[0].shape)
    arrays = by_input("validation_data", names, data, rank)
    samples = len(arrays[names[0]])
    for name, tensor in zip(input_names(rebuilt), rebuilt.inputs):
        zeros = np.zeros((samples, *tensor.shape[1:]), "float32")
        arrays.setdefault(name, zeros)
    return arrays


def _references(structure):
    """The references to tensors in a config: [layer, node, tensor]."""
    if isinstance(structure, dict):
        return [r for part in structure.values() for r in _references(part)]
    if structure and isinstance(structure[0], str):
        return [list(structure)]
    return [r for part in structure for r in _references(part)]


def _states(layer, taken):
    """The inputs for the state of a layer, in the structure of the state."""
    # Keras builds no stateful layer with an open batch size. Its inputs may
    # include a mask.
    batch_size = keras.tree.flatten(layer.input)[0].shape[0]
    structure = layer.get_initial_state(batch_size)
    states = [
        {
            "name": f"{layer.name}_state_{number}",
            "batch_shape": tuple(part.shape),
            "dtype": "float32",
        }
        for number, part in enumerate(keras.tree.flatten(structure))
    ]
    for state in states:
        if state["name"] in taken:
            raise ConversionError(
                f"The state of the stateful layer '{layer.name}' needs the "
                "name of another layer. Rename that one. "
                f"Received: a layer named '{state['name']}'"
            )
    return structure, states


def _serialized(layer, *nodes):
    config = keras.saving.serialize_keras_object(layer)
    return {**config, "name": layer.name, "inbound_nodes": list(nodes)}


def _tensor(layer, shape, dtype="float32"):
    """How a config refers to the output of a layer."""
    history = {"keras_history": [layer, 0, 0]}
    config = {"shape": list(shape), "dtype": dtype, **history}
    return {"class_name": "__keras_tensor__", "config": config}


def _take_vectors(layer):
    """Makes a layer take one-hot vectors, and returns what encodes indices."""
    # Freezing makes a model of a layer that takes indices, and a model inside
    # the model cannot have the state as inputs.
    (node,) = layer["inbound_nodes"]
    indices = node["args"][0]["config"]
    length = layer["config"]["one_hot"]
    inputs = keras.Input(batch_shape=indices["shape"], dtype=indices["dtype"])
    vectors = keras.ops.one_hot(keras.ops.squeeze(inputs, -1), length)
    name = f"{layer['name']}_one_hot"
    before = {"args": node["args"][:1], "kwargs": {}}
    node["args"] = [_tensor(name, vectors.shape), *node["args"][1:]]
    layer["config"]["one_hot"] = None
    return _serialized(keras.Model(inputs, vectors, name=name), before)


def _pass_states(layer, structure, states):
    """Makes a layer of a config take and return its state."""
    (node,) = layer["inbound_nodes"]
    if len(node["args"]) > 1 or node["kwargs"].get("initial_state"):
        raise ConversionError(
            f"Layer '{layer['name']}' is stateful, so the caller of the file "
            "gives it its state. Remove `initial_state` from its call. "
            f"Received: {layer['name']}.stateful=True"
        )
    options = layer["config"]
    steps = node["args"][0]["config"]["shape"][1]
    # A loop of one step would only take time.
    unroll = options["unroll"] or steps == 1
    options.update(stateful=False, return_state=True, unroll=unroll)
    layer.pop("build_config", None)
    tensors = [
        _tensor(state["name"], state["batch_shape"], state["dtype"])
        for state in states
    ]
    node["kwargs"]["initial_state"] = _pack(structure, iter(tensors))


def _pack(structure, parts):
    """The parts, one after the other, in the lists of a structure."""
    if isinstance(structure, (list, tuple)):
        return [_pack(inner, parts) for inner in structure]
    return next(parts)
