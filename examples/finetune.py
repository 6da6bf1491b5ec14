"""Turns a trained network into a binary one, and trains it back to accuracy.

    python examples/finetune.py --epochs 5
    python examples/finetune.py --model my.keras --data my.npz --no-augment

The network is the ResNet-8 of MLPerf Tiny on CIFAR-10, unless `--model` and
`--data` name others: a classifier that ends in a softmax, and a file with the
arrays x_train, y_train, x_test and y_test, as the network takes them.

For each scheme it prints the accuracy on the test images at each stage: of the
float network, right after binarization, with batch norm measured anew, and
after fine-tuning. It writes a JSON file with the numbers, the `.keras` and the
packed `.tflite` file of each network, and a figure of them all. A run that was
interrupted goes on where it stopped.
"""

import functools
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import keras_lab
import tflite_export
from examples.finetune_options import OptionError, load, parse
from examples.finetune_report import ResultError, draw, read, table
from examples.paper import checkpoints
from examples.paper.schemes import SCHEMES
from examples.paper.training import duration, epoch_order
from examples.records import environment
from keras_lab.binary_weight import weights_of
from keras_lab.callbacks import ProgressiveBinarization

# What must be the same for a run to be continued.
SETTINGS = (
    "epochs",
    "batch",
    "learning_rate",
    "distill",
    "temperature",
    "progressive",
    "progressive_by",
    "images",
    "augment",
)
BORDER = 4
RECALIBRATION_BATCHES = 40
# Seconds between two lines of progress: in a terminal, where one takes the
# place of the other, and elsewhere.
PROGRESS_EVERY = {True: 0.5, False: 60}


class Batches(keras.utils.PyDataset):
    """The training images in another order each epoch, moved and mirrored.

    Which, is a function of the seed and of the epoch's number alone.
    """

    def __init__(self, x, y, batch, seed, augment):
        super().__init__()
        self.x, self.y, self.batch = x, y, batch
        self.seed, self.augment = seed, augment
        self.start(0)

    def start(self, epoch):
        self.epoch = epoch
        self.order = epoch_order(len(self.x), self.seed, epoch)

    def __len__(self):
        return len(self.x) // self.batch

    def __getitem__(self, index):
        chosen = self.order[index * self.batch : (index + 1) * self.batch]
        x = self.x[chosen]
        if self.augment:
            rng = np.random.default_rng([self.seed, self.epoch, index])
            x = move_and_mirror(x, rng)
        return x.astype("float32"), self.y[chosen]


def move_and_mirror(images, rng):
    """Each image by up to four pixels each way, and every second mirrored."""
    count, height, width = images.shape[:3]
    border = ((0, 0), (BORDER, BORDER), (BORDER, BORDER), (0, 0))
    padded = np.pad(images, border, mode="reflect")
    rows, columns = rng.integers(0, 2 * BORDER + 1, (2, count, 1, 1))
    columns = columns + np.arange(width)
    mirrored = rng.random((count, 1, 1)) < 0.5
    columns = np.where(mirrored, columns[:, :, ::-1], columns)
    rows = rows + np.arange(height)[:, None]
    return padded[np.arange(count)[:, None, None], rows, columns]


