"""Trains the digit network of the page, with one bit per weight and in float.

    python examples/web/model.py

Both have the same layers and see the same digits of MNIST, turned, sheared and
scaled at random, because visitors draw less neatly than the writers of MNIST.
Writes `digits.tflz`, `float.tflite` and `models.json` to `--output`. The digits
are read from the folder `KERAS_LAB_DATA`, or downloaded.
"""

import argparse
import json
import os
import sys
from pathlib import Path

WEB = Path(__file__).resolve().parent
sys.path.insert(0, str(WEB.parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

import keras_lab
from examples.paper import data
from tflite_export import export_tflite, run

OUTPUT = WEB / "dist" / "models"
BATCH = 100
# Each file with the quantizer of its network.
MODELS = {"digits.tflz": "lab", "float.tflite": None}


def build_network(quantizer):
    """Three convolutions and two dense layers, each with a batch norm."""
    binary = {"kernel_quantizer": quantizer, "use_bias": False}
    network = keras.Sequential([keras.Input((28, 28, 1), name="pixels")])
    for filters in (16, 32, 64):
        network.add(
            keras_lab.BinaryConv2D(filters, 3, padding="same", **binary)
        )
        if filters < 64:
            network.add(keras.layers.MaxPooling2D())
        network.add(keras.layers.BatchNormalization(momentum=0.9))
        network.add(keras.layers.ReLU())
    network.add(keras.layers.Flatten())
    network.add(keras_lab.BinaryDense(256, **binary))
    network.add(keras.layers.BatchNormalization(momentum=0.9))
    network.add(keras.layers.ReLU())
    network.add(keras_lab.BinaryDense(10, **binary))
    network.add(keras.layers.BatchNormalization(momentum=0.9, name="scores"))
    return network


def varied(x, y):
    """Returns batches of digits that are turned, sheared, scaled and moved."""
    layers = keras.layers
    fill = {"fill_mode": "constant", "fill_value": 0.0}
    vary = keras.Sequential(
        [
            layers.RandomRotation(0.06, **fill),
            layers.RandomShear(0.2, 0.1, **fill),
            layers.RandomZoom(0.15, 0.15, **fill),
            layers.RandomTranslation(0.07, 0.07, **fill),
        ]
    )
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x))
    data = data.batch(BATCH, drop_remainder=True)
    data = data.map(
        lambda x, y: (vary(x, training=True), y),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    return data.prefetch(tf.data.AUTOTUNE)


def train(quantizer, x, y, epochs):
    keras.utils.set_random_seed(1)
    network = build_network(quantizer)
    steps = epochs * (len(x) // BATCH)
    network.compile(
        keras_lab.LABAdam(keras.optimizers.schedules.CosineDecay(0.01, steps)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    network.fit(varied(x, y), epochs=epochs, shuffle=False, verbose=2)
    return network


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--digits", type=int, default=60_000)
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="DIR")
    arguments = parser.parse_args(argv)
    keras_lab.config.keep_memory()
    digits = data.mnist(raw=True)  # Pixels are in [0, 1].
    x, y = map(np.concatenate, zip(digits.train, digits.validation))
    x, x_test = (a.reshape(-1, 28, 28, 1) for a in (x, digits.test.x))
    x, y = x[: arguments.digits], y[: arguments.digits]

    arguments.output.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, quantizer in MODELS.items():
        print(f"{name}:", flush=True)
        network = train(quantizer, x, y, arguments.epochs)
        path = arguments.output / name
        format = "fast" if quantizer else "float"
        # LiteRT.js needs a fixed batch size.
        export_tflite(
            network, path, format, batch_size=1, validation_data=x_test[:200]
        )
        (scores,) = run(path, x_test).values()
        accuracy = float(np.mean(scores.argmax(axis=1) == digits.test.y))
        size = path.stat().st_size
        print(f"{name}: {size} bytes, test accuracy {accuracy:.2%}", flush=True)
        found[name] = {"bytes": size, "accuracy": accuracy}
    # Last, so that it is there only if the files are.
    (arguments.output / "models.json").write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
