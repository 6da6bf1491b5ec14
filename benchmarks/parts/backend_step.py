"""The time of a LAB step relative to Keras' float network, on any backend.

*mlp* is the paper's MNIST network at batch 100, with and without
`keep_memory()`. *large* has three square dense layers with 10⁸ weights in all.
The backend is the one in `KERAS_BACKEND`; on TensorFlow both run with and
without XLA.

    KERAS_BACKEND=jax python -m benchmarks backend_step

The file is `train_step_<backend>.json`. A row has the wall time and the CPU
time of all threads, round by round, and the ratio of each.
"""

import os
import time

import numpy as np

from benchmarks import harness, networks
from benchmarks.tables import XLA, grid, show_spread
from benchmarks.worker import Worker

OPTIONS = {"rounds": 9, "steps_per_round": 30, "width": None}
QUICK = {"rounds": 2, "steps_per_round": 1, "width": 8}
WEIGHTS = 10**8
RESULT = f"train_step_{os.environ.get('KERAS_BACKEND', 'tensorflow')}"
ON_REQUEST = True


def cells(_):
    import keras

    tensorflow = keras.config.backend() == "tensorflow"
    return [
        {"network": network, "keep_memory": keep, "jit_compile": jit_compile}
        for network, keep in (("mlp", True), ("mlp", False), ("large", True))
        for jit_compile in ((True, False) if tensorflow else ("auto",))
    ]


def measure(cell, options, _):
    with Worker("benchmarks.parts.backend_step") as worker:
        return [worker.call("run", **cell, **vars(options))]


def run(network, keep_memory, jit_compile, rounds, steps_per_round, width):
    """Times training steps; runs in a worker."""
    import keras

    import keras_lab

    if keep_memory:
        keras_lab.config.keep_memory()
    layers, steps = networks.describe("mnist", width), steps_per_round
    if network == "large":
        layers = networks.square(WEIGHTS, width)
        steps = max(1, steps // 10)
    methods = {
        "keras": ({}, keras.optimizers.Adam),
        "lab": ({"Dense": keras_lab.BinaryDense}, keras_lab.LABAdam),
    }
    runs = {
        method: stepper(layers, *parts, jit_compile, steps)
        for method, parts in methods.items()
    }
    spent = harness.interleave(runs, rounds, clock=both_clocks)
    row = {"steps": steps}
    for index, clock in enumerate(("wall", "cpu")):
        seconds = {
            method: [float(times[index]) for times in spent[method]]
            for method in runs
        }
        ratio = harness.ratio(seconds, "lab", "keras")
        row[clock] = {"ratio": ratio, "seconds": seconds}
    return row


def both_clocks():
    return np.array([time.perf_counter(), time.process_time()])


def stepper(layers, binary, optimizer, jit_compile, steps):
    """Returns a function that trains a new model for some steps."""
    import keras

    from benchmarks.peers import shared

    keras.utils.set_random_seed(networks.SEED)
    model = networks.build(layers, keras, binary)
    model.compile(optimizer(0.001), "squared_hinge", jit_compile=jit_compile)
    x, y = shared.random_data(model, steps * shared.BATCH)
    return lambda: model.fit(x, y, shared.BATCH, verbose=0, shuffle=False)


def table(content):
    lines = {}
    for row in content["rows"]:
        key = {k: row[k] for k in ("network", "keep_memory", "jit_compile")}
        parts = [
            {"mlp": "MNIST network", "large": "10⁸ weights"}[row["network"]],
            "" if row["keep_memory"] else "without `keep_memory()`",
            XLA.get(row["jit_compile"], ""),
        ]
        lines[", ".join(filter(None, parts))] = key
    columns = {
        title: ({}, lambda row, clock=clock: show_spread(row[clock]["ratio"]))
        for clock, title in (("wall", "time"), ("cpu", "CPU time"))
    }
    return grid(content, "LAB / Keras float", lines, columns)
