"""MNIST with one bit per weight: train, evaluate, save, export.

    python examples/mnist.py

Trains the same network twice, in full precision and with LAB, and writes the
second one as `mnist_lab.keras` and `mnist_lab.tflite`.
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import keras_lab
import tflite_export


def load_digits(path):
    """Returns MNIST as rows of pixels in [-1, 1], and the labels."""
    if path is None:
        train, test = keras.datasets.mnist.load_data()
    else:
        with np.load(path) as arrays:
            train, test = (
                (arrays[f"x_{part}"], arrays[f"y_{part}"])
                for part in ("train", "test")
            )
    return [
        (x.reshape(len(x), 784).astype("float32") / 127.5 - 1, y)
        for x, y in (train, test)
    ]


def build_network(kernel_quantizer, units):
    """Two hidden layers. Batch normalization makes biases unnecessary."""
    binary = {"kernel_quantizer": kernel_quantizer, "use_bias": False}
    return keras.Sequential(
        [
            keras.Input((784,)),
            keras_lab.BinaryDense(units, **binary),
            keras.layers.BatchNormalization(momentum=0.9),
            keras.layers.ReLU(),
            keras_lab.BinaryDense(units, **binary),
            keras.layers.BatchNormalization(momentum=0.9),
            keras.layers.ReLU(),
            keras_lab.BinaryDense(10, **binary),
            keras.layers.BatchNormalization(momentum=0.9),
        ]
    )


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", help="mnist.npz; downloaded if not given")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--units", type=int, default=1024)
    options = parser.parse_args(argv)

    keras_lab.config.keep_memory()
    (x, y), (x_test, y_test) = load_digits(options.data)
    for name, quantizer in (("full precision", None), ("LAB", "lab")):
        keras.utils.set_random_seed(1)
        network = build_network(quantizer, options.units)
        steps = options.epochs * len(x) // 100
        rate = keras.optimizers.schedules.CosineDecay(0.01, steps)
        network.compile(
            keras_lab.LABAdam(rate),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        network.fit(x, y, batch_size=100, epochs=options.epochs, verbose=2)
        _, accuracy = network.evaluate(x_test, y_test, verbose=0)
        print(f"{name}: test accuracy {accuracy:.2%}")

    network.save("mnist_lab.keras")
    report = tflite_export.export_tflite(
        network, "mnist_lab.tflite", validation_data=x_test[:1000]
    )
    print(report)


if __name__ == "__main__":
    main()
