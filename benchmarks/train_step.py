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
import numpy as np
import tensorflow as tf

import keras_lab
from benchmarks import harness

SCHEMES = ("lab", "bwn", "binary_connect")
# Either glibc's malloc, which gives blocks of more than 32 MB back to the
# system after each step, or TensorFlow's own, which keeps them.
ALLOCATORS = {"system": "0", "bfc": "1"}


def mlp(scheme):
    dense = _layer(keras.layers.Dense, keras_lab.BinaryDense, scheme)
    model = keras.Sequential([keras.Input((784,))])
    for _ in range(3):
        _block(model, dense(2048, use_bias=False))
    _block(model, dense(10, use_bias=False), last=True)
    return model


def conv(scheme, width=32):
    dense = _layer(keras.layers.Dense, keras_lab.BinaryDense, scheme)
    conv2d = _layer(keras.layers.Conv2D, keras_lab.BinaryConv2D, scheme)
    model = keras.Sequential([keras.Input((32, 32, 3))])
    for filters in (width, 2 * width, 4 * width):
        _block(model, conv2d(filters, 3, padding="same", use_bias=False))
        model.add(conv2d(filters, 3, padding="same", use_bias=False))
        _block(model, keras.layers.MaxPooling2D())
    model.add(keras.layers.Flatten())
    for _ in range(2):
        _block(model, dense(1024, use_bias=False))
    _block(model, dense(10, use_bias=False), last=True)
    return model


def _layer(plain, binary, scheme):
    if scheme == "keras":
        return plain
    return lambda *a, **k: binary(*a, kernel_quantizer=scheme, **k)


def _block(model, layer, last=False):
    model.add(layer)
    model.add(keras.layers.BatchNormalization())
    if not last:
        model.add(keras.layers.ReLU())


NETWORKS = {"mlp": (mlp, 100), "conv": (conv, 50)}


def stepper(network, scheme, jit_compile, steps):
    """A function that takes some training steps of a fresh model."""
    make, batch = NETWORKS[network]
    keras.utils.set_random_seed(1)
    model = make(scheme)
    adam = keras.optimizers.Adam if scheme == "keras" else keras_lab.LABAdam
    optimizer = adam(0.001)
    model.compile(optimizer, "squared_hinge", jit_compile=jit_compile)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(batch, *model.input_shape[1:])).astype("float32")
    y = np.where(rng.integers(0, 10, (batch, 1)) == np.arange(10), 1.0, -1.0)
    data = iter(tf.data.Dataset.from_tensors((x, y)).repeat())
    optimizer.build(model.trainable_variables)
    model.make_train_function()
    step = model.train_function

    def run():
        for _ in range(steps):
            step(data)

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
            runs = {
                scheme: stepper(network, scheme, jit_compile, arguments.steps)
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


def table(rows):
    lines = [
        "| network | jit_compile | allocator | scheme | step / Keras float "
        "| quartiles | optimizer memory / Adam |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = row["ratio"]["quartiles"]
        lines.append(
            f"| {row['network']} | {row['jit_compile']} | {row['allocator']} "
            f"| {row['scheme']} | {row['ratio']['median']:.2f} "
            f"| {low:.2f}–{high:.2f} | {row['optimizer_memory_ratio']:.3f} |"
        )
    return "\n".join(lines)


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--rounds", type=int, default=25)
    add("--steps", type=int, default=4, help="steps a round")
    add("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    add("--schemes", nargs="+", choices=SCHEMES, default=["lab"])
    add("--allocator", choices=[*ALLOCATORS, "both"], default="both")
    add("--output", default=str(harness.RESULTS / "train_step.json"))
    arguments = parser.parse_args(argv)
    if arguments.rounds < 2 or arguments.steps < 1:
        parser.error(
            "--rounds must be at least 2 and --steps at least 1. Received: "
            f"--rounds {arguments.rounds} --steps {arguments.steps}"
        )
    return arguments


def main(argv=None):
    arguments = parse(argv)
    if arguments.allocator == "both":
        # TensorFlow chooses its allocator once a process.
        rows = []
        for name, value in ALLOCATORS.items():
            with tempfile.TemporaryDirectory() as folder:
                output = os.path.join(folder, "rows.json")
                options = [*(argv or sys.argv[1:]), "--allocator", name]
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
    print("\n" + table(rows))
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


if __name__ == "__main__":
    main()
