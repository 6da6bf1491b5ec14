"""Trains a binary network on MNIST and exports it to TFLite in four formats.

    python examples/export_mnist.py --epochs 3

Prints the size of each file, its accuracy on the 10,000 test digits in the
stock interpreter, and the time per inference. The files stay in `--output`. The
digits are read from the folder `KERAS_LAB_DATA`, or downloaded.
"""

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import keras_lab
from examples.paper.recipes import MNIST
from examples.paper.schemes import SCHEMES
from tflite_export import export_tflite, make_interpreter, run

FORMATS = ("float", "fast", "packed_float", "packed")


def milliseconds(path, sample, seconds=1.0):
    """Returns the median time per digit with one thread."""
    interpreter = make_interpreter(path)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], sample)
    interpreter.invoke()
    times, begin = [], time.perf_counter()
    while time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        interpreter.invoke()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--units", type=int, default=2048)
    parser.add_argument("--output", type=Path, default=Path("mnist_tflite"))
    arguments = parser.parse_args(argv)
    keras_lab.config.keep_memory()
    keras.utils.set_random_seed(1)

    data, batch = MNIST.load(None), MNIST.batch
    network = MNIST.build(SCHEMES["lab"], data.classes, width=arguments.units)
    steps = arguments.epochs * (len(data.train.x) // batch)
    rate = keras.optimizers.schedules.ExponentialDecay(MNIST.rate, steps, 0.01)
    metrics = MNIST.task.metrics
    network.compile(keras_lab.LABAdam(rate), MNIST.task.loss, metrics=metrics)
    x, labels = data.train
    y = MNIST.task.targets(labels)
    network.fit(x, y, batch, epochs=arguments.epochs, verbose=2)

    arguments.output.mkdir(parents=True, exist_ok=True)
    x, labels = data.test
    print(f"\n{'format':<14}{'file':>10}{'accuracy':>11}{'inference':>12}")
    for format in FORMATS:
        path = arguments.output / f"{format}.tflite"
        report = export_tflite(network, path, format, validation_data=x[:1000])
        (scores,) = run(path, x).values()
        accuracy = np.mean(scores.argmax(axis=1) == labels)
        print(
            f"{format:<14}{report.file_bytes / 1e6:>7.2f} MB{accuracy:>11.2%}"
            f"{milliseconds(path, x[:1]):>9.2f} ms"
        )
    print("\n" + str(report))


if __name__ == "__main__":
    main()
