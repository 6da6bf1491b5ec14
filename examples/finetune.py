"""Turns a trained network into a binary one and trains it back to accuracy.

    python examples/finetune.py --epochs 5
    python examples/finetune.py --model my.keras --data my.npz --no-augment
    python examples/finetune.py --report results/finetune

The network is the ResNet-8 of MLPerf Tiny on CIFAR-10, unless `--model` and
`--data` name others: a classifier that ends in a softmax, and a file with the
arrays x_train, y_train, x_test and y_test.

`keras_lab.fine_tune` does the work, for each scheme and seed. The test accuracy
is measured at each stage: of the float network, right after binarization, with
batch norm recalibrated, after fine-tuning, and of the exported file. Each run
writes a JSON file with the numbers, the `.keras` and the `.tflz` file. An
interrupted run continues after its last whole epoch when you give the same
command again. `--validation` chooses settings without looking at the test
images: it trains on 45,000 images and measures on the other 5,000.
"""

import argparse
import collections
import itertools
import json
import math
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import keras_lab
import tflite_export
from examples.environment import environment, origin, write_json
from examples.finetune_figure import draw
from examples.finetune_trials import SignOfReLU, TwoSteps, center_kernels
from examples.pages import markdown_table, mean_and_spread, show_table
from examples.paper import data as datasets
from examples.paper.data import Part
from keras_lab.quantizers import BWN, LAB, BinaryConnect

RESNET8 = "cifar10_resnet8_mlperf_tiny.h5"
RESNET8_URL = (
    "https://github.com/mlcommons/tiny/raw/"
    "1afd2c9820f795965a6134facd0b4dfae41ef23f/benchmark/training/"
    "image_classification/trained_models/pretrainedResnet.h5"
)
RESNET8_HASH = (
    "5f938a8eea605438cc7360aa13c987bc6d7bd0c8d931b2917361ae7ae4eeda2f"
)
# What a row of the table is called, and its quantizer.
SCHEMES = {
    "lab": ("LAB", LAB()),
    "lab_channel": ("LAB per channel", LAB("channel")),
    "bwn": ("BWN", BWN()),
    "bwn_channel": ("BWN per channel", BWN("channel")),
    "binary_connect": ("BinaryConnect", BinaryConnect()),
}
STAGES = ("float", "binarized", "recalibrated", "fine-tuned", "exported")
# What the runs of a row have in common, besides the scheme. The defaults are
# not shown in the table.
SETTINGS = {
    "model": RESNET8,
    "epochs": None,
    "images": None,
    "validation": False,
    "batch": 128,
    "learning_rate": 0.002,
    "distill": 1.0,
    "temperature": 2.0,
    "progressive": 0,
    "keep": None,
    "center": None,
    "inputs": None,
    "two_step": 0,
    "augment": True,
}
BORDER = 4


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


def run(scheme, seed, trained, train, test, options) -> None:
    """One scheme and one seed, from the float network to the exported file."""
    path = options.output / f"{scheme}-{seed}.json"
    settings = {name: getattr(options, name) for name in SETTINGS}
    result = previous(path, {"scheme": scheme, "seed": seed, **settings})
    if "exported" in result.get("accuracy", {}):
        print(f"{path} is finished.")
        return
    keras.utils.set_random_seed(seed)
    batches = Batches(*(a[: options.images] for a in train), options, seed)
    backup = keras.callbacks.BackupAndRestore(
        path.with_suffix(".backup"), delete_checkpoint=False
    )
    progressive = keras_lab.callbacks.ProgressiveBinarization(
        options.progressive
    )
    if options.two_step:
        progressive = TwoSteps(options.two_step)

    def filters(layer):
        return layer.name not in (options.keep or ())

    if options.center:
        center_kernels(trained, filters, options.center == "standard")
    model, history = keras_lab.fine_tune(
        trained,
        batches,
        validation_data=test,
        epochs=options.epochs,
        kernel_quantizer=SCHEMES[scheme][1],
        input_quantizer=SignOfReLU() if options.inputs else None,
        filters=filters,
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        learning_rate=options.learning_rate,
        shuffle=False,
        distillation_weight=options.distill,
        distillation_loss=keras_lab.SoftTargets(options.temperature),
        callbacks=[progressive, Recorder(path, result, batches), backup],
        verbose=2,
        # On a CPU, XLA takes 1.7 times as long for the convolutions.
        jit_compile=False,
    )
    accuracy = {k: values["accuracy"] for k, values in history.stages.items()}
    model.save(path.with_suffix(".keras"))
    report = tflite_export.export_tflite(
        model,
        path.with_suffix(".tflz"),
        other_weights="int8",
        validation_data=test.x[:100],
        tolerance=math.inf,  # The accuracy of the file is measured below.
    )
    (scores,) = tflite_export.run(path.with_suffix(".tflz"), test.x).values()
    accuracy["exported"] = float(np.mean(scores.argmax(axis=-1) == test.y))
    print(f"{path.stem}: exported {accuracy['exported']:.2%}")
    result["accuracy"] = {k: round(v, 6) for k, v in accuracy.items()}
    result["file_bytes"] = report.file_bytes
    result["float_file_bytes"] = report.float_bytes
    write_json(path, {**result, "environment": environment()})


