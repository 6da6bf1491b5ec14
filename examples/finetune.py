"""Turns a trained network into a binary one and trains it back to accuracy.

    python examples/finetune.py --epochs 5
    python examples/finetune.py --model my.keras --data my.npz --no-augment
    python examples/finetune.py --report results/finetune

The network is the ResNet-8 of MLPerf Tiny on CIFAR-10, unless `--model` and
`--data` name others: a classifier that ends in a softmax, and a file with the
arrays x_train, y_train, x_test and y_test.

For each scheme it measures the test accuracy at each stage: of the float
network, right after binarization, with batch norm recalibrated, after
fine-tuning, and of the exported file. It writes a JSON file with the numbers,
the `.keras` and the packed `.tflite` file, and prints a table. An interrupted
run continues after its last whole epoch when you give the same command again.
"""

import argparse
import collections
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import keras_lab
import tflite_export
from examples.environment import environment, write_json, write_text
from examples.paper import data as datasets
from examples.paper.schemes import SCHEMES

RESNET8 = "cifar10_resnet8_mlperf_tiny.h5"
RESNET8_URL = (
    "https://github.com/mlcommons/tiny/raw/"
    "1afd2c9820f795965a6134facd0b4dfae41ef23f/benchmark/training/"
    "image_classification/trained_models/pretrainedResnet.h5"
)
RESNET8_HASH = (
    "5f938a8eea605438cc7360aa13c987bc6d7bd0c8d931b2917361ae7ae4eeda2f"
)
BINARY = ("lab", "bwn", "binary_connect")
STAGES = ("float", "binarized", "recalibrated", "with moving averages",
          "fine-tuned", "exported")  # fmt: skip
# What a row of the table has in common, besides the scheme.
SETTINGS = ("images", "epochs", "distill", "progressive", "model", "batch",
            "learning_rate", "augment")  # fmt: skip
BORDER = 4
TEMPERATURE = 2.0
RECALIBRATION_BATCHES = 40
BEGIN, END = "<!-- finetune: table -->\n", "<!-- finetune: end -->"


Part = collections.namedtuple("Part", ["x", "y"])


class Batches(keras.utils.PyDataset):
    """The training images in a new order in each epoch, moved and mirrored.

    Order and changes depend only on the seed and the number of the epoch.
    """

    def __init__(self, x, y, options, seed):
        super().__init__()
        self.x, self.y, self.batch = x, y, options.batch
        self.augment, self.seed, self.epoch = options.augment, seed, 0

    def __len__(self):
        return len(self.x) // self.batch

    def __getitem__(self, index):
        order = np.random.default_rng([self.seed, self.epoch])
        order = order.permutation(len(self.x))
        chosen = order[index * self.batch : (index + 1) * self.batch]
        x = self.x[chosen]
        if self.augment:
            rng = np.random.default_rng([self.seed, self.epoch, index])
            x = move_and_mirror(x, rng)
        return x.astype("float32"), self.y[chosen]