class Run:
    """One scheme and one seed, from the float network to the `.tflite` file."""

    def __init__(self, scheme, seed, float_model, data, names, options):
        self.scheme, self.seed, self.options = scheme, seed, options
        self.float_model, self.data = float_model, data
        self.path = options.output / f"{scheme}-{seed}.json"
        self.configuration = {
            "scheme": scheme,
            "seed": seed,
            **names,
            **{name: getattr(options, name) for name in SETTINGS},
        }
        self.model = self.trained = self.result = None
        self.epochs_saved = 0

    def __call__(self):
        with checkpoints.kept(self.path):
            self._run()

    def _run(self):
        before = self._previous()
        self._build()
        if before is None:
            self.result = {
                **self.configuration,
                "environment": environment(),
                "epochs_done": 0,
                "accuracy": {},
                "history": {},
            }
            self._measure("float", self.float_model)
            self._measure("binarized", self.model)
            self._recalibrate()
            self._measure("recalibrated", self.model)
        else:
            self.result = before
            self.epochs_saved = before["epochs_done"]
            checkpoints.restore(self.path, self.trained)
        if self.epochs_saved < self.options.epochs:
            self._fine_tune()
        self._export()

    def _previous(self):
        try:
            return checkpoints.previous(
                self.path, self.configuration, self.options.epochs, "--output"
            )
        except checkpoints.Finished:
            result = json.loads(self.path.read_text())
            if "exported" in result["accuracy"]:
                raise
            return result  # All but the last stage.

    def _build(self):
        options = self.options
        keras.utils.set_random_seed(self.seed)
        self.model, report = keras_lab.binarize_model(
            self.float_model,
            SCHEMES[self.scheme].kernel_quantizer,
            return_report=True,
        )
        self._log(f"binarized\n{report}")
        self.trained = keras_lab.Distiller(
            self.model.inputs,
            self.model.outputs,
            teacher=self.float_model,
            distillation_loss=keras_lab.SoftTargets(options.temperature),
            weight=options.distill,
        )
        x, y = self.data.train
        x, y = x[: options.images], y[: options.images]
        self.batches = Batches(x, y, options.batch, self.seed, options.augment)
        rate = keras.optimizers.schedules.CosineDecay(
            options.learning_rate, options.epochs * len(self.batches)
        )
        self.trained.compile(
            keras_lab.LABAdam(rate),
            "sparse_categorical_crossentropy",
            metrics=["accuracy"],
        )
        self.trained.optimizer.build(self.trained.trainable_variables)

    def _recalibrate(self):
        images = self.batches.x[: self.options.batch * RECALIBRATION_BATCHES]
        keras_lab.recalibrate_batch_norm(
            self.model, images.astype("float32"), self.options.batch
        )

    def _accuracy(self, predict):
        x, y = self.data.test
        return float(np.mean(predict(x.astype("float32")).argmax(-1) == y))

    def _measure(self, stage, model):
        accuracy = self._accuracy(
            lambda x: model.predict(x, batch_size=500, verbose=0)
        )
        self.result["accuracy"][stage] = accuracy
        self._log(f"{stage} {accuracy:.2%}")

    def _fine_tune(self):
        self.trained.fit(
            self.batches,
            initial_epoch=self.result["epochs_done"],
            epochs=self.options.epochs,
            shuffle=False,
            verbose=0,
            callbacks=[
                ProgressiveBinarization(
                    self.options.progressive, self.options.progressive_by
                ),
                Recorder(self),
            ],
        )

    def end_epoch(self, epoch, logs, left):
        """Measures, writes down and saves what an epoch has brought.

        Args:
            epoch: Its number, from 0.
            logs: Of Keras.
            left: A function that gives the seconds until all epochs are done.
        """
        is_last = epoch + 1 == self.options.epochs
        if is_last:
            self._measure("with moving averages", self.model)
        self._recalibrate()
        self._measure("fine-tuned", self.model)
        for name, value in (
            ("loss", logs["loss"]),
            ("train_accuracy", logs["accuracy"]),
            ("test_accuracy", self.result["accuracy"]["fine-tuned"]),
        ):
            history = self.result["history"].setdefault(name, [])
            history.append(round(float(value), 5))
        self.result["epochs_done"] = epoch + 1
        self.result["alpha"] = {
            weight.alpha.path: weight.alpha.numpy().tolist()
            for weight in weights_of(self.model.variables)
        }
        self._save()
        self._log(
            f"epoch {epoch + 1} of {self.options.epochs}: training images "
            f"{logs['accuracy']:.2%}, {duration(left())} left"
        )

    def _save(self):
        checkpoints.save(self.path, self.trained, self.result)
        self.epochs_saved = self.result["epochs_done"]

    def _export(self):
        self.model.save(self.path.with_suffix(".keras"))
        path = self.path.with_suffix(".tflite")
        report = tflite_export.export_tflite(
            self.model, path, validation_data=self.data.test.x[:100]
        )
        self.result["accuracy"]["exported"] = self._accuracy(
            lambda x: next(iter(tflite_export.run(path, x).values()))
        )
        self.result["file_bytes"] = report.file_bytes
        self.result["float_file_bytes"] = report.float_bytes
        self._save()
        self._log(f"exported {self.result['accuracy']['exported']:.2%}")

    def _log(self, text):
        self.show(f"{text}\n")

    def show(self, text):
        """Prints in the place of a line that was not ended."""
        # To the line's beginning, and away with what is there.
        before = "\r\033[K" if sys.stdout.isatty() else ""
        print(f"{before}{self.scheme} {self.seed}: {text}", end="", flush=True)


class Recorder(keras.callbacks.Callback):
    """Starts the epochs of the data, ends those of the run, shows progress."""

    def __init__(self, run):
        super().__init__()
        self.run = run

    def on_train_begin(self, logs=None):
        self.began = self.shown = time.monotonic()
        self.batches_here = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
        self.run.batches.start(epoch)

    def on_train_batch_end(self, batch, logs=None):
        self.batches_here += 1
        now, terminal = time.monotonic(), sys.stdout.isatty()
        if now - self.shown < PROGRESS_EVERY[terminal]:
            return
        self.shown = now
        count, epochs = len(self.run.batches), self.params["epochs"]
        self.run.show(
            f"epoch {self.epoch + 1} of {epochs}, batch {batch + 1} of "
            f"{count}, {duration(self._left(batch + 1))} left"
            + ("" if terminal else "\n")
        )

    def on_epoch_end(self, epoch, logs=None):
        left = functools.partial(self._left, len(self.run.batches))
        self.run.end_epoch(epoch, logs, left)

    def _left(self, done):
        """The seconds that the batches after the first ones will take."""
        epochs = self.params["epochs"] - self.epoch
        batches = epochs * len(self.run.batches) - done
        return (time.monotonic() - self.began) / self.batches_here * batches


def fine_tune(options):
    """Does all runs, then the table and the figure."""
    model, data, names = load(options)
    options.output.mkdir(parents=True, exist_ok=True)
    for seed in options.seed:
        for scheme in options.scheme:
            run = Run(scheme, seed, model, data, names, options)
            try:
                run()
            except checkpoints.Finished as finished:
                print(finished)
            except KeyboardInterrupt:
                sys.exit(f"\nInterrupted. {_what_is_saved(run)}")
    results = read(options.output)
    print("\n" + table(results))
    draw(results, options.output / "figure.png")
    print(f"\nFiles and figure are in {options.output}")


def _what_is_saved(run):
    if run.epochs_saved:
        return "The same command goes on from here."
    return (
        f"No epoch of {run.scheme} {run.seed} had ended: the same command "
        "begins it anew."
    )


def main(argv=None):
    options = parse(__doc__.split("\n\n")[0], argv)
    try:
        fine_tune(options)
    except (OptionError, ResultError, OSError, checkpoints.RunError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("\nInterrupted.")


if __name__ == "__main__":
    main()
