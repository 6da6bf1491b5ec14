"""A training is killed at random moments and resumed to the same weights.

It resumes from Keras' `BackupAndRestore`, or from a checkpoint of
`examples/paper`.
"""

import contextlib
import importlib
import math
import multiprocessing
import random
import resource
import tempfile
from pathlib import Path

import numpy as np
import psutil

FORK = multiprocessing.get_context("fork")
EPOCHS = 12


def train_with_backup(folder: Path):
    """Trains a network with a backup of each epoch; returns its weights."""
    import keras

    import keras_lab

    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((20, 8)),
            keras_lab.BinaryLSTM(16),
            keras_lab.BinaryDense(32, activation="relu"),
            keras.layers.BatchNormalization(),
            keras_lab.BinaryDense(4),
        ]
    )
    model.compile(keras_lab.LABAdam(0.01), "mse")
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(512, 20, 8)), rng.normal(size=(512, 4))
    backup = keras.callbacks.BackupAndRestore(
        folder / "backup", double_checkpoint=True
    )
    # Keras shuffles with a state that no backup holds.
    model.fit(x, y, 16, EPOCHS, shuffle=False, verbose=0, callbacks=[backup])
    variables = [*model.weights, *model.optimizer.variables]
    return [variable.numpy() for variable in variables]


def train_as_in_the_paper(folder: Path):
    """A run of `examples/paper` on made-up data."""
    from examples.paper.results import Finished
    from tests.examples.paper.test_train import checkpoint_arrays, tiny_run

    with contextlib.suppress(Finished):  # Killed after the last epoch.
        tiny_run(folder, epochs=EPOCHS)
    arrays = checkpoint_arrays(folder)
    del arrays["result"]  # It has times and dates.
    return arrays.values()


TRAININGS = {
    "BackupAndRestore": train_with_backup,
    "examples/paper": train_as_in_the_paper,
}


def train_and_save(train, folder):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    np.savez(folder / "partial.npz", *train(folder))
    (folder / "partial.npz").rename(folder / "weights.npz")


def is_killed(train, folder, after=math.inf):
    """Trains in a process of its own. Returns whether it had to be killed.

    It is killed when it has used so many seconds of CPU time, which do not
    depend on what else the machine does.
    """
    process = FORK.Process(target=train_and_save, args=(train, folder))
    process.start()
    used = psutil.Process(process.pid)
    while process.is_alive():
        with contextlib.suppress(psutil.Error):  # It has just ended.
            if sum(used.cpu_times()[:2]) > after:
                process.kill()
                process.join()
                return True
        process.join(0.01)
    assert process.exitcode == 0, process.exitcode
    return False


def cpu_seconds():
    """The CPU time of all processes that have ended."""
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def weights(folder):
    with np.load(folder / "weights.npz") as file:
        return [file[name] for name in file.files]


def kill_and_compare(train, folder, trainings, rng):
    whole, kills, equal = folder / "whole", 0, 0
    whole.mkdir()
    begin = cpu_seconds()
    is_killed(train, whole)
    seconds = cpu_seconds() - begin
    for number in range(trainings):
        part = folder / str(number)
        part.mkdir()
        # At most 8 times: starting takes about half of the time.
        limits = [rng.uniform(0.4, 1) * seconds for _ in range(8)]
        for after in (*limits, math.inf):
            if not is_killed(train, part, after):
                break
            kills += 1
        equal += all(map(np.array_equal, weights(whole), weights(part)))
    return {"kills": kills, "equal to the bit": equal}


def run(trainings=20, seed=1):
    """Kills each training until it gets through; compares the weights."""
    # So that a fork has it. Nothing runs in TensorFlow before the fork.
    importlib.import_module("tests.examples.paper.test_train")

    rng, found = random.Random(seed), {}
    for name, train in TRAININGS.items():
        with tempfile.TemporaryDirectory() as folder:
            found[name] = kill_and_compare(train, Path(folder), trainings, rng)
    return {"trainings": trainings, "seed": seed, **found}
