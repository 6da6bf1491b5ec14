"""What `BinaryMonitor` costs, as a share of an epoch.

    python -m benchmarks.monitor

The network is the paper's MNIST MLP 784-2048-2048-2048-10 at batch 100: 500
steps an epoch. A round times some steps of training, and one measurement with
the CSV written. The cost is a measurement's time over that of 500 steps.
"""

import argparse
import os
import statistics
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import keras_lab
from benchmarks import harness
from benchmarks.train_step import mlp

BATCH, STEPS_AN_EPOCH = 100, 500


def candidates(steps, folder):
    """Training without a monitor, and what the monitor does at an epoch."""
    keras.utils.set_random_seed(1)
    model = mlp("lab")
    model.compile(keras_lab.LABAdam(0.01), "squared_hinge", jit_compile=True)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(steps * BATCH, 784)).astype("float32")
    y = np.where(rng.integers(0, 10, (len(x), 1)) == np.arange(10), 1.0, -1.0)
    monitor = keras_lab.callbacks.BinaryMonitor(f"{folder}/monitor.csv")

    def train():
        model.fit(x, y, batch_size=BATCH, verbose=0)

    def measure():
        monitor.on_epoch_begin(len(monitor.history))
        monitor.on_epoch_end(len(monitor.history), {})

    train()
    monitor.set_model(model)
    monitor.on_train_begin()
    return {"train": train, "measure": measure}


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add, at_least = parser.add_argument, harness.at_least
    add("--rounds", type=at_least(2), default=7)
    add("--steps", type=at_least(1), default=30, help="training steps a round")
    add("--output", default=str(harness.RESULTS / "monitor.json"))
    return parser.parse_args(argv)


def run(arguments):
    """Measures, and writes the file."""
    harness.check_output(arguments.output)
    with tempfile.TemporaryDirectory() as folder:
        runs = candidates(arguments.steps, folder)
        seconds = harness.interleave(runs, arguments.rounds)
    epoch = [s / arguments.steps * STEPS_AN_EPOCH for s in seconds["train"]]
    shares = [m / e for m, e in zip(seconds["measure"], epoch)]
    low, median, high = statistics.quantiles(shares, n=4)
    print(
        f"A measurement takes {statistics.median(seconds['measure']):.3f} s, "
        f"{median:.2%} of an epoch of {statistics.median(epoch):.1f} s "
        f"(quartiles {low:.2%} to {high:.2%})."
    )
    harness.write_json(
        arguments.output,
        {
            "benchmark": "monitor",
            "configuration": {
                "rounds": arguments.rounds,
                "steps_a_round": arguments.steps,
                "steps_an_epoch": STEPS_AN_EPOCH,
            },
            "environment": harness.environment(),
            "share_of_an_epoch": {"median": median, "quartiles": [low, high]},
            "seconds": seconds,
        },
    )
    print(f"wrote {arguments.output}")


def main(argv=None) -> int:
    return harness.report_errors(lambda: run(parse(argv)))


if __name__ == "__main__":
    sys.exit(main())
