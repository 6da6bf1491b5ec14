"""`ExportBest`: the `.tflite` file of the best epoch."""

import math
import warnings

import keras

from keras_lab.checks import is_built
from keras_lab.exporting import rehearse_export, try_export
from keras_lab.files import check_target

__all__ = ["ExportBest"]

EXPORT_OPTIONS = {"batch_size", "validation_data", "tolerance"}


class ExportBest(keras.callbacks.Callback):
    """Writes the `.tflite` file of the best epoch so far.

    As `keras.callbacks.ModelCheckpoint` with `save_best_only=True`, but what it
    writes is what `tflite_export.export_tflite` does: one bit a weight. The
    file is compared with the model in the stock interpreter before it takes the
    place of the one before, so there is a whole file at any time.

    When the training begins, the model is exported once and the file thrown
    away: what cannot work is an error then, not hours later. (Not a model that
    its first step builds.) Where an epoch cannot be exported all the same, it
    warns, and the file before stays.

    Args:
        filename: Where to write, ending in `.tflite`.
        monitor: The name in the logs that says what is best. Defaults to
            `"val_loss"`.
        mode: `"min"`, `"max"`, or `"auto"`: as Keras' callbacks do, `"min"`
            for a loss, and for a metric what its class says. Where that is not
            known, it is an error at the end of the first epoch.
        format: As in `export_tflite`. Defaults to `"packed"`.
        initial_value_threshold: What to be better than at first, for instance
            the best value before the training was interrupted.
        verbose: 0, or 1 to print a line for each file. Defaults to `0`.
        **options: Other arguments of `export_tflite`: `batch_size`,
            `validation_data`, `tolerance`.

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
        format="packed",
        initial_value_threshold=None,
        verbose=0,
        **options,
    ):
        super().__init__()
        if not isinstance(monitor, str):
            raise TypeError(
                "`monitor` must be a name in the logs, such as 'val_loss'. "
                f"Received: monitor={monitor!r}"
            )
        if mode not in ("auto", "min", "max"):
            raise ValueError(
                "`mode` must be 'auto', 'min' or 'max'. "
                f"Received: mode={mode!r}"
            )
        unknown = set(options) - EXPORT_OPTIONS
        if unknown:
            raise TypeError(
                "`ExportBest` passes `batch_size`, `validation_data` and "
                f"`tolerance` to `export_tflite`. Received: {sorted(unknown)}"
            )
        from tflite_export.export import check_format

        self.filename = check_target("filename", filename, (".tflite",))
        self.format = str(check_format(format))
        self.monitor = monitor
        self.mode = mode
        self.verbose = verbose
        self.options = options
        self.best = initial_value_threshold
        self.best_epoch = None
        self.report = None
        self._warned = set()

    def on_train_begin(self, logs=None):
        import tflite_export

        check_target("filename", self.filename, (".tflite",))
        if is_built(self.model):
            options = {**self.options, "tolerance": math.inf}
            _, error = rehearse_export(self.model, self.format, **options)
            # How well the file agrees may be another thing once it is trained.
            if error and not isinstance(error, tflite_export.ValidationError):
                raise error

    def on_epoch_end(self, epoch, logs=None):
        logs = logs or {}
        if self.mode == "auto":
            self.mode = _mode_of(self.monitor, self.model)
        if self.monitor not in logs:
            # Once: with `validation_freq` it may be there in some epochs only.
            self._warn_once(
                f"`ExportBest` finds no '{self.monitor}' in the logs. "
                f"Received: {sorted(logs)}"
            )
        elif self._is_better(float(logs[self.monitor])):
            self._export(epoch, float(logs[self.monitor]))

    def _is_better(self, value):
        if math.isnan(value) or self.best is None:
            return not math.isnan(value)
        return value < self.best if self.mode == "min" else value > self.best

    def _export(self, epoch, value):
        report, error = try_export(
            self.model, self.filename, self.format, **self.options
        )
        if error:
            # Hours of training are worth more than this file.
            warnings.warn(
                f"Epoch {epoch} is not exported to '{self.filename}': {error}",
                stacklevel=2,
            )
            return
        self.report = report
        self.best, self.best_epoch = value, epoch
        if self.verbose:
            print(
                f"\nEpoch {epoch + 1}: {self.monitor} is {value:.5g}, the best "
                f"so far: {self.report.file_bytes:,} bytes in {self.filename}"
            )

    def _warn_once(self, message):
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(message, stacklevel=2)


def _mode_of(monitor, model):
    """Whether a value is to be small or large: what Keras itself thinks."""
    judge = keras.callbacks.EarlyStopping(monitor, patience=2)
    judge.set_model(model)
    judge.on_train_begin()
    try:
        for epoch in (0, 1):
            judge.on_epoch_end(epoch, {monitor: float(epoch)})
    except ValueError as error:
        raise ValueError(
            f"`ExportBest` cannot tell whether '{monitor}' is better small or "
            "large: give it `mode='min'` or `mode='max'`. "
            f"Received: monitor='{monitor}', mode='auto'"
        ) from error
    return "max" if judge.best_epoch == 1 else "min"
