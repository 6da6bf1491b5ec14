"""Threads run one file at once, each with an interpreter of its own."""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np


def run(invocations=100_000, threads=4, seed=1):
    """Returns how many outputs differed from those of a single thread."""
    import keras

    import keras_lab
    from tflite_export import export_tflite, make_interpreter

    keras.utils.set_random_seed(seed)
    model = keras.Sequential(
        [
            keras.Input((12, 12, 4)),
            keras_lab.BinaryConv2D(8, 3, activation="relu"),
            keras.layers.Flatten(),
            keras_lab.BinaryDense(10),
        ]
    )
    x = np.random.default_rng(seed).normal(size=(16, 1, 12, 12, 4))
    x = x.astype("float32")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        export_tflite(model, path, format="fast", batch_size=1)
        content = path.read_bytes()

    def outputs(count):
        interpreter = make_interpreter(content, threads=1)
        interpreter.allocate_tensors()
        (source,) = interpreter.get_input_details()
        (target,) = interpreter.get_output_details()
        for number in range(count):
            interpreter.set_tensor(source["index"], x[number % len(x)])
            interpreter.invoke()
            yield number, interpreter.get_tensor(target["index"])

    expected = [y for _, y in outputs(len(x))]

    def work(_):
        return sum(
            not np.array_equal(y, expected[number % len(x)])
            for number, y in outputs(invocations // threads)
        )

    with ThreadPoolExecutor(threads) as pool:
        differing = sum(pool.map(work, range(threads)))
    return {
        "invocations": invocations,
        "threads": threads,
        "seed": seed,
        "differing": differing,
    }
