"""`ExportBest`: the `.tflite` file of the best epoch."""

import contextlib
import inspect
import math
import warnings

import keras

from keras_lab.analysis.summary import EXPORT_ERRORS, trial_export
from keras_lab.convert.batch_norm import recalibrate_batch_norm
from keras_lab.convert.batches import (
    check_can_be_repeated,
    check_is_finite,
    input_batches,
)
from keras_lab.files import check_target
from keras_lab.model_checks import is_built

__all__ = ["ExportBest"]

SUFFIXES = (".tflite", ".tflz")


class ExportBest(keras.callbacks.Callback):
    """Writes the `.tflite` file of the best epoch so far.

    It works like `keras.callbacks.ModelCheckpoint` with `save_best_only=True`,
    but it writes the file of `tflite_export.export_tflite`. If the export of an
    epoch fails, there is a warning, and the previous file stays.

    When the training begins, a model that is built is exported once to a
    temporary file, so that an error appears then and not hours later.

    Args:
        filename: Where to write, ending in `.tflite` or `.tflz`, as in
            `export_tflite`.
        monitor: The name in the logs that decides which epoch is best. Defaults
            to `"val_loss"`.
        mode: `"min"`, `"max"`, or `"auto"`: as in Keras' callbacks, `"min"` for
            a loss, and for a metric what its class says. If that is unknown,
            there is an error at the end of the first epoch.
        format: As in `export_tflite`.
        initial_value_threshold: The value that the first file must improve on,
            for example the best value before the training was interrupted.
        recalibrate: Inputs for `recalibrate_batch_norm`: an array, a dataset,
            or another iterable that can be read in each epoch. The statistics
            of batch norm are then measured before each validation and before
            the export. Binary networks need this: moving averages do not
            follow signs that flip. Defaults to `None`.
        verbose: 0, or 1 to print a line for each file. Defaults to `0`.
        **options: Other arguments of `export_tflite`: `batch_size`,
            `validation_data`, `tolerance`, `other_weights`, `runtime`.

    Attributes:
        best: The value of the exported epoch; `None` before there is one.
        best_epoch: The epoch, counted from 0.
        report: Its `tflite_export.ExportReport`.

    Example:

    >>> best = keras_lab.callbacks.ExportBest("best.tflite", "val_accuracy")
    >>> model.fit(x, y, validation_data=test, epochs=10, callbacks=[best])
    """

    def __init__(
        self,
        filename,
        monitor="val_loss",
        mode="auto",
        format=None,
        initial_value_threshold=None,
        recalibrate=None,
        verbose=0,
        **options,
    ):
        super().__init__()
        if mode not in ("auto", "min", "max"):
            raise ValueError(
                "`mode` must be 'auto', 'min' or 'max'. "
                f"Received: mode={mode!r}"
            )
        from tflite_export import Format, export_tflite

        # Raises TypeError if there is no such option.
        inspect.signature(export_tflite).bind(None, filename, **options)
        check_can_be_repeated("recalibrate", recalibrate)
        check_is_finite("recalibrate", recalibrate)
        self.filename = check_target("filename", filename, SUFFIXES)
        self.format = str(Format.of(format, self.filename.suffix))
        self.monitor = monitor
        self.mode = mode
        self.recalibrate = recalibrate
        self.verbose = verbose
        self.options = options
        self.best = initial_value_threshold
        self.best_epoch = None
        self.report = None
        self._training = self._recalibrated = False

    def on_train_begin(self, logs=None):
        import tflite_export

        self._training = True
        check_target("filename", self.filename, SUFFIXES)
        if self.recalibrate is not None:
            input_batches(self.recalibrate, self.model)  # Raises an error now.
        if is_built(self.model):
            options = {**self.options, "tolerance": math.inf}
            # The trained model may be closer to its file than this one.
            with contextlib.suppress(tflite_export.ValidationError):
                trial_export(self.model, self.format, **options)

    def on_train_end(self, logs=None):
        self._training = False

    def on_epoch_begin(self, epoch, logs=None):
        self._recalibrated = False

    def on_test_begin(self, logs=None):
        if self._training:
            self._recalibrate()

    def _recalibrate(self):
        if self.recalibrate is not None and not self._recalibrated:
            recalibrate_batch_norm(self.model, self.recalibrate)
            self._recalibrated = True

    def on_epoch_end(self, epoch, logs=None):
        logs = logs or {}
        if self.mode == "auto":
            self.mode = _mode_of(self.monitor, self.model)
        if self.monitor not in logs:
            warnings.warn(
                f"`ExportBest` finds no '{self.monitor}' in the logs. "
                f"Received: {sorted(logs)}",
                stacklevel=2,
            )
        elif self._is_better(float(logs[self.monitor])):
            self._export(epoch, float(logs[self.monitor]))

    def _is_better(self, value):
        if math.isnan(value) or self.best is None:
            return not math.isnan(value)
        return value < self.best if self.mode == "min" else value > self.best

    def _export(self, epoch, value):
        import tflite_export

        self._recalibrate()
        try:
            self.report = tflite_export.export_tflite(
                self.model, self.filename, self.format, **self.options
            )
        except EXPORT_ERRORS as error:
            # Do not lose hours of training because of this file.
            warnings.warn(
                f"Epoch {epoch} was not exported to '{self.filename}': {error}",
                stacklevel=2,
            )
            return
        self.best, self.best_epoch = value, epoch
        if self.verbose:
            print(
                f"\nEpoch {epoch + 1}: {self.monitor} is {value:.5g}, the best "
                f"so far. Wrote {self.filename} with "
                f"{self.report.file_bytes:,} bytes"
            )


def _mode_of(monitor, model):
    """Returns "min" or "max", as Keras itself would decide."""
    judge = keras.callbacks.EarlyStopping(monitor, patience=2)
    judge.set_model(model)
    judge.on_train_begin()
    try:
        for epoch in (0, 1):
            judge.on_epoch_end(epoch, {monitor: float(epoch)})
    except ValueError as error:
        raise ValueError(
            f"`ExportBest` does not know whether '{monitor}' should be small "
            "or large. Set `mode='min'` or `mode='max'`. "
            f"Received: monitor='{monitor}', mode='auto'"
        ) from error
    return "max" if judge.best_epoch == 1 else "min"
