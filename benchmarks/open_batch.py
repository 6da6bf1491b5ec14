"""Batches in packed files: an open batch size next to a fixed one.

The paper's MNIST network without training, batches of 100 in one thread. Each
file's time is a multiple of the float file's.
"""

import tempfile
from pathlib import Path

import numpy as np

from benchmarks import harness
from benchmarks.networks import SEED

OPTIONS = {"rounds": 31, "units": 2048, "batch": 100}
QUICK = {"rounds": 2, "units": 64, "batch": 10}


def measure(cell, options, _):
    import keras

    import keras_lab
    from tflite_export import export_tflite, make_interpreter

    keras.utils.set_random_seed(SEED)
    model = keras.Sequential([keras.Input((784,))])
    for _ in range(3):
        model.add(keras_lab.BinaryDense(options.units, use_bias=False))
        model.add(keras.layers.BatchNormalization())
        model.add(keras.layers.ReLU())
    model.add(keras_lab.BinaryDense(10))
    x = np.random.default_rng(SEED).normal(size=(options.batch, 784))
    files = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, format, batch in (
            ("float", "float", None),
            ("packed, open", "packed", None),
            ("packed, fixed", "packed", options.batch),
            ("fast, open", "fast", None),
        ):
            path = Path(folder, "m.tflite")
            export_tflite(model, path, format, batch_size=batch)
            interpreter = make_interpreter(path)
            interpreter.resize_tensor_input(
                interpreter.get_input_details()[0]["index"], x.shape
            )
            interpreter.allocate_tensors()
            interpreter.set_tensor(
                interpreter.get_input_details()[0]["index"], x.astype("f")
            )
            files[name] = interpreter.invoke
        seconds = harness.interleave(files, options.rounds)
    return [
        {"file": name, "ratio": harness.ratio(seconds, name, "float")}
        for name in files
    ]
