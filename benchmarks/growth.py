"""How a training step and an export grow with the number of weights.

Three square dense layers with batch norm, 10⁵ to 10⁸ weights in all, at batch
100. Each size has its own process, so its peak of memory is its own.
"""

import functools
import tempfile
from pathlib import Path

from benchmarks import harness, networks
from benchmarks.worker import Worker, forget_peak, memory

OPTIONS = {"rounds": 21, "exports": 3, "most": 10**8}
QUICK = {"rounds": 2, "exports": 1, "most": 10**6}


def cells(options):
    # Two sizes per factor of ten.
    sizes = [round(10 ** (5 + n / 2)) for n in range(7)]
    return [
        {"task": task, "weights": weights}
        for weights in sizes
        if weights <= options.most
        for task in ("keras", "lab", "export")
    ]


def measure(cell, options, _):
    rounds = options.exports if cell["task"] == "export" else options.rounds
    with Worker("benchmarks.growth") as worker:
        return [worker.call("run", **cell, rounds=rounds)]


def run(task, weights, rounds):
    """Times training steps, or exports of a packed file; runs in a worker."""
    import keras_lab
    from benchmarks.peers import keras_lab as ours
    from benchmarks.peers import shared
    from tflite_export import export_tflite

    keras_lab.config.keep_memory()
    layers = networks.square(weights)
    model, optimizer = ours.make(layers, "lab" if task == "export" else task)
    forget_peak()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "packed.tflite"
        if task == "export":
            step = functools.partial(export_tflite, model, path, "packed")
        else:
            step = shared.stepper(model, optimizer, jit_compile=True, count=1)
        result = {"seconds": harness.interleave({task: step}, rounds)[task]}
        if task == "export":
            result["file_bytes"] = path.stat().st_size
    return {**result, "peak_bytes": memory().peak}
