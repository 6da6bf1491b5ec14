"""What a training step costs, as a ratio to the same network in plain Keras.

    python -m benchmarks.train_step

Two networks of the paper: the MNIST MLP 784-2048-2048-2048-10 at batch 100, and
the SVHN convolution network with K=32 at batch 50, both with batch norm. Each
with the system's memory allocator and with TensorFlow's own
(TF_CPU_ALLOCATOR_USE_BFC=1), for the binary and for the float network alike.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras

import keras_lab
from benchmarks import harness, networks, stepping, tables
from examples.paper.schemes import SCHEMES

# Either glibc's malloc, which gives blocks of more than 32 MB back to the
# system after each step, or TensorFlow's own, which keeps them.
ALLOCATORS = {"system": "0", "bfc": "1"}


NETWORKS = {"mlp": "mnist", "conv": "svhn32"}


def kit(scheme):
    """The layers of a scheme: of Keras, or of keras_lab."""
    if scheme == "keras":
        return networks.Kit(keras)
    quantizers = SCHEMES[scheme]
    sign = quantizers.input_quantizer
    return networks.Kit(
        keras,
        {
            "Dense": keras_lab.BinaryDense,
            "Conv2D": keras_lab.BinaryConv2D,
            "LSTM": keras_lab.BinaryLSTM,
        },
        kernel={"kernel_quantizer": quantizers.kernel_quantizer},
        inputs={"input_quantizer": sign} if sign else {},
    )


def mlp(scheme):
    """The paper's MNIST network."""
    return networks.build(networks.describe("mnist"), kit(scheme))


def make(network, scheme, seed=1):
    """A model and an optimizer, not compiled.

    Args:
        network: A list of layers.
        scheme: `"keras"`, or a key of `SCHEMES`.
        seed: Of the weights.
    """
    keras.utils.set_random_seed(seed)
    model = networks.build(network, kit(scheme))
    adam = keras.optimizers.Adam if scheme == "keras" else keras_lab.LABAdam
    return model, adam(0.001)


def stepper(network, scheme, jit_compile, steps):
    """A function that takes some training steps of a fresh model."""
    model, optimizer = make(network, scheme)
    run = stepping.stepper(model, optimizer, jit_compile, steps)
    run.bytes = sum(v.numpy().nbytes for v in optimizer.variables)
    return run


def measure(arguments):
    """The rows of one process, which has one memory allocator."""
    rows = []
    for network in arguments.networks:
        for jit_compile in (True, False):
            print(
                f"{network}, jit_compile={jit_compile}, "
                f"{arguments.allocator} allocator",
                flush=True,
            )
            layers = networks.describe(NETWORKS[network])
            runs = {
                scheme: stepper(layers, scheme, jit_compile, arguments.steps)
                for scheme in ["keras", *arguments.schemes]
            }
            seconds = harness.interleave(runs, arguments.rounds)
            for scheme in arguments.schemes:
                rows.append(
                    {
                        "network": network,
                        "jit_compile": jit_compile,
                        "allocator": arguments.allocator,
                        "scheme": scheme,
                        "ratio": harness.ratio(seconds, scheme, "keras"),
                        "optimizer_memory_ratio": runs[scheme].bytes
                        / runs["keras"].bytes,
                        "seconds": {k: seconds[k] for k in ("keras", scheme)},
                    }
                )
            keras.backend.clear_session()
    return rows


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--rounds", type=harness.at_least(2), default=21)
    add("--steps", type=harness.at_least(1), default=4, help="steps a round")
    add("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    add("--schemes", nargs="+", choices=SCHEMES, default=["lab"])
    add("--allocator", choices=[*ALLOCATORS, "both"], default="both")
    add("--output", default=str(harness.RESULTS / "train_step.json"))
    return parser.parse_args(argv)


def run(argv):
    """Measures with each allocator, and writes the file."""
    arguments = parse(argv)
    harness.check_output(arguments.output)
    if arguments.allocator == "both":
        # TensorFlow chooses its allocator once a process.
        rows = []
        for name, value in ALLOCATORS.items():
            with tempfile.TemporaryDirectory() as folder:
                output = os.path.join(folder, "rows.json")
                options = [*argv, "--allocator", name]
                options += ["--output", output]
                subprocess.run(
                    [sys.executable, "-m", "benchmarks.train_step", *options],
                    env={**os.environ, "TF_CPU_ALLOCATOR_USE_BFC": value},
                    check=True,
                )
                with open(output) as file:
                    rows += json.load(file)["rows"]
    else:
        rows = measure(arguments)
    print("\n" + tables.train_step(rows))
    harness.write_json(
        arguments.output,
        {
            "benchmark": "train_step",
            "configuration": {
                "rounds": arguments.rounds,
                "steps_a_round": arguments.steps,
            },
            "environment": harness.environment(),
            "rows": rows,
        },
    )
    print(f"\nwrote {arguments.output}")


def main(argv=None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    return harness.report_errors(
        lambda: run(argv), subprocess.CalledProcessError
    )


if __name__ == "__main__":
    sys.exit(main())
