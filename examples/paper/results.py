"""The result of a run: what it measures, its two files, how it continues.

The result is a JSON file for people and for `report.py`. The checkpoint beside
it holds every variable of the model and its optimizer, and the same result, so
that the two cannot disagree. Each is written as a whole or not at all.
"""

# `keras.callbacks.BackupAndRestore` deletes its backup at the end, so that a
# finished run cannot be made longer, and stores weights without the numbers.

import base64
import contextlib
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path

import filelock
import keras
import numpy as np
import tensorflow as tf

import keras_lab
from examples.environment import write_json
from examples.paper.data import Part
from keras_lab.files import replacing

# The bins of log10 |g|: four per order of magnitude, over all orders that
# float32 has. Gradients that explode use them all.
LOWEST, HIGHEST, BINS = -45, 39, 336
EXAMPLES = 100
START_AGAIN = (
    "Delete the result and its checkpoint to start again, or choose another "
    "--results-dir."
)


class RunError(Exception):
    """A run cannot start or go on, because of its files."""


class Finished(RunError):
    """The result of a run is there already."""


class NotNow(RunError):
    """A run has to wait for another one."""


class Busy(NotNow):
    """Another process works on a run."""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other processes away from a result.

    Raises Busy if another process works on it, and RunError if it cannot be
    written.
    """
    lock = filelock.FileLock(path.with_name(f".{path.name}.lock"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except filelock.Timeout:
        raise Busy(
            f"Another process works on {path}. Wait for it, or stop it."
        ) from None
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error}") from error
    try:
        yield
    finally:
        lock.release()


def previous(path: Path, configuration: dict, epochs: int) -> dict | None:
    """The result that a run continues, or `None` if there is none.

    Raises Finished if it has as many epochs already, and RunError if it has
    another configuration or cannot be continued.
    """
    checkpoint, written = _checkpoint(path), None
    if path.exists():
        written = _read_result(path)
        _check(path, written, configuration, epochs)
    if not checkpoint.exists():
        if written is None:
            return None
        raise RunError(
            f"{path} has {written['epochs_done']} of {epochs} epochs, and it "
            f"cannot be continued without {checkpoint.name}. {START_AGAIN}"
        )
    with _opened(checkpoint) as arrays:
        saved = json.loads(arrays["result"].item())
    if written is None or written["epochs_done"] < saved["epochs_done"]:
        # The last session ended after it wrote the first of the two files.
        with _writing(path):
            write_json(path, saved)
        _check(path, saved, configuration, epochs)
        return saved
    if written["history"] != saved["history"]:
        raise RunError(
            f"{path} and {checkpoint.name} belong to different runs. "
            f"{START_AGAIN}"
        )
    return written


def _check(path, result, configuration, epochs):
    for name, value in configuration.items():
        if result.get(name) != value:
            raise RunError(
                f"{path} was made with {name}={result.get(name)!r}, not "
                f"{value!r}. {START_AGAIN}"
            )
    if result["epochs_done"] >= epochs:
        raise Finished(
            f"{path} is finished and is not overwritten (epochs done: "
            f"{result['epochs_done']}, asked for: {epochs})."
        )


def save(path: Path, model: keras.Model, result: dict) -> None:
    """Writes the checkpoint, then the result.

    Raises RunError if they cannot be written.
    """
    arrays = {str(n): v.numpy() for n, v in enumerate(_variables(model))}
    with _writing(path):
        with replacing(_checkpoint(path)) as partial, open(partial, "wb") as f:
            np.savez(f, result=json.dumps(result), **arrays)
            f.flush()
            os.fsync(f.fileno())
        write_json(path, result)


def restore(path: Path, model: keras.Model) -> None:
    """Gives a model and its optimizer the variables of the checkpoint."""
    checkpoint, variables = _checkpoint(path), _variables(model)
    with _opened(checkpoint) as file:
        arrays = [file[str(n)] for n in range(len(file.files) - 1)]
    shapes = [array.shape for array in arrays]
    if shapes != [tuple(variable.shape) for variable in variables]:
        raise RunError(
            f"{checkpoint} holds other variables than this network and its "
            f"optimizer have. {START_AGAIN} Received the shapes: {shapes}"
        )
    for variable, array in zip(variables, arrays):
        variable.assign(array)


def _checkpoint(path):
    return path.with_suffix(".checkpoint.npz")


def _variables(model):
    return [*model.variables, *model.optimizer.variables]


@contextlib.contextmanager
def _writing(path):
    try:
        yield
    except OSError as error:
        raise RunError(
            f"{path} or its checkpoint cannot be written: {error}. The same "
            "command continues from the last epoch that was saved."
        ) from error


def _read_result(path):
    try:
        result = json.loads(path.read_text())
        return {**result, "epochs_done": int(result["epochs_done"])}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RunError(
            f"{path} is not a result ({type(error).__name__}: {error}). Delete "
            "it: the run then continues from its checkpoint, or starts again "
            "if there is none."
        ) from error


@contextlib.contextmanager
def _opened(checkpoint):
    try:
        with np.load(checkpoint) as arrays:
            yield arrays
    except Exception as error:  # A damaged archive can raise anything.
        raise RunError(
            f"{checkpoint} cannot be read ({type(error).__name__}: {error}). "
            f"{START_AGAIN}"
        ) from error


# Measurements.


def finite(value: float) -> float | None:
    """The number, or `None`: JSON has neither NaN nor infinity."""
    return float(value) if math.isfinite(value) else None


def scales(model: keras.Model) -> dict[str, float | None]:
    """The α of each binary weight, or of each gate, and α / mean|w|, by name.

    The names of α are those of `keras_lab.callbacks.BinaryMonitor`, such as
    `dense_1/alpha` and `lstm/recurrent_alpha_i`; the ratio is `dense_1/ratio`.
    If there is one α per channel, it is their mean.
    """
    found = {}
    for path, weight in keras_lab.binary_weights(model).items():
        name = path.removesuffix(weight.latent.name) + weight.alpha.name
        size = np.abs(weight.latent.numpy()).reshape(weight.shape)
        gates, axes = [""], None
        if len(weight.shape) == 3:
            gates, axes = ["_i", "_f", "_c", "_o"], (0, 2)
        alpha = weight.alpha.numpy().reshape(len(gates), -1).mean(axis=1)
        ratio = alpha / size.mean(axes, dtype=np.float64)
        for gate, *values in zip(gates, alpha, ratio):
            for kind, value in zip(("alpha", "ratio"), values):
                key = name.replace("alpha", kind) + gate
                found[key] = finite(value)
    return found


def rows(model: keras.Model, part: Part) -> dict[str, list] | None:
    """How large the weights of each byte are, and their curvature.

    For each row of the input kernel: how often the byte occurs in `part`, and
    the means of |w| and of d, up to a factor. `None` if there is no LSTM.
    """
    weight = keras_lab.binary_weights(model).get("lstm/kernel")
    if weight is None:
        return None
    curvature = model.optimizer.curvature(weight.latent, learning_rate=1)
    means = {"weight": weight.latent.numpy(), "curvature": curvature.numpy()}
    count = np.bincount(part.x.ravel(), minlength=weight.shape[0])
    return {
        "count": count.tolist(),
        **{
            name: [float(f"{x:.6g}") for x in np.abs(values).mean(axis=1)]
            for name, values in means.items()
        },
    }


def hits(model: keras.Model, part: Part, batch: int) -> str:
    """Whether each prediction is right: one bit per example, in base64."""
    right = model.predict(part.x, batch, verbose=0).argmax(axis=1)
    right = right == part.y.argmax(axis=1)
    return base64.b64encode(np.packbits(right)).decode()


def recurrent_gradient(model: keras.Model, part: Part) -> dict | None:
    """The sizes of ∂ℓ/∂ŵ of the hidden-to-hidden weights (Figure 2).

    ℓ is the mean loss of the first hundred sequences of `part`. See `histogram`
    for the result; it is `None` for a network without recurrent weights.
    """
    weights = [
        weight.value
        for weight in model.trainable_variables
        if weight.name == "recurrent_kernel"
    ]
    if not weights:
        return None
    x, y = part.x[:EXAMPLES], part.y[:EXAMPLES]
    with tf.GradientTape() as tape:
        loss = model.compute_loss(x, y, model(x, training=True))
    gradients = tape.gradient(loss, weights)
    return histogram(np.concatenate([np.ravel(g) for g in gradients]))


def histogram(gradient: np.ndarray) -> dict:
    """The number of entries in each bin of log10|g|, and outside the bins."""
    size = np.abs(gradient[np.isfinite(gradient)]).astype(np.float64)
    with np.errstate(divide="ignore"):
        magnitude = np.log10(size)
    counts, _ = np.histogram(magnitude, BINS, (LOWEST, HIGHEST))
    return {
        "log10_range": [LOWEST, HIGHEST],
        "counts": counts.tolist(),
        "below": int((magnitude < LOWEST).sum()),
        "above": int((magnitude > HIGHEST).sum()),
        "not_finite": int((~np.isfinite(gradient)).sum()),
        "rms": float(np.sqrt(np.mean(size**2))) if size.size else None,
    }
