"""What a training step costs, as a ratio to the same network in plain Keras.

    python -m benchmarks.train_step

Two networks of the paper: the MNIST MLP 784-2048-2048-2048-10 at batch 100, and
the SVHN convolution network with K=32 at batch 50, both with batch norm.
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

import keras_lab
from benchmarks import harness

SCHEMES = {"lab": "lab", "bwn": "bwn", "binary_connect": "binary_connect"}
LIMITS = {"mlp": 1.10, "conv": 1.15}


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
    return lambda *a, **k: binary(*a, kernel_quantizer=SCHEMES[scheme], **k)


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
    optimizer = keras.optimizers.Adam if scheme == "keras" else None
    optimizer = (optimizer or keras_lab.LABAdam)(0.001)
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


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=4, help="steps a round")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS,
                        default=list(NETWORKS))
    parser.add_argument("--schemes", nargs="+", choices=SCHEMES,
                        default=["lab"])
    parser.add_argument("--output", default=harness.RESULTS / "train_step.json")
    arguments = parser.parse_args(argv)

    rows = []
    for network in arguments.networks:
        for jit_compile in (True, False):
            print(f"{network}, jit_compile={jit_compile}", flush=True)
            runs = {
                scheme: stepper(network, scheme, jit_compile, arguments.steps)
                for scheme in ["keras", *arguments.schemes]
            }
            seconds = harness.interleave(runs, arguments.rounds)
            for scheme in arguments.schemes:
                rows.append({
                    "network": network,
                    "jit_compile": jit_compile,
                    "scheme": scheme,
                    "ratio": harness.ratio(seconds, scheme, "keras"),
                    "optimizer_memory_ratio":
                        runs[scheme].bytes / runs["keras"].bytes,
                    "seconds": {k: seconds[k] for k in ("keras", scheme)},
                })
            keras.backend.clear_session()

    print("\n| network | jit | scheme | step / Keras float | quartiles "
          "| optimizer memory / Adam |\n|---|---|---|---|---|---|")
    for row in rows:
        low, high = row["ratio"]["quartiles"]
        print(f"| {row['network']} | {row['jit_compile']} | {row['scheme']} | "
              f"{row['ratio']['median']:.3f} | {low:.3f}–{high:.3f} | "
              f"{row['optimizer_memory_ratio']:.4f} |")
    harness.write_json(arguments.output, {
        "benchmark": "train_step",
        "configuration": {"rounds": arguments.rounds, "steps_a_round": arguments.steps},
        "environment": harness.environment(),
        "rows": rows,
    })
    print(f"\nwrote {arguments.output}")


if __name__ == "__main__":
    main()
