"""How a training step and an export grow with the number of weights.

    python -m benchmarks.growth

Three square dense layers with batch norm, 10⁵ to 10⁸ weights in all, at batch
100. Each size has its own process, so its peak of memory is its own.
"""

import sys
import tempfile
import time
from pathlib import Path

from benchmarks import harness, networks
from benchmarks.worker import Worker, forget_peak, memory

SMALLEST, LARGEST = 10**5, 10**8
TASKS = ("keras", "lab", "export")
LAYERS = 3


def sizes(most):
    """Returns numbers of weights, two per factor of ten."""
    found, number = [], 0
    while (weights := round(SMALLEST * 10 ** (number / 2))) <= most:
        found.append(weights)
        number += 1
    return found


def describe(weights):
    """Returns square layers with about this many weights."""
    width = round((weights / LAYERS) ** 0.5 / 4) * 4
    output = ["Dense", {"units": 10, "use_bias": False}]
    hidden = LAYERS * networks.dense_block(width)
    return [["Input", {"shape": [width]}], *hidden, output]


def train(weights, method, rounds):
    """Times some training steps; runs in a worker."""
    import keras_lab
    from benchmarks.peers import keras_lab as ours
    from benchmarks.peers import shared

    keras_lab.config.keep_memory()
    forget_peak()
    model, optimizer = ours.make(describe(weights), method)
    step = shared.stepper(model, optimizer, jit_compile=True, count=1)
    seconds = harness.interleave({method: step}, rounds)[method]
    return _result(model, seconds)


def export(weights, rounds):
    """Times some exports of a packed file; runs in a worker."""
    import keras_lab
    from benchmarks.peers import keras_lab as ours
    from tflite_export import export_tflite

    keras_lab.config.keep_memory()
    model, _ = ours.make(describe(weights), "lab")
    forget_peak()
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "packed.tflite"
        for _ in range(rounds):
            start = time.perf_counter()
            export_tflite(model, path, "packed")
            seconds.append(time.perf_counter() - start)
        file_bytes = path.stat().st_size
    return {**_result(model, seconds), "file_bytes": file_bytes}


def _result(model, seconds):
    kernels = [w.shape for w in model.weights if w.path.endswith("/kernel")]
    return {
        "kernel_weights": sum(rows * columns for rows, columns in kernels),
        "seconds": seconds,
        "peak_bytes": memory().peak,
    }


def cells(arguments):
    found = sizes(arguments.most)
    return [{"task": t, "weights": w} for w in found for t in TASKS]


def measure(cell, arguments, _):
    task, weights = cell["task"], cell["weights"]
    with Worker("benchmarks.growth") as worker:
        if task == "export":
            options = {"weights": weights, "rounds": arguments.exports}
            return [worker.call("export", **options)]
        options = {"weights": weights, "rounds": arguments.rounds}
        return [worker.call("train", method=task, **options)]


OPTIONS = {"rounds": 21, "exports": 3, "most": LARGEST}
BENCHMARK = harness.Benchmark("growth", __doc__, OPTIONS, cells, measure)


if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
