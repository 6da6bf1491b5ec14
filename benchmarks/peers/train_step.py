"""What a training step costs with each library, as a ratio to Keras float.

    python -m benchmarks.peers.train_step

The paper's MNIST network at batch 100, and its SVHN network with K=32 at batch
50. Each library runs in a process of its own; all take turns, round by round.
TensorFlow keeps its memory in all of them, as importing keras_lab has it do.
"""

import argparse
import contextlib
import sys

from benchmarks import harness, networks
from benchmarks.journal import Journal
from benchmarks.peers import environments
from benchmarks.workers import Cannot

# The methods of each library, the float network first.
METHODS = {
    "keras_lab": ("keras", "lab", "bwn", "binary_connect", "lab2"),
    "larq": ("tf_keras", "larq_weights", "larq"),
    "tfmot": ("qat", "clusters"),
}
NETWORKS = {"mlp": "mnist", "conv": "svhn32"}
BASELINE = ("keras_lab", "keras")
# What takes more than this many times as long is not measured any closer.
MOST_RATIO = 20


def start_all(folder, journal, stack):
    """The workers by peer; a `Cannot` where there is none."""
    workers = {}
    for peer in METHODS:
        try:
            workers[peer] = stack.enter_context(
                environments.start(peer, folder)
            )
            journal.add_versions(peer, workers[peer].versions)
        except Cannot as error:
            print(f"{peer}: {error.words}. {error.detail}", flush=True)
            workers[peer] = error
    return workers


def prepare(workers, network, jit_compile, steps):
    """The candidates by peer and method, and those that there are not."""
    candidates, refused = {}, {}
    for peer, method in ((p, m) for p in METHODS for m in METHODS[p]):
        worker = workers[peer]
        try:
            if isinstance(worker, Cannot):
                raise worker
            worker.call(
                "prepare",
                method=method,
                network=network,
                jit_compile=jit_compile,
                steps=steps,
            )
        except Cannot as error:
            refused[peer, method] = error
        else:
            candidates[peer, method] = _stepper(worker, method)
    return candidates, refused


def _stepper(worker, method):
    return lambda: worker.call("step", method=method)


def drop_slow(candidates, refused):
    """Moves what is far too slow from the candidates to the others."""
    seconds = harness.interleave(candidates, rounds=1)
    for key in list(candidates):
        ratio = seconds[key][0] / seconds[BASELINE][0]
        if ratio > MOST_RATIO:
            del candidates[key]
            words = f"over {MOST_RATIO} times"
            refused[key] = Cannot(words, f"{ratio:.0f} times in one round")


def measure(workers, network, layers, jit_compile, arguments):
    """A row for each method, those that cannot do it among them."""
    cell = {"network": network, "jit_compile": jit_compile}
    candidates, refused = prepare(workers, layers, jit_compile, arguments.steps)
    drop_slow(candidates, refused)
    seconds = harness.interleave(candidates, arguments.rounds)
    rows = [
        {
            **cell,
            "peer": peer,
            "method": method,
            "ratio": harness.ratio(seconds, (peer, method), BASELINE),
            "seconds": seconds[peer, method],
        }
        for peer, method in candidates
    ]
    rows += [
        {**cell, "peer": peer, "method": method, **error.to_json()}
        for (peer, method), error in refused.items()
    ]
    for worker in workers.values():
        if not isinstance(worker, Cannot):
            worker.call("forget")
    return rows


def run(arguments):
    """Measures what the file does not have yet."""
    journal = Journal(
        arguments.output,
        "peers_train_step",
        {
            "rounds": arguments.rounds,
            "steps_a_round": arguments.steps,
            "sizes": arguments.sizes,
        },
        keys=("network", "jit_compile", "peer", "method"),
    )
    with contextlib.ExitStack() as stack:
        workers = start_all(arguments.environments, journal, stack)
        for network, name in NETWORKS.items():
            for jit_compile in (True, False):
                if not journal.misses(network=network, jit_compile=jit_compile):
                    continue
                print(f"{network}, jit_compile={jit_compile}", flush=True)
                layers = networks.describe(name, **arguments.sizes)
                journal.add(
                    *measure(workers, network, layers, jit_compile, arguments)
                )
    journal.finish()


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--rounds", type=harness.at_least(2), default=11)
    add("--steps", type=harness.at_least(1), default=4, help="steps a round")
    add(
        "--width",
        type=harness.at_least(1),
        help="of the networks; default: the paper's",
    )
    add("--output", default=str(harness.RESULTS / "peers_train_step.json"))
    environments.add_option(parser)
    arguments = parser.parse_args(argv)
    arguments.sizes = {"width": arguments.width} if arguments.width else {}
    return arguments


def main(argv=None) -> int:
    return harness.report_errors(lambda: run(parse(argv)))


if __name__ == "__main__":
    sys.exit(main())
