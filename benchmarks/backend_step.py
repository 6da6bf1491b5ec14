"""The time of a LAB step relative to Keras' float network, on any backend.

*mlp* is the paper's MNIST network at batch 100. *large* has three square dense
layers with 10⁸ weights in all, as in `growth.py`. The backend is the one in
`KERAS_BACKEND`; on TensorFlow both run with and without XLA.

    KERAS_BACKEND=jax python -m benchmarks backend_step

The file is `train_step_<backend>.json`. Other programs may run on the machine,
so each row has wall time and the CPU time of all threads. For each it has the
ratio round by round, and the ratio of the least times.
"""

import time

import keras
import numpy as np

import keras_lab
from benchmarks import harness, networks
from benchmarks.peers.shared import BATCH

OPTIONS = {"rounds": 11, "steps_per_round": 10, "width": None}
WEIGHTS = 10**8
QUICK = {"rounds": 2, "steps_per_round": 1, "width": 8}
METHODS = {
    "keras": ({}, keras.optimizers.Adam),
    "lab": ({"Dense": keras_lab.BinaryDense}, keras_lab.LABAdam),
}
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def cells(_):
    xla = (True, False)
    if keras.config.backend() != "tensorflow":
        xla = ("auto",)
    return [
        {"network": network, "jit_compile": jit_compile}
        for network in ("mlp", "large")
        for jit_compile in xla
    ]


def measure(cell, options, journal):
    keras_lab.config.keep_memory()
    journal.content["measure"] = (
        "Other programs ran on the machine. The CPU time and the least of all "
        "rounds are the most reliable."
    )
    steps = options.steps_per_round
    if cell["network"] == "mlp":
        layers = networks.describe("mnist", options.width)
    else:
        steps = max(1, steps // 10)
        width = options.width or round((WEIGHTS / 3) ** 0.5 / 4) * 4
        layers = [["Input", {"shape": [width]}]]
        layers += 3 * networks.dense_block(width) + networks.dense_block(10)[:1]
    runs = {
        method: stepper(layers, *parts, cell["jit_compile"], steps)
        for method, parts in METHODS.items()
    }
    spent = interleave(runs, options.rounds)
    row = {"steps": steps}
    for clock in CLOCKS:
        seconds = {method: spent[method][clock] for method in METHODS}
        least = min(seconds["lab"]) / min(seconds["keras"])
        ratio = harness.ratio(seconds, "lab", "keras")
        row[clock] = {"ratio": ratio, "least": least, "seconds": seconds}
    return [row]


def stepper(layers, binary, optimizer, jit_compile, steps):
    """Returns a function that trains a new model for some steps."""
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
