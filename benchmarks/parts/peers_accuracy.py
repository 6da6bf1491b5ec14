"""The test error at one bit per weight, with the same budget for each method.

The paper's MNIST network with 512 units per layer, ten epochs, three seeds, the
same examples in the same order. The paper's 2048 units would take several hours
instead of one. The learning rate is the paper's, divided by ten after epochs 5
and 8. The error is the one after the last epoch.
"""

import statistics
import tempfile
import time

import numpy as np

from benchmarks import networks
from benchmarks.peers import environments
from benchmarks.tables import TITLES, cell_text, find, methods
from examples.pages import markdown_table, mean_and_spread

OPTIONS = {"epochs": 10, "seeds": [1, 2, 3], "width": 512, "images": None}
QUICK = {"epochs": 1, "seeds": [1, 2], "width": 32, "images": 1000}
METHODS = {
    "keras_lab": ("lab", "bwn", "binary_connect", "lab2", "keras"),
    "larq": ("larq_weights", "larq"),
    "tfmot": ("clusters",),
}
BATCH = 100
# Of methods that have more than one.
BITS = {"keras": 32, "int8": 8}


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


def errors(rows, method):
    """The test errors, one per seed, and their mean with the deviation."""
    found = [row for row in rows if row["method"] == method]
    values = [row["test_error"] for row in found if "cannot" not in row]
    if not values:
        return [], cell_text(find(rows, method=method), str)
    return values, f"{mean_and_spread(values, 2)}%"


def table(content):
    lines = []
    for method in methods(content):
        values, mean = errors(content["rows"], method)
        bits = BITS.get(method, 1)
        each = ", ".join(f"{value:.2f}" for value in values)
        order = bits, statistics.fmean(values or [100])
        lines.append((order, [TITLES[method], str(bits), mean, each]))
    heads = ("method", "bits per weight", "test error", "each seed")
    return markdown_table(heads, [texts for _, texts in sorted(lines)])
