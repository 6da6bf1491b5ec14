"""`ExportBest`: the `.tflite` file of the best epoch."""

import math
import re
import warnings

import keras

from keras_lab.binary_weight import binary_weights
from keras_lab.files import check_target

__all__ = ["ExportBest"]

# A metric of such a name is better the larger it is.
LARGER_IS_BETTER = re.compile(r"acc$|accuracy|auc$|precision|recall|f1|iou")
EXPORT_OPTIONS = {"batch_size", "validation_data", "tolerance"}


class ExportBest(keras.callbacks.Callback):
    """Writes the `.tflite` file of the best epoch so far.

    As `keras.callbacks.ModelCheckpoint` with `save_best_only=True`, but what it
    writes is what `tflite_export.export_tflite` does: one bit a weight. The
    file is compared with the model in the stock interpreter before it takes the
    place of the one before, so there is a whole file at any time. Where an
    epoch cannot be exported, it warns, and the file before stays.

    Args:
        filename: Where to write, ending in `.tflite`.
        monitor: The name in the logs that says what is best. Defaults to
            `"val_loss"`.
        mode: `"min"`, `"max"`, or `"auto"`: `"max"` for accuracy, AUC,
            precision, recall, F1 and IoU by their names, `"min"` otherwise.
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
        if mode == "auto":
            mode = "max" if LARGER_IS_BETTER.search(monitor) else "min"
        self.mode = mode
        self.verbose = verbose
        self.options = options
        self.best = initial_value_threshold
        self.best_epoch = None
        self.report = None
        self._warned = False

    def on_train_begin(self, logs=None):
        if not binary_weights(self.model.weights):
            raise ValueError(
                f"Model '{self.model.name}' has no binary weights to export. "
                "Build it of the layers of keras_lab, such as "
                "`keras_lab.BinaryDense`."
            )

    def on_epoch_end(self, epoch, logs=None):
        logs = logs or {}
        if self.monitor not in logs:
            self._warn_of_missing(logs)
        elif self._is_better(float(logs[self.monitor])):
            self._export(epoch, float(logs[self.monitor]))

    def _is_better(self, value):
        if math.isnan(value) or self.best is None:
            return not math.isnan(value)
        return value < self.best if self.mode == "min" else value > self.best

    def _export(self, epoch, value):
        import tflite_export

        try:
            self.report = tflite_export.export_tflite(
                self.model, self.filename, self.format, **self.options
            )
        except (
            tflite_export.ConversionError,
            tflite_export.ValidationError,
            OSError,
        ) as error:
            # Hours of training are worth more than this file.
            warnings.warn(
                f"Epoch {epoch} is not exported to '{self.filename}': {error}",
                stacklevel=2,
            )
            return
        self.best, self.best_epoch = value, epoch
        if self.verbose:
            print(
                f"\nEpoch {epoch + 1}: {self.monitor} is {value:.5g}, the best "
                f"so far: {self.report.file_bytes:,} bytes in {self.filename}"
            )

    def _warn_of_missing(self, logs):
        # Once: with `validation_freq` it may be there in some epochs only.
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"`ExportBest` finds no '{self.monitor}' in the logs. "
                f"Received: {sorted(logs)}",
                stacklevel=2,
            )
