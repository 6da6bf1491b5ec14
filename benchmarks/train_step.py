"""The time of a training step, relative to the same network in plain Keras.

*mlp* is the paper's MNIST network at batch 100, *conv* its SVHN network with
K = 32 at batch 50, each with and without XLA, and with both memory allocators.
`peers_train_step.py` measures the methods of all libraries in the same way.
"""

import contextlib
import functools

from benchmarks import harness, networks
from benchmarks.peers import environments
from benchmarks.worker import Cannot

OPTIONS = {"rounds": 21, "steps_per_round": 4, "width": None}
QUICK = {"rounds": 2, "steps_per_round": 1, "width": 8}
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


def measure(cell, options, journal, methods=METHODS):
    """Returns a row for each peer and method, failed ones included.

    Each library runs in its own process, and all methods take turns.
    """
    layers = networks.describe(NETWORKS[cell["network"]], options.width)
    task = {
        "network": layers,
        "jit_compile": cell["jit_compile"],
        "count": options.steps_per_round,
    }
    candidates, rows = {}, {}
    with contextlib.ExitStack() as stack:
        for peer, names in methods.items():
            try:
                worker = environments.start(peer, cell["allocator"])
            except Cannot as error:
                rows |= {(peer, name): error.to_json() for name in names}
                continue
            stack.enter_context(worker)
            journal.content["versions"][peer] = worker.versions
            for name in names:
                try:
                    size = worker.call("prepare", method=name, **task)
                except Cannot as error:
                    rows[peer, name] = error.to_json()
                    continue
                rows[peer, name] = {"optimizer_bytes": size}
                step = functools.partial(worker.call, "step", method=name)
                candidates[peer, name] = step
        if BASELINE not in candidates:
            raise Cannot("no Keras step", rows[BASELINE]["detail"])
        drop_slow(candidates, rows)
        seconds = harness.interleave(candidates, options.rounds)
    for key in candidates:
        rows[key]["ratio"] = harness.ratio(seconds, key, BASELINE)
        rows[key]["seconds"] = seconds[key]
    return [{"peer": p, "method": m, **row} for (p, m), row in rows.items()]


def drop_slow(candidates, rows):
    """Drops the candidates that are much too slow, and notes why."""
    seconds = harness.interleave(candidates, rounds=1)
    for key in list(candidates):
        ratio = seconds[key][0] / seconds[BASELINE][0]
        if ratio > MOST_RATIO:
            del candidates[key]
            words = f"over {MOST_RATIO} times"
            rows[key] = Cannot(words, f"{ratio:.0f} in one round").to_json()
