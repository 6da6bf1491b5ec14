"""keras_lab, and what Keras and TensorFlow offer by themselves."""

import time
from pathlib import Path

import keras
import numpy as np

import keras_lab
import tflite_export
from benchmarks import networks
from benchmarks.peers import shared

LAYERS = {
    "Dense": keras_lab.BinaryDense,
    "Conv2D": keras_lab.BinaryConv2D,
    "LSTM": keras_lab.BinaryLSTM,
}


def binary(quantizer):
    options = {"kernel_quantizer": quantizer}
    return {"keras": keras, "layers": LAYERS, "kernel": options}


# The arguments of `networks.build`.
KITS = {
    "keras": {"keras": keras},
    "lab": binary("lab"),
    "bwn": binary("bwn"),
    "binary_connect": binary("binary_connect"),
    "lab2": {**binary("lab"), "inputs": {"input_quantizer": "sign"}},
}


def make(network, method, seed=networks.SEED):
    """Returns a model and an optimizer, not compiled."""
    keras.utils.set_random_seed(seed)
    model = networks.build(network, **KITS[method])
    adam = keras.optimizers.Adam if method == "keras" else keras_lab.LABAdam
    return model, adam(0.001)


prepare, step = shared.steps(make)


def train(method, network, data, seed, rates, batch):
    """Returns the epochs of a method; of floats also what they can become."""
    data = shared.load(data)
    model, optimizer = make(network, method, seed)
    model.compile(optimizer, "squared_hinge")
    history = {method: shared.train(model, data, rates, seed, batch)}
    if method == "keras":
        history |= after_training(model, data)
    return history


def after_training(model, data):
    """Returns errors of a float network with int8 and with one-bit weights."""
    content = shared.to_tflite(model, "int8", shared.EVALUATION_BATCH)
    (scores,) = tflite_export.run(content, data["test_x"]).values()
    int8 = shared.percent_wrong(scores, data["test_y"])
    binary = keras_lab.binarize_model(
        model, "bwn", skip_first=False, skip_last=False
    )
    sign = shared.errors(binary, data)
    keras_lab.recalibrate_batch_norm(binary, data["train_x"][:5000])
    return {
        "int8": [{"test_error": int8}],
        "sign": [sign],
        "sign_calibrated": [shared.errors(binary, data)],
    }


def paper_network(network, width):
    """Returns a network of the paper with LAB, as we would ship it.

    The LSTM takes indices instead of one-hot vectors, and its softmax layer is
    in full precision, as in the paper.
    """
    keras.utils.set_random_seed(networks.SEED)
    if network != "lstm":
        return networks.build(networks.describe(network, width), **KITS["lab"])
    (_, inputs), (_, lstm), (_, dense) = networks.describe("lstm", width)
    steps, characters = inputs["shape"]
    model = keras.Sequential([keras.Input((steps,), dtype="uint8")])
    model.add(keras.layers.Reshape((-1, 1)))
    model.add(keras_lab.BinaryLSTM(**lstm, one_hot=characters))
    model.add(keras.layers.Dense(**dense))
    return model


def count(network, width):
    """Counts binary weights, and the float parameters an inference needs."""
    model = paper_network(network, width)
    binary = keras_lab.binary_weights(model).values()
    latent = {id(weight.latent) for weight in binary}
    return {
        "binary_weights": sum(int(np.prod(w.shape)) for w in binary),
        "float_parameters": sum(
            int(np.prod(w.shape))
            for w in model.weights
            # Of a batch norm a scale and an offset.
            if id(w) not in latent and not w.name.startswith("moving_")
        ),
    }


def export(format, path, network, width):
    """Writes a network of the paper, in our format or in TensorFlow's own."""
    if format.startswith("tflite_"):
        model, _ = make(networks.describe(network, width), "keras")
        weights = format.removeprefix("tflite_")
        content = shared.to_tflite(shared.as_if_trained(model), weights)
        Path(path).write_bytes(content)
        return {}
    model = shared.as_if_trained(paper_network(network, width))
    start = time.perf_counter()
    report = tflite_export.export_tflite(model, path, format)
    seconds = time.perf_counter() - start
    return {"export_seconds": seconds, "max_error": report.agreement.max_error}


def export_resnet8(source, values, weights, path):
    """Writes a network with binary weights; returns the bytes of its file."""
    assert values == 2
    trained = keras.models.load_model(source, compile=False)
    model = keras_lab.binarize_model(trained)
    report = tflite_export.export_tflite(model, path, other_weights=weights)
    return report.file_bytes
