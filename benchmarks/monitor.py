"""The time that `BinaryMonitor` takes, as a share of an epoch.

The network is the paper's MNIST network at batch 100: 500 steps per epoch. A
round times some training steps, and one measurement with the CSV file written.
The share is the time of a measurement over the time of 500 steps.
"""

import itertools
import tempfile

import keras

import keras_lab
from benchmarks import harness, networks
from benchmarks.peers import keras_lab as ours
from benchmarks.peers import shared

OPTIONS = {"rounds": 7, "steps_per_round": 30, "width": None}
QUICK = {"rounds": 2, "steps_per_round": 1, "width": 8}
STEPS_PER_EPOCH = 500


def measure(_, options, journal):
    keras_lab.config.keep_memory()
    layers = networks.describe("mnist", options.width)
    model, optimizer = ours.make(layers, "lab")
    train = shared.stepper(model, optimizer, True, options.steps_per_round)
    train()  # Builds what the monitor looks at.
    with tempfile.TemporaryDirectory() as folder:
        monitor = keras_lab.callbacks.BinaryMonitor(f"{folder}/monitor.csv")
        # As `fit` calls it.
        callbacks = keras.callbacks.CallbackList([monitor], model=model)
        callbacks.on_train_begin()
        epochs = itertools.count()

        def monitor_epoch():
            epoch = next(epochs)
            callbacks.on_epoch_begin(epoch)
            callbacks.on_epoch_end(epoch, {})

        runs = {"train": train, "measure": monitor_epoch}
        seconds = harness.interleave(runs, options.rounds)
    rounds_per_epoch = STEPS_PER_EPOCH / options.steps_per_round
    shares = [
        measure / (train * rounds_per_epoch)
        for measure, train in zip(seconds["measure"], seconds["train"])
    ]
    journal.content["share_of_an_epoch"] = harness.spread(shares)
    return [{"seconds": seconds}]
