"""The test error at one bit per weight, with the same budget for each method.

    python -m benchmarks.accuracy

The paper's MNIST network with 512 units per layer, ten epochs, three seeds, the
same examples in the same order. The paper's 2048 units take several hours
instead of one: `--width 2048`. The learning rate is the paper's, divided by ten
after epochs 5 and 8. The error is that after the last epoch; no epoch is chosen.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import harness, networks
from benchmarks.peers import environments
from benchmarks.worker import Cannot

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
# What comes from the same training.
ALSO = {"keras": ("int8", "sign", "sign_calibrated")}
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


def write_data(path, arguments):
    """Writes the data set as a file that every environment can read."""
    from examples.paper.data import mnist

    data, arrays = mnist(arguments.data_dir), {}
    for name in ("train", "validation", "test"):
        part = getattr(data, name)
        arrays[f"{name}_x"] = part.x[: arguments.images]
        arrays[f"{name}_y"] = part.y[: arguments.images]
    np.savez(path, **arrays)


def train(method, seed, data, journal, arguments):
    """Returns the rows of one training run."""
    peer, began = METHODS[method], time.monotonic()
    with environments.start(peer) as worker:
        journal.content["versions"][peer] = worker.versions
        histories = worker.call(
            "train",
            method=method,
            network=networks.describe("mnist", arguments.width),
            data=str(data),
            seed=seed,
            rates=learning_rates(method, arguments.epochs),
            batch=BATCH,
        )
    seconds = round(time.monotonic() - began)
    return {
        name: {
            "test_error": history[-1]["test_error"],
            "history": history,
            "seconds": seconds,
        }
        for name, history in histories.items()
    }


def run(arguments):
    """Runs what is not in the file yet, seed by seed."""
    names = ("epochs", "seeds", "images", "width")
    configuration = {name: getattr(arguments, name) for name in names}
    configuration["decay_after"] = DECAY_AFTER
    keys = ("method", "seed")
    with (
        tempfile.TemporaryDirectory() as folder,
        harness.Journal(
            arguments.output, "peers_accuracy", configuration, keys
        ) as journal,
    ):
        data = Path(folder) / "mnist.npz"
        for seed, method in [(s, m) for s in arguments.seeds for m in METHODS]:
            if not journal.misses(method=method, seed=seed):
                continue
            if not data.exists():
                write_data(data, arguments)
            print(f"{method}, seed {seed}", flush=True)
            try:
                rows = train(method, seed, data, journal, arguments)
            except Cannot as error:
                print(f"  {error.words}. {error.detail}", flush=True)
                all_of_it = (method, *ALSO.get(method, ()))
                rows = dict.fromkeys(all_of_it, error.to_json())
            cell = {"seed": seed, "peer": METHODS[method]}
            journal.add(
                *({"method": n, **cell, **row} for n, row in rows.items())
            )


def parse(argv=None):
    parser = harness.parser(__doc__, "peers_accuracy")
    add, positive = parser.add_argument, harness.at_least(1)
    add("--epochs", type=positive, default=10)
    add("--seeds", type=int, nargs="+", default=[1, 2, 3])
    add("--width", type=positive, default=512, help="default: 512")
    add("--images", type=positive, help="of each part; default: all")
    add("--data-dir", metavar="DIR", help="the folder of the data sets")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(harness.main(lambda: run(parse())))
