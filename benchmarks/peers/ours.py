"""keras_lab, and what Keras and TensorFlow offer by themselves: a worker."""

import time
from pathlib import Path

import keras
import numpy as np

import keras_lab
from benchmarks import networks, train_step
from benchmarks.peers import shared
from benchmarks.workers import serve
from keras_lab.binary_weight import weights_of
from tflite_export import export_tflite
from tflite_export.validate import make_interpreter

FORMATS = ("packed", "packed_float", "fast", "float")
# Weights that TensorFlow's converter offers.
TFLITE = {"float32": None, "float16": "float16", "int8": "int8"}
# Images that batch norm is measured anew on.
CALIBRATION = 5000
STEPS = 100


def train(method, network, data, seed, rates, batch):
    """The epochs of a method, in a list by its name.

    The float network comes with what can be made of it without training.
    """
    data = shared.load(data)
    model, optimizer = train_step.make(network, method, seed)
    model.compile(optimizer, "squared_hinge")
    history = {method: shared.train(model, data, rates, seed, batch)}
    if method == "keras":
        history |= after_training(model, data)
    return history


def after_training(model, data):
    """Errors of a float network with int8 and with one-bit weights."""
    binary = keras_lab.binarize_model(
        model, "bwn", skip_first=False, skip_last=False
    )
    results = {
        "int8": [{"test_error": _int8_error(model, data)}],
        "sign": [shared.errors(binary, data)],
    }
    keras_lab.recalibrate_batch_norm(binary, data["train_x"][:CALIBRATION])
    results["sign_calibrated"] = [shared.errors(binary, data)]
    return results


def _int8_error(model, data):
    """The test error with int8 weights and dynamic range, in the runtime."""
    batch = shared.EVALUATION_BATCH
    content = shared.to_tflite(model, "int8", batch)
    interpreter = make_interpreter(content)
    interpreter.allocate_tensors()
    (given,) = interpreter.get_input_details()
    (wanted,) = interpreter.get_output_details()
    scores = []
    for start in range(0, len(data["test_x"]), batch):
        images = data["test_x"][start : start + batch]
        interpreter.set_tensor(given["index"], images)
        interpreter.invoke()
        scores.append(interpreter.get_tensor(wanted["index"]))
    return shared.percent_wrong(np.concatenate(scores), data["test_y"])


def export(network, sizes, folder):
    """Our four formats, of a network of the paper with LAB."""
    model = shared.as_if_trained(paper_network(network, sizes))
    rows = {}
    for format in FORMATS:
        path, start = Path(folder) / f"{format}.tflite", time.perf_counter()
        report = export_tflite(model, path, format)
        rows[format] = {
            "path": str(path),
            "export_seconds": time.perf_counter() - start,
            "max_error": report.agreement.max_error,
        }
    return rows


def paper_network(network, sizes):
    """A network of the paper with LAB, all axes but the batch fixed."""
    model = networks.paper_network(network, "lab", **sizes)
    if network != "lstm":
        return model
    inputs = keras.Input((STEPS,), dtype="uint8")
    return keras.Sequential([inputs, *model.layers])


def count(network, sizes):
    """Binary weights, and float parameters that an inference needs.

    Of a batch norm these are two numbers a channel, a scale and an offset.
    """
    model = paper_network(network, sizes)
    binary = weights_of(model.weights)
    latent = {id(weight.latent) for weight in binary}
    return {
        "binary_weights": sum(int(np.prod(w.latent.shape)) for w in binary),
        "float_parameters": sum(
            int(np.prod(w.shape))
            for w in model.weights
            if id(w) not in latent and not w.name.startswith("moving_")
        ),
    }


def describe(network, sizes):
    """A network of the paper as a list of layers."""
    return networks.describe(network, **sizes)


def export_tflite_formats(network, folder):
    """What TensorFlow's converter makes of the float network."""
    keras.utils.set_random_seed(1)
    model = networks.build(network, networks.Kit(keras))
    shared.as_if_trained(model)
    paths = {}
    for format, weights in TFLITE.items():
        path = Path(folder) / f"tflite_{format}.tflite"
        path.write_bytes(shared.to_tflite(model, weights))
        paths[f"tflite_{format}"] = str(path)
    return paths


def main():
    versions = shared.versions_of(
        "keras", "tensorflow", "numpy", "ai-edge-litert"
    )
    steps = shared.Steps(train_step.make)
    functions = train, count, describe, export, export_tflite_formats
    serve(versions, *functions, *steps.functions)


if __name__ == "__main__":
    main()
