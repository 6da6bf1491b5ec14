"""The time that `BinaryMonitor` takes, as a share of an epoch.

    python -m benchmarks.monitor

The network is the paper's MNIST network at batch 100: 500 steps per epoch. A
round times some training steps, and one measurement with the CSV file written.
The share is the time of a measurement over the time of 500 steps.
"""

import itertools
import sys
import tempfile

import keras
import numpy as np

import keras_lab
from benchmarks import harness, networks
from benchmarks.peers import ours

BATCH, STEPS_PER_EPOCH = 100, 500


def candidates(arguments, folder):
    """Returns training without a monitor, and what a monitor does per epoch."""
    layers = networks.describe("mnist", arguments.width)
    model, optimizer = ours.make(layers, "lab")
    model.compile(optimizer, "squared_hinge", jit_compile=True)
    rng = np.random.default_rng(networks.SEED)
    x = rng.normal(size=(arguments.steps * BATCH, 784)).astype("float32")
    y = np.where(rng.integers(0, 10, (len(x), 1)) == np.arange(10), 1.0, -1.0)
    monitor = keras_lab.callbacks.BinaryMonitor(f"{folder}/monitor.csv")
    # As `fit` calls it.
    callbacks = keras.callbacks.CallbackList([monitor], model=model)

    def train():
        model.fit(x, y, batch_size=BATCH, verbose=0)

    epochs = itertools.count()

    def measure():
        epoch = next(epochs)
        callbacks.on_epoch_begin(epoch)
        callbacks.on_epoch_end(epoch, {})

    train()
    callbacks.on_train_begin()
    return {"train": train, "measure": measure}


def run(arguments):
    """Measures, and writes the file."""
    keras_lab.config.keep_memory()
    configuration = {
        "rounds": arguments.rounds,
        "steps_per_round": arguments.steps,
        "steps_per_epoch": STEPS_PER_EPOCH,
        "width": arguments.width,
        "seed": networks.SEED,
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        harness.Journal(arguments.output, "monitor", configuration) as journal,
    ):
        runs = candidates(arguments, folder)
        seconds = harness.interleave(runs, arguments.rounds)
        epochs = STEPS_PER_EPOCH / arguments.steps
        share = [
            measure / (train * epochs)
            for measure, train in zip(seconds["measure"], seconds["train"])
        ]
        journal.content["share_of_an_epoch"] = harness.spread(share)
        journal.content["seconds"] = seconds


def parse(argv=None):
    parser = harness.parser(__doc__, "monitor")
    add, positive = parser.add_argument, harness.at_least(1)
    add("--rounds", type=harness.at_least(2), default=7)
    add("--steps", type=positive, default=30, help="training steps per round")
    add("--width", type=positive, help="default: the paper's")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(harness.main(lambda: run(parse())))
