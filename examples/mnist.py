"""MNIST with one bit per weight: train, evaluate, save, export.

    python examples/mnist.py

Trains the same network in full precision and with LAB, and writes the second as
`mnist_lab.keras` and `mnist_lab.tflite`. Downloads MNIST, unless it is in the
folder that the environment variable KERAS_LAB_DATA names.
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras

import keras_lab
import tflite_export
from examples.paper import data


def build_network(kernel_quantizer, units):
    """Two hidden layers. Batch normalization makes biases unnecessary."""
    options = {"kernel_quantizer": kernel_quantizer, "use_bias": False}
    layers = [keras.Input((784,))]
    for size in (units, units, 10):
        layers.append(keras_lab.BinaryDense(size, **options))
        layers.append(keras.layers.BatchNormalization(momentum=0.9))
        layers.append(keras.layers.ReLU())
    return keras.Sequential(layers[:-1])


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--units", type=int, default=1024)
    options = parser.parse_args(argv)

    keras_lab.config.keep_memory()
    digits = data.mnist()  # 784 pixels in [0, 1], minus their mean
    steps = options.epochs * len(digits.train.x) // 100
    rate = keras.optimizers.schedules.CosineDecay(0.01, steps)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    for name, quantizer in (("full precision", None), ("LAB", "lab")):
        keras.utils.set_random_seed(1)
        network = build_network(quantizer, options.units)
        network.compile(keras_lab.LABAdam(rate), loss, metrics=["accuracy"])
        network.fit(*digits.train, 100, options.epochs, verbose=2)
        _, accuracy = network.evaluate(*digits.test, verbose=0)
        print(f"{name}: test accuracy {accuracy:.2%}")

    network.save("mnist_lab.keras")
    path, examples = "mnist_lab.tflite", digits.test.x[:1000]
    print(tflite_export.export_tflite(network, path, validation_data=examples))


if __name__ == "__main__":
    main()
