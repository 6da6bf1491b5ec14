"""How a training step and an export grow with the number of weights.

Three square dense layers with batch norm, 10⁵ to 10⁸ weights in all, at batch
100. Each size has its own process, so its peak of memory is its own.
"""

import tempfile
import time
from pathlib import Path

from benchmarks import harness, networks
from benchmarks.worker import Worker, forget_peak, memory

OPTIONS = {"rounds": 21, "exports": 3, "most": 10**8}
QUICK = {"rounds": 2, "exports": 1, "most": 10**6}
TASKS = ("keras", "lab", "export")
LAYERS = 3


def cells(options):
    # Two sizes per factor of ten.
    sizes = [round(10 ** (5 + n / 2)) for n in range(7)]
    return [
        {"task": task, "weights": weights}
        for weights in sizes
        if weights <= options.most
        for task in TASKS
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

    keras_lab.config.keep_memory()
    width = round((weights / LAYERS) ** 0.5 / 4) * 4
    layers = [
        ["Input", {"shape": [width]}],
        *LAYERS * networks.dense_block(width),
        ["Dense", {"units": 10, "use_bias": False}],
    ]
    model, optimizer = ours.make(layers, "lab" if task == "export" else task)
    forget_peak()
    if task == "export":
        result = export(model, rounds)
    else:
        step = shared.stepper(model, optimizer, jit_compile=True, count=1)
        result = {"seconds": harness.interleave({task: step}, rounds)[task]}
    return {**result, "peak_bytes": memory().peak}


def export(model, rounds):
    from tflite_export import export_tflite

    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "packed.tflite"
        for _ in range(rounds):
            start = time.perf_counter()
            export_tflite(model, path, "packed")
            seconds.append(time.perf_counter() - start)
        return {"seconds": seconds, "file_bytes": path.stat().st_size}