def move_and_mirror(images, rng):
    """Moves each image by up to four pixels and mirrors half of them."""
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

    def __init__(self, scheme, seed, float_model, train, test, options):
        self.path = options.output / f"{scheme}-{seed}.json"
        self.float_model, self.test = float_model, test
        self.options = options
        settings = {name: getattr(options, name) for name in SETTINGS}
        self.configuration = {"scheme": scheme, "seed": seed, **settings}
        x, y = (array[: options.images] for array in train)
        self.batches = Batches(x, y, options, seed)

    def __call__(self):
        self.result = self._previous() or {
            **self.configuration,
            "environment": environment(),
            "accuracy": {},
            "history": {},
        }
        if "exported" in self.result["accuracy"]:
            print(f"{self.path} is finished.")
            return
        self._build()
        if not self.result["history"]:
            scores = self.float_model.predict(self.test.x, 500, verbose=0)
            self.measure("float", scores)
            self.measure("binarized")
            self.recalibrate()
            self.measure("recalibrated")
        self._fine_tune()
        self._export()

    def _previous(self):
        if not self.path.exists():
            return None
        result = json.loads(self.path.read_text())
        for name, value in self.configuration.items():
            if result[name] != value:
                sys.exit(
                    f"error: {self.path} was made with {name}={result[name]!r}."
                    f" Name another --output. Received: {name}={value!r}"
                )
        return result

    def _build(self):
        options = self.options
        keras.utils.set_random_seed(self.configuration["seed"])
        self.model, report = keras_lab.binarize_model(
            self.float_model,
            SCHEMES[self.configuration["scheme"]].kernel_quantizer,
            return_report=True,
        )
        print(report)
        self.student = keras_lab.Distiller(
            self.model.inputs,
            self.model.outputs,
            teacher=self.float_model,
            distillation_loss=keras_lab.SoftTargets(TEMPERATURE),
            weight=options.distill,
        )
        rate = keras.optimizers.schedules.CosineDecay(
            options.learning_rate, options.epochs * len(self.batches)
        )
        self.student.compile(
            keras_lab.LABAdam(rate),
            "sparse_categorical_crossentropy",
            metrics=["accuracy"],
        )

    def _fine_tune(self):
        progressive = keras_lab.callbacks.ProgressiveBinarization(
            self.options.progressive
        )
        backup = keras.callbacks.BackupAndRestore(
            self.path.with_suffix(".backup"), delete_checkpoint=False
        )
        self.student.fit(
            self.batches,
            epochs=self.options.epochs,
            shuffle=False,
            verbose=2,
            callbacks=[progressive, Recorder(self), backup],
        )

    def recalibrate(self):
        images = self.batches.x[: self.options.batch * RECALIBRATION_BATCHES]
        keras_lab.recalibrate_batch_norm(
            self.model, images.astype("float32"), self.options.batch
        )

    def measure(self, stage, scores=None):
        if scores is None:
            scores = self.model.predict(self.test.x, 500, verbose=0)
        accuracy = float(np.mean(scores.argmax(axis=-1) == self.test.y))
        self.result["accuracy"][stage] = accuracy
        print(f"{self.path.stem}: {stage} {accuracy:.2%}", flush=True)

    def _export(self):
        self.model.save(self.path.with_suffix(".keras"))
        path = self.path.with_suffix(".tflite")
        report = tflite_export.export_tflite(
            self.model, path, validation_data=self.test.x[:100]
        )
        (scores,) = tflite_export.run(path, self.test.x).values()
        self.measure("exported", scores)
        self.result["file_bytes"] = report.file_bytes
        self.result["float_file_bytes"] = report.float_bytes
        write_json(self.path, self.result)


class Recorder(keras.callbacks.Callback):
    """Writes the numbers of each epoch to the JSON file of a run."""

    def __init__(self, run):
        super().__init__()
        self.run = run

    def on_epoch_begin(self, epoch, logs=None):
        self.run.batches.epoch = epoch

    def on_epoch_end(self, epoch, logs=None):
        run, history = self.run, self.run.result["history"]
        run.measure("with moving averages")
        run.recalibrate()
        run.measure("fine-tuned")
        for name, value in (
            ("loss", logs["loss"]),
            ("train_accuracy", logs["accuracy"]),
            ("test_accuracy", run.result["accuracy"]["fine-tuned"]),
        ):
            # An interrupted run may have recorded this epoch already.
            before = history.get(name, [])[:epoch]
            history[name] = [*before, round(float(value), 5)]
        run.result["epochs_done"] = epoch + 1
        write_json(run.path, run.result)


def load(options):
    """Returns the float network and the data to train and test it with."""
    if options.model is None:
        folder = datasets.data_folder() / "pretrained"
        path = keras.utils.get_file(
            RESNET8,
            RESNET8_URL,
            cache_dir=folder.parent,
            cache_subdir=folder.name,
            file_hash=RESNET8_HASH,
        )
    else:
        path = options.model
    options.model = Path(path).name
    model = keras_lab.files.load_model(path)
    if options.data is None:
        data = datasets.cifar10(raw=True)
        # No epoch is chosen by the validation images, and the float network was
        # trained on them.
        train = map(np.concatenate, zip(data.train, data.validation))
        train, test = Part(*train), Part(*data.test)
    else:
        with np.load(options.data) as arrays:
            train, test = (
                Part(arrays[f"x_{part}"], arrays[f"y_{part}"].ravel())
                for part in ("train", "test")
            )
    return model, train, test._replace(x=test.x.astype("float32"))


