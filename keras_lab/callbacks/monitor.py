"""`BinaryMonitor`: what the binary weights do while a network trains."""

import math
import numbers
import warnings

import keras
import numpy as np
from keras import ops

from keras_lab import backend
from keras_lab.files import check_target
from keras_lab.history import read_history, write_history
from keras_lab.names import named_parts
from keras_lab.statistics import (
    QUANTITIES,
    flipped_share,
    measure,
    sign_bits,
)

__all__ = ["BinaryMonitor"]

HISTOGRAM_BINS = 60


class BinaryMonitor(keras.callbacks.Callback):
    """Watches the binary weights of a model; the training does not notice.

    For each binary weight, at the end of each epoch or every few steps:

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

    What does not exist is left out of the logs and empty in the CSV:
    `clipped` without a `WeightClip`, d with another optimizer than `LABAdam` or
    at a learning rate of zero. The error then is that of a uniform d.

    After an interruption, give a new monitor the same `filename`. It goes on
    with the rows up to where the training is resumed, by its epoch or by
    `optimizer.iterations`, and drops those beyond, which will come again. The
    first flips are relative to the resumed weights if these are the ones of the
    last row, and unknown otherwise. A training from the start starts the file
    anew.

    Args:
        filename: Where to write the CSV, one row a weight and time, with the
            epoch and the step: as in Keras, epochs count from 0. It is written
            whole at the end of each epoch. Defaults to `None`, no file.
        log_dir: A folder for TensorBoard: scalars, and histograms of the
            latent weights. Defaults to `None`.
        every: `"epoch"`, or after how many steps. Defaults to `"epoch"`.
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
        self.log_dir = log_dir
        self.every = every
        self.quantities = tuple(quantities)
        self.near_zero = near_zero
        self._signs = None
        self._latest = {}
        if every != "epoch":
            # Keras waits for each step where a callback has this method.
            self.on_train_batch_end = self._on_train_batch_end

    def on_train_begin(self, logs=None):
        self._parts = None
        self._writer = None
        self._batches_done = self._batches_measured = 0

    def on_epoch_begin(self, epoch, logs=None):
        # Not when training begins: `BackupAndRestore` may come after us.
        if self._parts is None:
            self._begin(epoch)
        self._epoch = epoch
        self._batches_before = self._batches_done

    def _begin(self, epoch):
        self._parts = named_parts(self.model)
        if not self._parts:
            warnings.warn(
                f"Model '{self.model.name}' has no binary weights: there is "
                "nothing to monitor.",
                stacklevel=2,
            )
        if self.log_dir is not None:
            self._writer = backend.EventWriter(self.log_dir)
        step = self._step()
        kept = [
            row
            for row in self.history
            if row["epoch"] < epoch or row["step"] <= step
        ]
        if self._signs is None or len(kept) < len(self.history):
            known = not kept or kept[-1]["step"] == step
            self._signs = self._signs_now() if known else {}
        self.history = kept

    def _on_train_batch_end(self, batch, logs=None):
        # With `steps_per_execution` several are over at once.
        self._batches_done = self._batches_before + batch + 1
        due = self._batches_measured // self.every + 1
        if self._batches_done >= due * self.every:
            self._batches_measured = self._batches_done
            self._measure()
            if logs is not None:
                logs.update(self._latest)

    def on_epoch_end(self, epoch, logs=None):
        if self.every == "epoch":
            self._measure()
        if logs is not None:
            logs.update(self._latest)
        self._write()

    def on_train_end(self, logs=None):
        self._write()
        if self._writer is not None:
            self._writer.close()

    def plot(self, path):
        """Draws α, flips and saturation by epoch, one line a weight.

        Args:
            path: Where to write: `.png`, `.pdf` or `.svg`.
        """
        from keras_lab import plots

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
            for part in self._parts
        }

    def _measure(self):
        optimizer = getattr(self.model, "optimizer", None)
        measured = measure(self._parts, optimizer, self.near_zero)
        step = self._step()
        for part, (values, w, bits) in zip(self._parts, measured):
            before = self._signs.get(part.name)
            self._signs[part.name] = bits
            values["flips"] = None
            if before is not None:
                values["flips"] = flipped_share(before, bits, w.size)
            row = {"epoch": self._epoch, "step": step, "weight": part.name}
            self.history.append({**row, **values})
            self._log(part, values)
            if self._writer is not None:
                self._write_events(part, values, w, step)

    def _log(self, part, values):
        for name in self.quantities:
            value = values[name]
            if name == "flips" and value is None:
                # Known the next time: a `CSVLogger` wants the same columns.
                value = math.nan
            if value is not None:
                self._latest[part.quantity(name)] = value

    def _write_events(self, part, values, w, step):
        step = self._epoch if self.every == "epoch" else step
        for name, value in values.items():
            if value is not None:
                self._writer.scalar(part.quantity(name), value, step)
        w = w[np.isfinite(w)]
        counts, edges = np.histogram(w, HISTOGRAM_BINS)
        self._writer.histogram(part.name, edges, counts, step)
        self._writer.flush()

    def _write(self):
        if self.filename is not None and self._parts:
            write_history(self.filename, self.history)


def _check_every(every):
    steps = isinstance(every, numbers.Integral) and every > 0
    if isinstance(every, bool) or not (every == "epoch" or steps):
        raise ValueError(
            "`every` must be 'epoch' or a positive number of steps. "
            f"Received: every={every!r}"
        )


def _check_quantities(quantities):
    if isinstance(quantities, str) or not set(quantities) <= set(QUANTITIES):
        raise ValueError(
            f"`quantities` must be a list of some of {list(QUANTITIES)}. "
            f"Received: quantities={quantities!r}"
        )
