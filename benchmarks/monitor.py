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

import keras_lab
from benchmarks import harness, networks
from benchmarks.peers import keras_lab as ours
from benchmarks.peers import shared

STEPS_PER_EPOCH = 500


def candidates(arguments, folder):
    """Returns training without a monitor, and what a monitor does per epoch."""
    layers = networks.describe("mnist", arguments.width)
    model, optimizer = ours.make(layers, "lab")
    train = shared.stepper(model, optimizer, True, arguments.steps_per_round)
    monitor = keras_lab.callbacks.BinaryMonitor(f"{folder}/monitor.csv")
    # As `fit` calls it.
    callbacks = keras.callbacks.CallbackList([monitor], model=model)
    epochs = itertools.count()

    def measure():
        epoch = next(epochs)
        callbacks.on_epoch_begin(epoch)
        callbacks.on_epoch_end(epoch, {})

    train()
    callbacks.on_train_begin()
    return {"train": train, "measure": measure}


def measure(_, arguments, journal):
    keras_lab.config.keep_memory()
    with tempfile.TemporaryDirectory() as folder:
        runs = candidates(arguments, folder)
        seconds = harness.interleave(runs, arguments.rounds)
    rounds_per_epoch = STEPS_PER_EPOCH / arguments.steps_per_round
    shares = [
        measure / (train * rounds_per_epoch)
        for measure, train in zip(seconds["measure"], seconds["train"])
    ]
    journal.content["share_of_an_epoch"] = harness.spread(shares)
    return [{"seconds": seconds}]


OPTIONS = {"rounds": 7, "steps_per_round": 30, "width": None}
BENCHMARK = harness.Benchmark(
    "monitor", __doc__, OPTIONS, lambda _: [{}], measure
)


if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