def read(folder: Path) -> dict[tuple, list[dict]]:
    """Reads the results below a folder and groups them by their settings."""
    results = collections.defaultdict(list)
    for path in sorted(folder.rglob("*-*.json")):
        result = json.loads(path.read_text())
        key = (result["scheme"], *(result[name] for name in SETTINGS))
        results[key].append(result)
    # LAB first; fewer images first.
    return dict(
        sorted(
            results.items(),
            key=lambda item: (str(item[0][1:]), BINARY.index(item[0][0])),
        )
    )


def table(results) -> str:
    """Accuracy in percent at each stage: mean ± standard deviation."""
    heads = ("scheme", *SETTINGS[:4], "runs", *STAGES)
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for runs in results.values():
        cells = [*describe(runs[0]), str(len(runs))]
        for stage in STAGES:
            values = 100 * np.array([run["accuracy"][stage] for run in runs])
            spread = f" ± {values.std(ddof=1):.2f}" if np.ptp(values) else ""
            cells.append(f"{values.mean():.2f}{spread}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def origin(results) -> str:
    """When the results were measured, and with which versions."""
    about = [run["environment"] for runs in results.values() for run in runs]
    names = ("date", "keras_lab", "keras", "tensorflow", "numpy")
    found = {
        n: sorted({a.get(n, "before 0.1.0") for a in about}) for n in names
    }
    texts = {name: " to ".join(values) for name, values in found.items()}
    date = texts.pop("date")
    versions = ", ".join(f"{name} {text}" for name, text in texts.items())
    return f"Measured {date}. {versions}."


def describe(run):
    images = "all" if run["images"] is None else f"{run['images']:,}"
    distilled = "yes" if run["distill"] else "no"
    epochs = run["progressive"]
    progressive = f"{epochs} epoch{'s' * (epochs > 1)}" if epochs else "no"
    title = SCHEMES[run["scheme"]].title
    return title, images, str(run["epochs"]), distilled, progressive


def report(folder: Path) -> None:
    """Prints the table of a folder, and puts it into its page if it has one."""
    results = read(folder)
    text = f"{table(results)}\n\n{origin(results)}"
    print("\n" + text)
    page = folder / "README.md"
    if page.exists():
        before, _, rest = page.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        write_text(page, f"{before}{BEGIN}{text}\n{END}{after}")


def parse(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--report", type=Path, help="only the table of a folder of results")
    add("--model", help="a .keras or .h5 file; ResNet-8 if not given")
    add("--data", help="an .npz file; CIFAR-10 if not given")
    add("--scheme", nargs="+", choices=BINARY, default=BINARY)
    add("--seed", nargs="+", type=int, default=[1])
    add("--epochs", type=int, default=30)
    add("--batch", type=int, default=128)
    add("--learning-rate", type=float, default=0.002)
    add("--distill", type=float, default=1.0, help="its weight in the loss")
    add("--progressive", type=int, default=0, help="epochs; default: none")
    add("--images", type=int, help="train only on the first N images")
    add("--no-augment", dest="augment", action="store_false")
    add("--output", type=Path, default=Path("finetune"))
    options = parser.parse_args(argv)
    if options.model and not options.data:
        parser.error("--model needs --data, to train and to test it on.")
    if not 0 <= options.progressive < options.epochs:
        parser.error("--progressive must be less than --epochs.")
    return options


def main(argv=None):
    options = parse(argv)
    if options.report:
        report(options.report)
        return
    keras_lab.config.keep_memory()
    try:
        model, train, test = load(options)
    except (datasets.DataError, OSError, ValueError, KeyError) as error:
        sys.exit(f"error: {error}")
    options.output.mkdir(parents=True, exist_ok=True)
    for seed in options.seed:
        for scheme in options.scheme:
            Run(scheme, seed, model, train, test, options)()
    report(options.output)


if __name__ == "__main__":
    main()
