"""The time of a training step with each library, relative to plain Keras.

*mlp* is the paper's MNIST network at batch 100, *conv* its SVHN network with
K = 32 at batch 50, each with and without XLA. TensorFlow keeps its memory in
all processes, as `keras_lab.config.keep_memory()` makes it do.
"""

import contextlib
import functools

from benchmarks import harness, networks
from benchmarks.peers import environments
from benchmarks.tables import TITLES, by_xla, grid, methods
from benchmarks.worker import Cannot

OPTIONS = {"rounds": 9, "steps_per_round": 20, "width": None}
QUICK = {"rounds": 2, "steps_per_round": 1, "width": 8}
NETWORKS = {"mlp": "mnist", "conv": "svhn32"}
# The methods of each peer.
METHODS = {
    "keras_lab": ("keras", "lab", "bwn", "binary_connect", "lab2"),
    "larq": ("tf_keras", "larq_weights", "larq"),
    "tfmot": ("qat", "clusters"),
}
# Slower methods than this are not measured in all rounds.
MOST_RATIO = 20


def cells(_):
    return [
        {"network": network, "jit_compile": xla}
        for network in NETWORKS
        for xla in (True, False)
    ]


def measure(cell, options, content):
    """Returns a row for each method. All of them take turns."""
    task = {
        "network": networks.describe(NETWORKS[cell["network"]], options.width),
        "jit_compile": cell["jit_compile"],
        "count": options.steps_per_round,
    }
    candidates, rows = {}, {}
    with contextlib.ExitStack() as stack:
        for peer, methods in METHODS.items():
            worker = None
            for method in methods:
                row = rows[method] = {"peer": peer, "method": method}
                try:
                    worker = worker or stack.enter_context(
                        environments.start(peer, content["versions"])
                    )
                    size = worker.call("prepare", method=method, **task)
                except Cannot as error:
                    row |= error.to_json()
                    continue
                row["optimizer_bytes"] = size
                candidates[method] = functools.partial(
                    worker.call, "step", method=method
                )
        if "keras" not in candidates:
            raise Cannot("no Keras step", rows["keras"]["detail"])
        once = harness.interleave(candidates, rounds=1)
        for method in once:
            ratio = once[method][0] / once["keras"][0]
            if ratio > MOST_RATIO:
                words = f"over {MOST_RATIO} times"
                detail = f"{ratio:.0f} in one round"
                rows[method] |= Cannot(words, detail).to_json()
                del candidates[method]
        seconds = harness.interleave(candidates, options.rounds)
    for method, times in seconds.items():
        rows[method]["ratio"] = harness.ratio(seconds, method, "keras")
        rows[method]["seconds"] = times
    return list(rows.values())


def table(content):
    lines = {TITLES[method]: {"method": method} for method in methods(content)}
    columns = by_xla("network", {"mlp": "mlp", "conv": "conv"})
    return grid(content, "method", lines, columns)
