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

import argparse
import os
import sys
import time
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import keras_lab
import tflite_export
from benchmarks.harness import environment
from examples.char_lstm import positive
from examples.finetune_report import draw, read, table
from examples.paper import checkpoints
from examples.paper.schemes import SCHEMES
from examples.paper.training import duration, epoch_order
from keras_lab import datasets
from keras_lab.binary_weight import binary_weights
from keras_lab.callbacks import ProgressiveBinarization
from keras_lab.datasets.files import Source, locate
from keras_lab.loading import load_model

RESNET8 = Source(
    "pretrained/cifar10_resnet8_mlperf_tiny.h5",
    (
        "https://github.com/mlcommons/tiny/raw/"
        "1afd2c9820f795965a6134facd0b4dfae41ef23f/benchmark/training/"
        "image_classification/trained_models/pretrainedResnet.h5",
    ),
    "sha256:5f938a8eea605438cc7360aa13c987bc6d7bd0c8d931b2917361ae7ae4eeda2f",
)
BINARY = ("lab", "bwn", "binary_connect")
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

    def __init__(self, scheme, seed, float_model, data, options):
        self.scheme, self.seed, self.options = scheme, seed, options
        self.float_model, self.data = float_model, data
        self.path = options.output / f"{scheme}-{seed}.json"
        self.model = self.trained = self.result = None

    def __call__(self):
        options = self.options
        configuration = {
            "scheme": self.scheme,
            "seed": self.seed,
            "model": Path(options.model).name,
            **{name: getattr(options, name) for name in SETTINGS},
        }
        before = checkpoints.previous(self.path, configuration, options.epochs)
        self._build()
        if before is None:
            self.result = {
                **configuration,
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
            checkpoints.restore(self.path, self.trained)
        self._fine_tune()

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

    def end_epoch(self, epoch, logs, began, epochs_here):
        """Measures, writes down and saves what an epoch has brought."""
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
            for weight in binary_weights(self.model.variables)
        }
        if is_last:
            self._export()
        checkpoints.save(self.path, self.trained, self.result)
        spent = time.monotonic() - began
        left = spent / epochs_here * (self.options.epochs - epoch - 1)
        self._log(
            f"epoch {epoch + 1} of {self.options.epochs}: training images "
            f"{logs['accuracy']:.2%}, {duration(left)} left"
        )

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
        self._log(f"exported {self.result['accuracy']['exported']:.2%}")

    def _log(self, text):
        print(f"{self.scheme} {self.seed}: {text}", flush=True)


class Recorder(keras.callbacks.Callback):
    """Starts the epochs of the data, and ends those of the run."""

    def __init__(self, run):
        super().__init__()
        self.run = run

    def on_train_begin(self, logs=None):
        self.began = time.monotonic()
        self.epochs_here = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.run.batches.start(epoch)

    def on_epoch_end(self, epoch, logs=None):
        self.epochs_here += 1
        self.run.end_epoch(epoch, logs, self.began, self.epochs_here)


def load_data(options):
    """The data set: CIFAR-10 as it is, or that of the user's file."""
    if options.data is None:
        data = datasets.cifar10(options.data_dir, raw=True)
        # No epoch is chosen by them, and the float network has seen them.
        train = map(np.concatenate, zip(data.train, data.validation))
        return datasets.Dataset(
            datasets.Part(*train), None, data.test, data.classes, data.files
        )
    try:
        with np.load(options.data, allow_pickle=False) as arrays:
            parts = [
                datasets.Part(arrays[f"x_{part}"], arrays[f"y_{part}"].ravel())
                for part in ("train", "test")
            ]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise datasets.DataError(f"{options.data}: {error}") from error
    classes = int(parts[0].y.max()) + 1
    return datasets.Dataset(parts[0], None, parts[1], classes, {})


def parse(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--model", help="a .keras or .h5 file; ResNet-8 if not given")
    add("--data", help="an .npz file; CIFAR-10 if not given")
    add("--data-dir", help="where the data sets are; see keras_lab.datasets")
    add("--scheme", nargs="+", choices=BINARY, default=BINARY)
    add("--seed", nargs="+", type=int, default=[1])
    add("--epochs", type=positive, default=30)
    add("--batch", type=positive, default=128)
    add("--learning-rate", type=float, default=0.002)
    add(
        "--distill",
        type=float,
        default=1.0,
        help="the weight of what the float network says; 0 for none",
    )
    add("--temperature", type=float, default=2.0, help="of that")
    add(
        "--progressive",
        type=int,
        default=0,
        help="epochs in which the share of the binary weights grows",
    )
    add("--progressive-by", choices=("share", "layer"), default="share")
    add("--images", type=positive, help="only the first so many to train on")
    add(
        "--no-augment",
        dest="augment",
        action="store_false",
        help="do not move and mirror the images",
    )
    add("--output", type=Path, default=Path("finetune"))
    options = parser.parse_args(argv)
    if options.model and not options.data:
        parser.error("--model needs --data, to train and to test it on.")
    return options


def main(argv=None):
    options = parse(argv)
    try:
        data = load_data(options)
        if options.model is None:
            folder = datasets.data_folder(options.data_dir)
            options.model = locate(RESNET8, folder)
        float_model = load_model(options.model)
    except (datasets.DataError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    for seed in options.seed:
        for scheme in options.scheme:
            try:
                Run(scheme, seed, float_model, data, options)()
            except checkpoints.Finished as finished:
                print(finished)
            except checkpoints.RunError as error:
                sys.exit(f"error: {error}")
            except KeyboardInterrupt:
                sys.exit("\nInterrupted. The same command goes on from here.")
    results = read(options.output)
    print("\n" + table(results))
    draw(results, options.output / "figure.png")
    print(f"\nFiles and figure are in {options.output}")


if __name__ == "__main__":
    main()
