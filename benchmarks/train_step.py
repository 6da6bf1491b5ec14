"""The time of a training step, relative to the same network in plain Keras.

    python -m benchmarks.train_step

*mlp* is the paper's MNIST network at batch 100, *conv* its SVHN network with
K = 32 at batch 50, each with and without XLA, and with both memory allocators.
`peers_train_step.py` measures the methods of all libraries in the same way.
"""

import contextlib
import sys

from benchmarks import harness, networks
from benchmarks.peers import environments
from benchmarks.worker import Cannot

METHODS = {"keras_lab": ("keras", "lab")}
NETWORKS = {"mlp": "mnist", "conv": "svhn32"}
BASELINE = ("keras_lab", "keras")
# Slower methods than this are not measured in all rounds.
MOST_RATIO = 20


def cells(_, allocators=("system", "bfc")):
    return [
        {"network": network, "jit_compile": xla, "allocator": allocator}
        for allocator in allocators
        for network in NETWORKS
        for xla in (True, False)
    ]


def measure(cell, arguments, journal, methods=METHODS):
    """Returns a row for each peer and method, failed ones included.

    Each library runs in its own process, and all methods take turns.
    """
    layers = networks.describe(NETWORKS[cell["network"]], arguments.width)
    task = {
        "network": layers,
        "jit_compile": cell["jit_compile"],
        "count": arguments.steps_per_round,
    }
    candidates, rows = {}, {}
    with contextlib.ExitStack() as stack:
        for peer in methods:
            worker = error = None
            try:
                worker = environments.start(peer, cell["allocator"])
                stack.enter_context(worker)
                journal.content["versions"][peer] = worker.versions
            except Cannot as caught:
                error = caught
            for method in methods[peer]:
                try:
                    if error:
                        raise error
                    size = worker.call("prepare", method=method, **task)
                    rows[peer, method] = {"optimizer_bytes": size}
                    candidates[peer, method] = stepper(worker, method)
                except Cannot as caught:
                    rows[peer, method] = caught.to_json()
        if BASELINE not in candidates:
            raise Cannot("no Keras step", rows[BASELINE]["detail"])
        drop_slow(candidates, rows)
        seconds = harness.interleave(candidates, arguments.rounds)
    for key in candidates:
        rows[key]["ratio"] = harness.ratio(seconds, key, BASELINE)
        rows[key]["seconds"] = seconds[key]
    return [{"peer": p, "method": m, **row} for (p, m), row in rows.items()]


def stepper(worker, method):
    return lambda: worker.call("step", method=method)


def drop_slow(candidates, rows):
    """Drops the candidates that are much too slow, and notes why."""
    seconds = harness.interleave(candidates, rounds=1)
    for key in list(candidates):
        ratio = seconds[key][0] / seconds[BASELINE][0]
        if ratio > MOST_RATIO:
            del candidates[key]
            words = f"over {MOST_RATIO} times"
            rows[key] = Cannot(words, f"{ratio:.0f} in one round").to_json()


OPTIONS = {"rounds": 21, "steps_per_round": 4, "width": None}
BENCHMARK = harness.Benchmark("train_step", __doc__, OPTIONS, cells, measure)


if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
