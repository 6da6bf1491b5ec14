"""A training is killed at random moments and resumed to the same weights.

It resumes from Keras' `BackupAndRestore`, or from a checkpoint of
`examples/paper`.
"""

import contextlib
import functools
import importlib
import multiprocessing
import random
import resource
import shutil
import signal
import tempfile
from pathlib import Path

import numpy as np

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
    fit = functools.partial(
        model.fit, x, y, 16, EPOCHS, shuffle=False, verbose=0
    )
    try:
        fit(callbacks=[backup])
    except OSError:
        # It was killed while Keras wrote the backup, which is not whole now.
        shutil.rmtree(folder / "backup")
        fit(callbacks=[backup])
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


def train_and_save(train, folder, seconds):
    # The system ends the process when it has used so much CPU time, which does
    # not depend on what else the machine does. Zero is no limit.
    signal.setitimer(signal.ITIMER_PROF, seconds)

    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    np.savez(folder / "partial.npz", *train(folder))
    (folder / "partial.npz").rename(folder / "weights.npz")


def is_killed(train, folder, seconds=0):
    """Trains in a process of its own. Returns whether it was killed."""
    arguments = train, folder, seconds
    process = FORK.Process(target=train_and_save, args=arguments)
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGPROF), process.exitcode
    return process.exitcode != 0


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
        for _ in range(8):
            if not is_killed(train, part, rng.uniform(0.4, 1) * seconds):
                break
            kills += 1
        else:
            is_killed(train, part)
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
