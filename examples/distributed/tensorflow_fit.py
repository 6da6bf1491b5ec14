"""Keras' `fit` on TensorFlow with `MirroredStrategy`: two devices, one process.

    python examples/distributed/tensorflow_fit.py

The two devices are halves of the CPU. With two GPUs, leave out the lines that
make them.
"""

import os
import sys
from pathlib import Path

os.environ["KERAS_BACKEND"] = "tensorflow"
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import tensorflow as tf

import keras_lab
from examples.distributed import common


def train(strategy):
    """Returns the model, and the values of α on each device."""
    with strategy.scope():
        model = common.make_model()
        model.compile(common.make_optimizer(), common.make_loss())
    x, y = common.make_data()
    # All of a batch goes to the devices together.
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(common.BATCH)
    model.fit(data, epochs=common.EPOCHS, verbose=0)
    alphas = []
    for weight in keras_lab.binary_weights(model).values():
        values = strategy.experimental_local_results(weight.alpha.value)
        alphas.append([float(value) for value in values])
    return alphas


def compare(alone, split):
    """Prints α of each layer on one device and on several, and exits."""
    for number, (one, several) in enumerate(zip(alone, split)):
        texts = [f"{alpha:.9f}" for alpha in several]
        print(f"layer {number}: {one:.9f}, split", *texts)
    holds = all(
        len(set(several)) == 1 and abs(several[0] - one) <= 1e-5 * one
        for one, several in zip(alone, split)
    )
    print("α is", "right" if holds else "WRONG")
    raise SystemExit(0 if holds else 1)


def main():
    (cpu,) = tf.config.list_physical_devices("CPU")
    halves = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, halves)
    one = train(tf.distribute.get_strategy())
    two = train(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
    compare([alpha for (alpha,) in one], two)


if __name__ == "__main__":
    main()
