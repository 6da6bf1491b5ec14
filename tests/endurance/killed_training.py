"""A training is killed at random moments and resumed to the same weights."""

import multiprocessing
import random
import tempfile
import time
from pathlib import Path

import numpy as np

FORK = multiprocessing.get_context("fork")
EPOCHS = 12


def train(folder: Path):
    """Trains a network with a backup of each epoch, and saves its weights."""
    import keras
    import tensorflow as tf

    import keras_lab

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
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
    values = [weight.numpy() for weight in model.weights]
    values += [weight.numpy() for weight in model.optimizer.variables]
    np.savez(folder / "partial.npz", *values)
    (folder / "partial.npz").rename(folder / "weights.npz")


def run_to_the_end(folder, kill_after=None):
    """Trains in a process of its own. Returns whether it was killed."""
    process = FORK.Process(target=train, args=(folder,))
    process.start()
    process.join(kill_after)
    if process.is_alive():
        process.kill()
        process.join()
        return True
    assert process.exitcode == 0, process.exitcode
    return False


def weights(folder):
    with np.load(folder / "weights.npz") as file:
        return [file[name] for name in file.files]


def run(trainings=20, seed=1):
    """Kills each training until it gets through; compares the weights."""
    import tensorflow  # noqa: F401

    import keras_lab  # noqa: F401

    rng, kills, equal = random.Random(seed), 0, 0
    with tempfile.TemporaryDirectory() as name:
        whole = Path(name) / "whole"
        whole.mkdir()
        begin = time.time()
        run_to_the_end(whole)
        seconds = time.time() - begin
        expected = weights(whole)
        for number in range(trainings):
            folder = Path(name) / str(number)
            folder.mkdir()
            # At most 8 times: each start takes about half of the time.
            for _ in range(8):
                if not run_to_the_end(folder, rng.uniform(0.4, 1) * seconds):
                    break
                kills += 1
            else:
                run_to_the_end(folder)
            equal += all(map(np.array_equal, expected, weights(folder)))
    return {
        "trainings": trainings,
        "seed": seed,
        "kills": kills,
        "equal to the bit": equal,
    }
