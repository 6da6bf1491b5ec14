"""The training that every engine runs: a small network on made-up data."""

import argparse
import json
from pathlib import Path

import keras
import numpy as np

import keras_lab
from keras_lab.files import replacing

SAMPLES, BATCH, EPOCHS, FEATURES, CLASSES = 512, 64, 4, 20, 6
STEPS = SAMPLES // BATCH


def make_data():
    """Six clouds of points, the same in every process."""
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(CLASSES, FEATURES))
    y = rng.integers(0, CLASSES, SAMPLES)
    x = centres[y] + rng.normal(size=(SAMPLES, FEATURES))
    return x.astype("float32"), y.astype("int32")


def my_part(x, rank, workers):
    """The samples of one worker, so that together they see the same batches."""
    batches = x.reshape(STEPS, workers, BATCH // workers, *x.shape[1:])
    return batches[:, rank].reshape(-1, *x.shape[1:])


def make_model(**options):
    """A network that starts from the same weights in every process."""
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            keras_lab.BinaryDense(32, activation="relu", **options),
            keras_lab.BinaryDense(32, activation="relu", **options),
            keras_lab.BinaryDense(CLASSES, **options),
        ]
    )


def make_loss(**options):
    return keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, **options
    )


def make_optimizer():
    # Two workers add up gradients in another order than one. Adam divides by
    # √v, so with a small ε it turns the rounding error of a gradient near zero
    # into a step of full size, and the two trainings part.
    return keras_lab.LABAdam(0.01, epsilon=1e-3)


def parse_worker() -> dict:
    """Returns the options of a worker, which `run.py` gives it."""
    parser = argparse.ArgumentParser()
    for name in ("rank", "workers", "port"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--folder", required=True)
    return vars(parser.parse_args())


def report(folder, rank, model):
    """Writes the scales and the latent weights of a worker, for `run.py`."""
    weights = keras_lab.binary_weights(model)
    to_numpy = keras.ops.convert_to_numpy
    content = {
        "alpha": [float(to_numpy(w.alpha)) for w in weights.values()],
        "latent": [to_numpy(w.latent).tolist() for w in weights.values()],
    }
    with replacing(Path(folder) / f"worker-{rank}.json") as partial:
        partial.write_text(json.dumps(content))


class Checkpoint:
    """What a hand-written loop saves after each epoch, and restores.

    Only the first worker writes. The number of the epoch is part of the file's
    name, and a file is written whole or not at all, so a process may be killed
    at any moment.
    """

    def __init__(self, folder, model, optimizer):
        self.folder = Path(folder)
        optimizer.build(model.trainable_variables)
        self.variables = [*model.variables, *optimizer.variables]

    def restore(self):
        """Returns the number of epochs that are done."""
        found = sorted(self.folder.glob("epoch-*.npz"))
        if not found:
            return 0
        with np.load(found[-1]) as file:
            for variable, name in zip(self.variables, file.files, strict=True):
                variable.assign(file[name])
        return int(found[-1].stem.split("-")[1])

    def save(self, epoch):
        """Saves the state after `epoch` epochs."""
        path = self.folder / f"epoch-{epoch:03d}.npz"
        values = map(keras.ops.convert_to_numpy, self.variables)
        with replacing(path) as partial, open(partial, "wb") as file:
            np.savez(file, *values)
