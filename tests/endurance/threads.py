"""Threads run one file at once, each with an interpreter of its own."""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from tests.endurance.network import network


def run(invocations=100_000, threads=4, seed=1):
    """Returns how many outputs differed from those of a single thread."""
    from tflite_export import export_tflite, make_interpreter

    x = np.random.default_rng(seed).normal(size=(16, 1, 32)).astype("float32")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        export_tflite(network(seed), path, format="fast", batch_size=1)
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

    def count_differing(_):
        return sum(
            not np.array_equal(y, expected[number % len(x)])
            for number, y in outputs(invocations // threads)
        )

    with ThreadPoolExecutor(threads) as pool:
        differing = sum(pool.map(count_differing, range(threads)))
    return {
        "invocations": invocations,
        "threads": threads,
        "seed": seed,
        "differing": differing,
    }
