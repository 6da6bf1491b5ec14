"""The test error at one bit a weight, at the same budget for each method.

    python -m benchmarks.peers.accuracy

The paper's MNIST network with 512 units a layer, ten epochs, three seeds, the
same examples in the same order. The paper's 2048 units take several hours
instead of one: `--width 2048`. The learning rate is the paper's, ten times
smaller after epochs 5 and 8. The test error is that after the last epoch: no
epoch is chosen. Each method and seed is kept as it finishes; the same command
goes on from there.
"""

import argparse
import dataclasses
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import harness, networks
from benchmarks.journal import Journal
from benchmarks.peers import environments
from benchmarks.workers import Cannot

# Who trains what, and what comes of it without further training.
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
ALSO = {"keras": ("int8", "sign", "sign_calibrated")}
DECAY_AFTER = (5, 8)


def recipe():
    """The paper's MNIST recipe, its schedule drawn together."""
    from examples.paper.recipes import MNIST, Decay

    return dataclasses.replace(MNIST, decay=Decay(0.1, after=DECAY_AFTER))


def learning_rates(method, epochs):
    """The rate of each epoch; for binary activations half, as in the paper."""
    from examples.paper.schemes import SCHEMES

    scheme = SCHEMES.get(method, SCHEMES["full_precision"])
    mnist = recipe()
    return [mnist.learning_rate(scheme, n) for n in range(1, epochs + 1)]


def write_data(path, data, images):
    """The data set as a file that every environment can read."""
    import numpy as np

    arrays = {}
    for name in ("train", "validation", "test"):
        part = getattr(data, name)
        arrays[f"{name}_x"] = part.x[:images]
        arrays[f"{name}_y"] = part.y[:images]
    np.savez(path, **arrays)


def train(method, seed, data, arguments):
    """The rows of one run."""
    peer = METHODS[method]
    began = time.monotonic()
    with environments.start(peer, arguments.environments) as worker:
        histories = worker.call(
            "train",
            method=method,
            network=networks.describe("mnist", width=arguments.width),
            data=str(data),
            seed=seed,
            rates=learning_rates(method, arguments.epochs),
            batch=recipe().batch,
        )
        versions = worker.versions
    seconds = round(time.monotonic() - began)
    return versions, [
        {
            "method": name,
            "seed": seed,
            "peer": peer,
            "test_error": history[-1]["test_error"],
            "history": history,
            "seconds": seconds,
        }
        for name, history in histories.items()
    ]


def run(arguments):
    """Runs what the file does not have yet, seed by seed."""
    journal = Journal(
        arguments.output,
        "peers_accuracy",
        {
            "epochs": arguments.epochs,
            "seeds": arguments.seeds,
            "images": arguments.images,
            "width": arguments.width,
            "decay_after": DECAY_AFTER,
        },
        keys=("method", "seed"),
    )
    wanted = [
        (method, seed)
        for seed in arguments.seeds
        for method in METHODS
        if journal.misses(method=method, seed=seed)
    ]
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "mnist.npz"
        if wanted:
            loaded = recipe().load(arguments.data_dir)
            write_data(data, loaded, arguments.images)
        for number, (method, seed) in enumerate(wanted, start=1):
            print(f"run {number} of {len(wanted)}: {method}, seed {seed}")
            _run_one(journal, method, seed, data, arguments)
    journal.finish()


def _run_one(journal, method, seed, data, arguments):
    try:
        versions, rows = train(method, seed, data, arguments)
    except Cannot as error:
        print(f"  {error.words}: {error.detail}", flush=True)
        journal.add(
            *(
                {
                    "method": name,
                    "seed": seed,
                    "peer": METHODS[method],
                    **error.to_json(),
                }
                for name in (method, *ALSO.get(method, ()))
            )
        )
        return
    journal.add_versions(METHODS[method], versions)
    journal.add(*rows)
    for row in rows:
        print(f"  {row['method']}: {row['test_error']:.2f}%", flush=True)


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    positive = harness.at_least(1)
    add("--epochs", type=positive, default=10)
    add("--seeds", type=int, nargs="+", default=[1, 2, 3])
    add("--width", type=positive, default=512, help="units; default: 512")
    add("--images", type=positive, help="of each part; default: all")
    add("--data-dir", metavar="DIR", help="as in examples/paper/run.py")
    add("--output", default=str(harness.RESULTS / "peers_accuracy.json"))
    environments.add_option(parser)
    return parser.parse_args(argv)


def main(argv=None) -> int:
    return harness.report_errors(lambda: run(parse(argv)))


if __name__ == "__main__":
    sys.exit(main())
