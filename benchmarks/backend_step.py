"""The time of a LAB step relative to Keras' float network, on any backend.

*mlp* is the paper's MNIST network at batch 100, with and without
`keep_memory()`. *large* has three square dense layers with 10⁸ weights in all,
as in `growth.py`. The backend is the one in `KERAS_BACKEND`; on TensorFlow both
run with and without XLA.

    KERAS_BACKEND=jax python -m benchmarks backend_step

The file is `train_step_<backend>.json`. A row has the wall time and the CPU
time of all threads, round by round, and the ratio of each.
"""

import time

from benchmarks import harness, networks
from benchmarks.worker import Worker

OPTIONS = {"rounds": 9, "steps_per_round": 30, "width": None}
QUICK = {"rounds": 2, "steps_per_round": 1, "width": 8}
WEIGHTS = 10**8
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def cells(_):
    import keras

    xla = (True, False)
    if keras.config.backend() != "tensorflow":
        xla = ("auto",)
    return [
        {"network": network, "keep_memory": keep, "jit_compile": jit_compile}
        for network, keep in (("mlp", True), ("mlp", False), ("large", True))
        for jit_compile in xla
    ]


def measure(cell, options, _):
    with Worker("benchmarks.backend_step") as worker:
        return [worker.call("run", **cell, **vars(options))]


def run(network, keep_memory, jit_compile, rounds, steps_per_round, width):
    """Times training steps; runs in a worker."""
    import keras

    import keras_lab

    if keep_memory:
        keras_lab.config.keep_memory()
    methods = {
        "keras": ({}, keras.optimizers.Adam),
        "lab": ({"Dense": keras_lab.BinaryDense}, keras_lab.LABAdam),
    }
    steps = steps_per_round
    if network == "mlp":
        layers = networks.describe("mnist", width)
    else:
        steps = max(1, steps // 10)
        width = width or round((WEIGHTS / 3) ** 0.5 / 4) * 4
        layers = [["Input", {"shape": [width]}]]
        layers += 3 * networks.dense_block(width) + networks.dense_block(10)[:1]
    runs = {
        method: stepper(layers, *parts, jit_compile, steps)
        for method, parts in methods.items()
    }
    spent = interleave(runs, rounds)
    row = {"steps": steps}
    for clock in CLOCKS:
        seconds = {method: spent[method][clock] for method in methods}
        ratio = harness.ratio(seconds, "lab", "keras")
        row[clock] = {"ratio": ratio, "seconds": seconds}
    return row


def stepper(layers, binary, optimizer, jit_compile, steps):
    """Returns a function that trains a new model for some steps."""
    import keras
    import numpy as np

    from benchmarks.peers.shared import BATCH

    keras.utils.set_random_seed(networks.SEED)
    model = networks.build(layers, keras, binary)
    model.compile(optimizer(0.001), "squared_hinge", jit_compile=jit_compile)
    rng = np.random.default_rng(networks.SEED)
    count = steps * BATCH
    x = rng.normal(size=(count, *model.input_shape[1:])).astype("float32")
    y = np.where(rng.integers(0, 10, (count, 1)) == np.arange(10), 1.0, -1.0)
    return lambda: model.fit(x, y, BATCH, verbose=0, shuffle=False)


def interleave(runs, rounds):
    """Takes turns as in `harness.interleave`, with both clocks."""
    spent = {method: {clock: [] for clock in CLOCKS} for method in runs}
    for turn in range(-1, rounds):
        for method, run in runs.items():
            start = {name: clock() for name, clock in CLOCKS.items()}
            run()
            for name, clock in CLOCKS.items():
                if turn >= 0:  # The first round compiles.
                    spent[method][name].append(clock() - start[name])
    return spent
