"""The time of a training step, relative to the same network in plain Keras.

    python -m benchmarks.train_step            # LAB, with both allocators
    python -m benchmarks.train_step --peers    # all methods of all libraries

*mlp* is the paper's MNIST network at batch 100, *conv* its SVHN network with
K = 32 at batch 50, with and without XLA. Each library runs in its own process,
and all methods take turns, round by round. All sides have the same memory
allocator.
"""

import contextlib
import sys

from benchmarks import harness, networks
from benchmarks.peers import environments
from benchmarks.worker import Cannot

OURS = {"keras_lab": ("keras", "lab")}
PEERS = {
    "keras_lab": ("keras", "lab", "bwn", "binary_connect", "lab2"),
    "larq": ("tf_keras", "larq_weights", "larq"),
    "tfmot": ("qat", "clusters"),
}
NETWORKS = {"mlp": "mnist", "conv": "svhn32"}
BASELINE = ("keras_lab", "keras")
# Slower methods than this are not measured in all rounds.
MOST_RATIO = 20


def start_all(methods, allocator, journal, stack):
    """Returns the workers by peer, with a `Cannot` if there is none."""
    workers = {}
    for peer in methods:
        try:
            worker = stack.enter_context(environments.start(peer, allocator))
            journal.content["versions"][peer] = worker.versions
        except Cannot as error:
            print(f"{peer}: {error.words}. {error.detail}", flush=True)
            worker = error
        workers[peer] = worker
    return workers


def measure(workers, methods, network, jit_compile, arguments):
    """Returns a row for each peer and method, failed ones included."""
    candidates, rows = {}, {}
    for key in [(peer, m) for peer in methods for m in methods[peer]]:
        worker = workers[key[0]]
        try:
            if isinstance(worker, Cannot):
                raise worker
            size = worker.call(
                "prepare",
                method=key[1],
                network=network,
                jit_compile=jit_compile,
                count=arguments.steps,
            )
            rows[key] = {"optimizer_bytes": size}
            candidates[key] = stepper(worker, key[1])
        except Cannot as error:
            if key == BASELINE:
                raise
            rows[key] = error.to_json()
    drop_slow(candidates, rows)
    seconds = harness.interleave(candidates, arguments.rounds)
    size = rows[BASELINE]["optimizer_bytes"]
    for key in candidates:
        rows[key] = {
            "ratio": harness.ratio(seconds, key, BASELINE),
            "optimizer_memory_ratio": rows[key]["optimizer_bytes"] / size,
            "seconds": seconds[key],
        }
    for worker in workers.values():
        if not isinstance(worker, Cannot):
            worker.call("forget")
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


def run(arguments):
    """Measures the networks that are not in the file yet."""
    methods = PEERS if arguments.peers else OURS
    name = "peers_train_step" if arguments.peers else "train_step"
    configuration = {
        "rounds": arguments.rounds,
        "steps_per_round": arguments.steps,
        "width": arguments.width,
        "seed": networks.SEED,
    }
    cells = [(n, xla) for n in arguments.networks for xla in (True, False)]
    output = arguments.output or harness.RESULTS / f"{name}.json"
    keys = ("network", "jit_compile", "allocator", "peer", "method")
    with harness.Journal(output, name, configuration, keys) as journal:
        for allocator in ["bfc"] if arguments.peers else ["system", "bfc"]:
            with contextlib.ExitStack() as stack:
                # TensorFlow chooses its allocator once per process.
                workers = start_all(methods, allocator, journal, stack)
                for network, jit_compile in cells:
                    cell = {
                        "network": network,
                        "jit_compile": jit_compile,
                        "allocator": allocator,
                    }
                    if not journal.misses(**cell):
                        continue
                    print(cell, flush=True)
                    layers = networks.describe(
                        NETWORKS[network], arguments.width
                    )
                    rows = measure(
                        workers, methods, layers, jit_compile, arguments
                    )
                    journal.add(*({**cell, **row} for row in rows))


def parse(argv=None):
    parser = harness.parser(__doc__, "train_step")
    parser.set_defaults(output=None)
    add, positive = parser.add_argument, harness.at_least(1)
    add("--peers", action="store_true", help="also the other libraries")
    add("--rounds", type=harness.at_least(2), help="default: 21, peers: 11")
    add("--steps", type=positive, default=4, help="steps per round")
    add("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    add("--width", type=positive, help="default: the paper's")
    arguments = parser.parse_args(argv)
    arguments.rounds = arguments.rounds or (11 if arguments.peers else 21)
    return arguments


if __name__ == "__main__":
    sys.exit(harness.main(lambda: run(parse())))