def previous(path, settings) -> dict:
    """The result in a file, finished or not, or a new one."""
    result = {**settings, "history": {}}
    if path.exists():
        result = SETTINGS | json.loads(path.read_text())
    for name, value in settings.items():
        if result[name] != value:
            sys.exit(
                f"error: {path} was made with {name}={result[name]!r}. "
                f"Name another --output. Received: {name}={value!r}"
            )
    return result


class Recorder(keras.callbacks.Callback):
    """Writes the numbers of each epoch to the JSON file of a run."""

    def __init__(self, path, result, batches):
        super().__init__()
        self.path, self.result, self.batches = path, result, batches

    def on_epoch_begin(self, epoch, logs=None):
        self.batches.epoch = epoch

    def on_epoch_end(self, epoch, logs=None):
        history = self.result["history"]
        for name in ("loss", "accuracy", "val_loss", "val_accuracy"):
            # An interrupted run may have recorded this epoch already.
            before = history.get(name, [])[:epoch]
            history[name] = [*before, round(float(logs[name]), 5)]
        write_json(self.path, self.result)


def load(options):
    """Returns the float network and the data to train and test it with."""
    path = options.model
    if path is None:
        folder = datasets.data_folder()
        path = keras.utils.get_file(
            RESNET8,
            RESNET8_URL,
            cache_dir=folder,
            cache_subdir="pretrained",
            file_hash=RESNET8_HASH,
        )
    options.model = Path(path).name
    model = keras_lab.files.load_model(path)
    if options.data is not None:
        with np.load(options.data) as arrays:
            train, test = (
                Part(arrays[f"x_{part}"], arrays[f"y_{part}"].ravel())
                for part in ("train", "test")
            )
    else:
        data = datasets.cifar10(raw=True)
        train, test = data.train, data.validation
        if not options.validation:
            # The float network was trained on the validation images, too.
            train, test = (
                Part(*map(np.concatenate, zip(train, test))),
                data.test,
            )
    return model, train, test._replace(x=test.x.astype("float32"))


def read(folder: Path) -> dict[tuple, list[dict]]:
    """Reads the results below a folder and groups them by their settings."""
    results = collections.defaultdict(list)
    for path in sorted(folder.rglob("*-*.json")):
        result = SETTINGS | json.loads(path.read_text())
        if "exported" in result.get("accuracy", {}):
            results[describe(result), result["epochs"]].append(result)

    def trials_last(item):
        (title, epochs), _ = item
        return "validation" in title, epochs, title

    return dict(sorted(results.items(), key=trials_last))


def describe(result) -> str:
    """The scheme of a result, and which of its settings are not the default."""
    words = [SCHEMES[result["scheme"]][0]]
    for name, default in SETTINGS.items():
        value = result[name]
        if name == "epochs" or value == default:
            continue
        if isinstance(value, list):
            value = " ".join(value)
        name = name.replace("_", " ")
        words.append(name if value is True else f"{name} {value}")
    return ", ".join(words)


def table(results) -> str:
    """Accuracy in percent at each stage, over the runs."""
    lines = []
    for (title, epochs), runs in results.items():
        stages = [
            mean_and_spread([100 * run["accuracy"][stage] for run in runs], 2)
            for stage in STAGES
        ]
        size = np.mean([run["file_bytes"] for run in runs]) / 1000
        lines.append([title, epochs, len(runs), *stages, f"{size:.1f} kB"])
    return markdown_table(("scheme", "epochs", "runs", *STAGES, "file"), lines)


def report(folder: Path) -> None:
    """Prints the table of a folder, and writes its page's table and figure."""
    results = read(folder)
    if (folder / "README.md").exists():
        draw(results, folder / "accuracy.png")
    runs = itertools.chain(*results.values())
    about = origin(run["environment"] for run in runs)
    show_table(folder, f"{table(results)}\n\n{about}")


def parse(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--report", type=Path, help="only the table of a folder of results")
    add("--model", help="a .keras or .h5 file; ResNet-8 if not given")
    add("--data", help="an .npz file; CIFAR-10 if not given")
    add("--scheme", nargs="+", choices=SCHEMES, default=["lab"])
    add("--seed", nargs="+", type=int, default=[1])
    add("--epochs", type=int, default=30)
    add("--batch", type=int, default=128)
    add("--learning-rate", type=float, default=0.002)
    add("--distill", type=float, default=1.0, help="its weight in the loss")
    add("--temperature", type=float, default=2.0, help="of distillation")
    add("--progressive", type=int, default=0, help="epochs; default: none")
    add("--keep", nargs="+", help="names of more layers that stay float")
    add("--center", choices=("mean", "standard"), help="the latent kernels")
    add("--inputs", choices=("sign",), help="binarize them, too")
    add("--two-step", type=int, default=0, help="epochs with float weights")
    add("--images", type=int, help="train only on the first N images")
    add("--validation", action="store_true", help="leave out the test images")
    add("--no-augment", dest="augment", action="store_false")
    add("--output", type=Path, default=Path("finetune"))
    options = parser.parse_args(argv)
    if options.model and not options.data:
        parser.error("--model needs --data, to train and to test it on.")
    for name in ("progressive", "two_step"):
        if not 0 <= getattr(options, name) < options.epochs:
            option = name.replace("_", "-")
            parser.error(f"--{option} must be less than --epochs.")
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
            run(scheme, seed, model, train, test, options)
    report(options.output)


if __name__ == "__main__":
    main()
