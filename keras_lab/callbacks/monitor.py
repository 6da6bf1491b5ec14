"""`BinaryMonitor`: measures the binary weights while a network trains."""

import math
import numbers
import warnings

import keras
from keras import ops

from keras_lab._backend import backend
from keras_lab.analysis.history import read_history, write_history
from keras_lab.analysis.measurements import (
    QUANTITIES,
    flipped_share,
    measure,
    parts_of,
    sign_bits,
)
from keras_lab.files import check_target
from keras_lab.model_checks import no_binary_weights

__all__ = ["BinaryMonitor"]


class BinaryMonitor(keras.callbacks.Callback):
    """Measures the binary weights of a model without changing its training.

    For each binary weight, at the end of each epoch or also every few steps:

    | quantity | meaning |
    |---|---|
    | `alpha` | the scale α; if there are several, their mean |
    | `flips` | the share of signs that changed since the last measurement |
    | `clipped` | the share of latent weights at the limit of `WeightClip` |
    | `near_zero` | the share of those smaller than 0.1·α, about to flip |
    | `d_min`, `d_median`, `d_max` | the curvature d of `LABAdam` |
    | `error` | ‖w−ŵ‖_D / ‖w‖_D, what binarization loses |

    The attribute `history` has one dict per weight and measurement. A weight is
    named as in `keras_lab.binary_weights`, for example
    `encoder/dense_1/kernel`. A recurrent weight has one row per gate:
    `lstm/kernel_i`, `_f`, `_c`, `_o` and `lstm/recurrent_kernel_i`; a GRU has
    `_z`, `_r`, `_h`.

    A quantity that a weight does not have is left out: `clipped` without a
    `WeightClip`, and d with an optimizer other than `LABAdam`. The error then
    uses a uniform d. A quantity without a value at present is NaN in the logs
    and empty in the CSV: flips if the signs before are not known, and d if the
    learning rate is zero.

    Steps are those of `optimizer.iterations`: with gradient accumulation a step
    is an update, not a batch. A second `fit` continues the first one. To resume
    a training, create a new monitor with the same `filename`. It keeps the rows
    up to the point where the training resumes. A training that begins again
    begins a new file.

    Args:
        filename: The CSV file to write at the end of each epoch, with the rows
            of `history`. Epochs count from 0, as in Keras. Defaults to `None`.
        every: `"epoch"`, or a number n to measure also after each n-th step.
            If `steps_per_execution` skips that step, it is the next one that
            Keras shows. Defaults to `"epoch"`.
        log_quantities: A list of the quantities to add to Keras' logs, for
            example `["alpha", "flips"]`, or `"all"`. Their names there are like
            `dense_1/alpha` and `lstm/recurrent_alpha_i`. The progress line and
            the callbacks after this one have them, for example
            `keras.callbacks.TensorBoard`. Defaults to none.
        near_zero: A weight is near zero if |w| is smaller than `near_zero`·α.
            Defaults to `0.1`.

    Example:

    >>> monitor = keras_lab.callbacks.BinaryMonitor("monitor.csv")
    >>> model.fit(x, y, epochs=10, callbacks=[monitor])
    >>> monitor.plot("monitor.png")
    """

    def __init__(
        self,
        filename=None,
        every="epoch",
        log_quantities=(),
        near_zero=0.1,
    ):
        super().__init__()
        _check_every(every)
        log_quantities = _checked_quantities(log_quantities)
        if not (isinstance(near_zero, numbers.Real) and near_zero > 0):
            raise ValueError(
                "`near_zero` must be a positive number. "
                f"Received: near_zero={near_zero!r}"
            )
        self.filename = None
        self.history = []
        if filename is not None:
            self.filename = check_target("filename", filename, (".csv",))
            if self.filename.exists():
                self.history = read_history(self.filename)
        self.every = every
        self.log_quantities = log_quantities
        self.near_zero = near_zero
        if every != "epoch":
            # If a callback has this method, Keras waits for each step.
            self.on_train_batch_end = self._on_train_batch_end

    def on_train_begin(self, logs=None):
        self._signs = self._measured_at = None
        self._latest = {}

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch
        # Not in `on_train_begin`: `BackupAndRestore` may come after this one.
        if self._signs is None:
            self._begin()

    def _begin(self):
        step = self._step_before = self._step()
        self.history = [
            row
            for row in self.history
            if row["epoch"] < self._epoch or row["step"] <= step
        ]
        known = not self.history or self.history[-1]["step"] == step
        self._signs = self._signs_now() if known else {}

    def _on_train_batch_end(self, batch, logs=None):
        backend.sync(self.model)
        step = self._step()
        if step // self.every > self._step_before // self.every:
            self._measure(step)
            if logs is not None:
                logs.update(self._latest)
        self._step_before = step

    def on_epoch_end(self, epoch, logs=None):
        step = self._step()
        if self._measured_at != (epoch, step):
            self._measure(step)
        if logs is not None:
            logs.update(self._latest)
        self._write()

    def plot(self, path):
        """Draws α, flips and clipped weights, with one line per weight.

        Args:
            path: Where to write: `.png`, `.pdf` or `.svg`.
        """
        from keras_lab.analysis import plots

        plots.trajectories(self.history, path)

    def _step(self):
        optimizer = getattr(self.model, "optimizer", None)
        if optimizer is None:
            return 0
        return int(ops.convert_to_numpy(optimizer.iterations))

    def _signs_now(self):
        return {
            part.name: sign_bits(
                part.select(ops.convert_to_numpy(part.weight.latent))
            )
            for part in parts_of(self.model)
        }

    def _measure(self, step):
        # Looked up each time: the first step may have built the model.
        parts = parts_of(self.model)
        if not parts:
            warnings.warn(
                f"Nothing to monitor. {no_binary_weights(self.model)}",
                stacklevel=2,
            )
        measured = measure(parts, self.near_zero)
        self._latest = {}
        self._measured_at = self._epoch, step
        for part, (values, w, bits) in zip(parts, measured):
            values["flips"] = self._flips(part.name, bits, w.size)
            row = {"epoch": self._epoch, "step": step, "weight": part.name}
            self.history.append({**row, **dict.fromkeys(QUANTITIES), **values})
            self._log(part, values)

    def _flips(self, name, bits, count):
        before = self._signs.get(name)
        self._signs[name] = bits
        return None if before is None else flipped_share(before, bits, count)

    def _log(self, part, values):
        for name in self.log_quantities:
            if name in values:
                value = math.nan if values[name] is None else values[name]
                self._latest[part.quantity(name)] = value

    def _write(self):
        if self.filename is None or not self.history:
            return
        try:
            write_history(self.filename, self.history)
        except OSError as error:
            # Do not stop the training because of this file.
            warnings.warn(
                f"Cannot write '{self.filename}': {error.strerror}. The "
                "training goes on.",
                stacklevel=2,
            )


def _check_every(every):
    steps = isinstance(every, numbers.Integral) and every > 0
    if isinstance(every, bool) or not (every == "epoch" or steps):
        raise ValueError(
            "`every` must be 'epoch' or a positive number of steps. "
            f"Received: every={every!r}"
        )


def _checked_quantities(quantities):
    if quantities == "all":
        return QUANTITIES
    listed = isinstance(quantities, (list, tuple))
    if not listed or any(name not in QUANTITIES for name in quantities):
        raise ValueError(
            f"`log_quantities` must be 'all' or a list of {list(QUANTITIES)}. "
            f"Received: log_quantities={quantities!r}"
        )
    return tuple(quantities)
