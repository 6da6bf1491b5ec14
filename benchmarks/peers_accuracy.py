"""The test error at one bit per weight, with the same budget for each method.

The paper's MNIST network with 512 units per layer, ten epochs, three seeds, the
same examples in the same order. The paper's 2048 units would take several hours
instead of one. The learning rate is the paper's, divided by ten after epochs 5
and 8. The error is the one after the last epoch.
"""

import tempfile
import time

import numpy as np

from benchmarks import networks
from benchmarks.peers import environments

OPTIONS = {"epochs": 10, "seeds": [1, 2, 3], "width": 512, "images": None}
QUICK = {"epochs": 1, "seeds": [1, 2], "width": 32, "images": 1000}
METHODS = {
    "keras_lab": ("lab", "bwn", "binary_connect", "lab2", "keras"),
    "larq": ("larq_weights", "larq"),
    "tfmot": ("clusters",),
}
BATCH = 100


def learning_rates(method, epochs):
    """Returns the learning rate of each epoch, as in the paper."""
    rate = 0.005 if method == "lab2" else 0.01  # With binary inputs half of it.
    return [
        rate * 0.1 ** sum(epoch > last for last in (5, 8))
        for epoch in range(1, epochs + 1)
    ]


def write_data(path, images):
    """Writes the data set as a file that every environment can read."""
    from examples.paper.data import mnist

    data, arrays = mnist(), {}
    for name in ("train", "validation", "test"):
        part = getattr(data, name)
        arrays |= {f"{name}_x": part.x[:images], f"{name}_y": part.y[:images]}
    np.savez(path, **arrays)


def cells(options):
    return [
        {"method": method, "seed": seed, "peer": peer}
        for seed in options.seeds
        for peer, methods in METHODS.items()
        for method in methods
    ]


def measure(cell, options, content):
    """Returns the row of a method; of floats also what they can become."""
    method, seed, began = cell["method"], cell["seed"], time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        environments.start(cell["peer"], content["versions"]) as worker,
    ):
        data = f"{folder}/mnist.npz"
        write_data(data, options.images)
        histories = worker.call(
            "train",
            method=method,
            network=networks.describe("mnist", options.width),
            data=data,
            seed=seed,
            rates=learning_rates(method, options.epochs),
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
