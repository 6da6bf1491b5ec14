"""`BinaryMonitor`: what the binary weights do while a network trains."""

import math
import numbers
import warnings

import keras
import numpy as np
from keras import ops

from keras_lab import _tensorflow as backend
from keras_lab.analysis.history import read_history, write_history
from keras_lab.analysis.measurements import (
    QUANTITIES,
    flipped_share,
    measure,
    sign_bits,
)
from keras_lab.analysis.names import named_parts
from keras_lab.checks import nothing_binary
from keras_lab.files import check_folder, check_target

__all__ = ["BinaryMonitor"]

HISTOGRAM_BINS = 60


class BinaryMonitor(keras.callbacks.Callback):
    """Watches the binary weights of a model; the training does not notice.

    For each binary weight, at the end of each epoch, and every few steps if
    asked to:

    | quantity | what it is |
    |---|---|
    | `alpha` | the scale α; of several, their mean |
    | `flips` | the share of signs that differ from the last time |
    | `clipped` | the share of latent weights at the limit of `WeightClip` |
    | `near_zero` | the share of those smaller than 0.1·α, about to flip |
    | `d_min`, `d_median`, `d_max` | the curvature d of `LABAdam` |
    | `error` | ‖w−ŵ‖_D / ‖w‖_D, what binarization loses |

    They go into Keras' logs under names like `dense_1/alpha`, for the callbacks
    *after* this one, the history and the progress bar. A recurrent weight has
    an entry for each gate: `lstm/alpha_i`, `_f`, `_c`, `_o`, and for the
    recurrent kernel `lstm/recurrent_alpha_i`; a GRU has `_z`, `_r`, `_h`. A
    layer in a nested model is `encoder/dense_1/alpha`; a shared one is there
    once.

    What a weight does not have is left out of the logs and empty in the CSV:
    `clipped` without a `WeightClip`, d with another optimizer than `LABAdam`;
    the error then is that of a uniform d. What has no value just now is NaN in
    the logs, so that they have the same entries in each epoch, and empty in the
    CSV: flips where the signs before are not known, d at a learning rate of
    zero.

    A step is one of the optimizer, `optimizer.iterations`: with gradient
    accumulation an update, not a batch. A position in the CSV and in
    TensorBoard is such a number, so a second `fit` goes on from the first.

    After an interruption, give a new monitor the same `filename`. It goes on
    with the rows up to where the training is resumed, by its epoch or by its
    step, and drops those beyond, which will come again. It measures at the same
    steps as without the interruption. The first flips are relative to the
    resumed weights if these are the ones of the last row, and unknown
    otherwise, as they are for a model that is built by its first step. A
    training from the start starts the file anew. If the file cannot be written,
    the monitor warns once and keeps its `history`.

    Args:
        filename: Where to write the CSV, one row a weight and time, with the
            epoch and the step: as in Keras, epochs count from 0. It is written
            whole at the end of each epoch. Defaults to `None`, no file.
        log_dir: A folder for TensorBoard: scalars, and histograms of the
            latent weights. Defaults to `None`.
        every: `"epoch"`, or a number n: after each step that is a multiple of
            n, or is the first to pass one where `steps_per_execution` hides it,
            and at the end of each epoch. Defaults to `"epoch"`.
        quantities: Which of the quantities go into the logs. All are in the
            CSV. Defaults to all.
        near_zero: What near zero is, as a part of α. Defaults to `0.1`.

    Example:

    >>> monitor = keras_lab.callbacks.BinaryMonitor("monitor.csv")
    >>> model.fit(x, y, epochs=10, callbacks=[monitor])
    >>> monitor.plot("monitor.png")
    """

    def __init__(
        self,
        filename=None,
        log_dir=None,
        every="epoch",
        quantities=QUANTITIES,
        near_zero=0.1,
    ):
        super().__init__()
        _check_every(every)
        _check_quantities(quantities)
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
        self.log_dir = None
        if log_dir is not None:
            self.log_dir = check_folder("log_dir", log_dir)
        self.every = every
        self.quantities = tuple(quantities)
        self.near_zero = near_zero
        if every != "epoch":
            # Keras waits for each step where a callback has this method.
            self.on_train_batch_end = self._on_train_batch_end

    def on_train_begin(self, logs=None):
        self._signs = self._writer = self._measured_at = None
        self._latest = {}
        self._warned = set()

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch
        # Not when training begins: `BackupAndRestore` may come after us.
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
        if self.log_dir is not None:
            self._writer = backend.EventWriter(self.log_dir)

    def _on_train_batch_end(self, batch, logs=None):
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

    def on_train_end(self, logs=None):
        if self._writer is not None:
            self._writer.close()

    def plot(self, path):
        """Draws α, flips and saturation by epoch, one line a weight.

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
            for part in named_parts(self.model)
        }

    def _measure(self, step):
        # Looked up now: the first step may have built the model.
        parts = named_parts(self.model)
        if not parts:
            self._warn_once(f"Nothing to monitor. {nothing_binary(self.model)}")
        optimizer = getattr(self.model, "optimizer", None)
        measured = measure(parts, optimizer, self.near_zero)
        self._latest = {}
        self._measured_at = self._epoch, step
        for part, (values, w, bits) in zip(parts, measured):
            values["flips"] = self._flips(part.name, bits, w.size)
            row = {"epoch": self._epoch, "step": step, "weight": part.name}
            self.history.append({**row, **dict.fromkeys(QUANTITIES), **values})
            self._log(part, values)
            if self._writer is not None:
                self._write_events(part, values, w, step)
        if self._writer is not None:
            self._writer.flush()

    def _flips(self, name, bits, count):
        before = self._signs.get(name)
        self._signs[name] = bits
        return None if before is None else flipped_share(before, bits, count)

    def _log(self, part, values):
        for name in self.quantities:
            if name in values:
                value = math.nan if values[name] is None else values[name]
                self._latest[part.quantity(name)] = value

    def _write_events(self, part, values, w, step):
        for name, value in values.items():
            if value is not None:
                self._writer.scalar(part.quantity(name), value, step)
        w = w[np.isfinite(w)]
        counts, edges = np.histogram(w, HISTOGRAM_BINS)
        self._writer.histogram(part.name, edges, counts, step)

    def _write(self):
        if self.filename is None or not self.history:
            return
        try:
            write_history(self.filename, self.history)
        except OSError as error:
            # The training is worth more than this file.
            self._warn_once(
                f"'{self.filename}' cannot be written, the training goes on: "
                f"{error.strerror}"
            )

    def _warn_once(self, message):
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(message, stacklevel=2)


def _check_every(every):
    steps = isinstance(every, numbers.Integral) and every > 0
    if isinstance(every, bool) or not (every == "epoch" or steps):
        raise ValueError(
            "`every` must be 'epoch' or a positive number of steps. "
            f"Received: every={every!r}"
        )


def _check_quantities(quantities):
    listed = isinstance(quantities, (list, tuple))
    if not listed or any(name not in QUANTITIES for name in quantities):
        raise ValueError(
            f"`quantities` must be a list of some of {list(QUANTITIES)}. "
            f"Received: quantities={quantities!r}"
        )
