"""The test error at one bit per weight, with the same budget for each method.

    python -m benchmarks.peers_accuracy

The paper's MNIST network with 512 units per layer, ten epochs, three seeds, the
same examples in the same order. The paper's 2048 units take several hours
instead of one: `--width 2048`. The learning rate is the paper's, divided by ten
after epochs 5 and 8. The error is the one after the last epoch.
"""

import sys
import tempfile
import time

import numpy as np

from benchmarks import harness, networks
from benchmarks.peers import environments

METHODS = {
    "lab": "keras_lab",
    "bwn": "keras_lab",
    "binary_connect": "keras_lab",
    "lab2": "keras_lab",
    "larq_weights": "larq",
    "larq": "larq",
    "clusters": "tfmot",
    "keras": "keras_lab",
}
BATCH = 100
# Half as large if inputs are binary, as in the paper.
RATE, BINARY_INPUTS = 0.01, ("lab2",)
DECAY_AFTER = (5, 8)


def learning_rates(method, epochs):
    """Returns the learning rate of each epoch."""
    rate = RATE / 2 if method in BINARY_INPUTS else RATE
    decays = [
        sum(n > last for last in DECAY_AFTER) for n in range(1, epochs + 1)
    ]
    return [rate * 0.1**times for times in decays]


def write_data(path, images):
    """Writes the data set as a file that every environment can read."""
    from examples.paper.data import mnist

    data, arrays = mnist(), {}
    for name in ("train", "validation", "test"):
        part = getattr(data, name)
        arrays |= {f"{name}_x": part.x[:images], f"{name}_y": part.y[:images]}
    np.savez(path, **arrays)


def cells(arguments):
    return [
        {"method": method, "seed": seed, "peer": peer}
        for seed in arguments.seeds
        for method, peer in METHODS.items()
    ]


def measure(cell, arguments, journal):
    """Returns the rows of one training run.

    With the float network come rows of what is made of it without training.
    """
    method, seed, began = cell["method"], cell["seed"], time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        environments.start(cell["peer"]) as worker,
    ):
        journal.content["versions"][cell["peer"]] = worker.versions
        data = f"{folder}/mnist.npz"
        write_data(data, arguments.images)
        histories = worker.call(
            "train",
            method=method,
            network=networks.describe("mnist", arguments.width),
            data=data,
            seed=seed,
            rates=learning_rates(method, arguments.epochs),
            batch=BATCH,
        )
    seconds = round(time.monotonic() - began)
    return [
        {
            "method": name,
            "test_error": history[-1]["test_error"],
            "history": history,
            "seconds": seconds,
        }
        for name, history in histories.items()
    ]


OPTIONS = {"epochs": 10, "seeds": [1, 2, 3], "width": 512, "images": None}
BENCHMARK = harness.Benchmark(
    "peers_accuracy", __doc__, OPTIONS, cells, measure
)


if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
