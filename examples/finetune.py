"""Turns a trained network into a binary one and trains it back to accuracy.

    python examples/finetune.py --epochs 5
    python examples/finetune.py --model my.keras --data my.npz --no-augment

The network is the ResNet-8 of MLPerf Tiny on CIFAR-10, unless `--model` and
`--data` name others: a classifier that ends in a softmax, and a file with the
arrays x_train, y_train, x_test and y_test.

`keras_lab.fine_tune` does the work, for each scheme and seed. The test accuracy
is measured at each stage: of the float network, right after binarization, with
batch norm recalibrated, after fine-tuning, and of the exported file. Each run
writes a JSON file with the numbers, the `.keras` and the `.tflz` file. An
interrupted run continues after its last whole epoch when you give the same
command again. `finetune_trials.py` tries more settings.
"""

import argparse
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
from examples.environment import environment, write_json
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
# The quantizer of each scheme, with its title.
SCHEMES = {
    "lab": ("LAB", LAB()),
    "lab_channel": ("LAB per channel", LAB("channel")),
    "bwn": ("BWN", BWN()),
    "bwn_channel": ("BWN per channel", BWN("channel")),
    "binary_connect": ("BinaryConnect", BinaryConnect()),
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


def stays_float(layer, options) -> bool:
    return options.keep is not None and layer.name in options.keep


def run(
    trained, train, test, options, scheme, seed,
    progressive=None, input_quantizer=None,
) -> None:  # fmt: skip
    """One scheme and one seed, from the float network to the exported file."""
    path = options.output / f"{scheme}-{seed}.json"
    about = {"scheme": scheme, "seed": seed, **settings(options)}
    result = previous(path, about)
    if "exported" in result.get("accuracy", {}):
        print(f"{path} is finished.")
        return
    keras.utils.set_random_seed(seed)
    batches = Batches(*train, options, seed)
    backup = keras.callbacks.BackupAndRestore(
        path.with_suffix(".backup"), delete_checkpoint=False
    )
    if progressive is None:
        progressive = keras_lab.callbacks.ProgressiveBinarization(
            options.progressive
        )
    trained.compile(
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        # On a CPU, XLA takes 1.7 times as long for the convolutions.
        jit_compile=False,
    )
    binary = keras_lab.binarize_model(
        trained,
        SCHEMES[scheme][1],
        input_quantizer,
        lambda layer: not stays_float(layer, options),
    )
    model, history = keras_lab.fine_tune(
        trained,
        batches,
        validation_data=test,
        epochs=options.epochs,
        binary=binary,
        learning_rate=options.learning_rate,
        distillation_loss=keras_lab.SoftTargets(options.temperature),
        distillation_weight=options.distill,
        callbacks=[progressive, Recorder(path, result, batches), backup],
        verbose=2,
        shuffle=False,
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
    for stage, value in accuracy.items():
        print(f"{path.stem}: {stage} {value:.2%}")
    result["accuracy"] = {k: round(v, 6) for k, v in accuracy.items()}
    result["file_bytes"] = report.file_bytes
    result["float_file_bytes"] = report.float_bytes
    write_json(path, {**result, "environment": environment()})


def settings(options) -> dict:
    """What the runs of a row of the table have in common."""
    others = ("data", "output", "scheme", "seed")
    found = {k: v for k, v in vars(options).items() if k not in others}
    return {**found, "model": Path(options.model).name}


def previous(path, settings) -> dict:
    """The result in a file, finished or not, or a new one."""
    if not path.exists():
        return {**settings, "history": {}}
    result = json.loads(path.read_text())
    for name, value in settings.items():
        if result.get(name, value) != value:
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


def load(options) -> tuple[keras.Model, Part, Part]:
    """Returns the float network and what to train and to test it on."""
    try:
        return load_network(options.model), *load_data(options.data)
    except (datasets.DataError, OSError, ValueError, KeyError) as error:
        sys.exit(f"error: {error}")


def load_network(path) -> keras.Model:
    """Returns the float network of a file; `RESNET8` may be downloaded."""
    if path == RESNET8:
        path = keras.utils.get_file(
            RESNET8,
            RESNET8_URL,
            cache_dir=datasets.data_folder(),
            cache_subdir="pretrained",
            file_hash=RESNET8_HASH,
        )
    return keras_lab.files.load_model(path)


def load_data(path) -> tuple[Part, Part]:
    """Returns what to train and to test on: of a file, or else CIFAR-10."""
    if path is None:
        data = datasets.cifar10(raw=True)
        # The float network was trained on the validation images, too.
        both = zip(data.train, data.validation)
        return Part(*map(np.concatenate, both)), as_float(data.test)
    with np.load(path) as arrays:
        train, test = (
            Part(arrays[f"x_{part}"], arrays[f"y_{part}"].ravel())
            for part in ("train", "test")
        )
    return train, as_float(test)


def as_float(part):
    return part._replace(x=part.x.astype("float32"))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--model", default=RESNET8, help="a .keras or .h5 file")
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
    add("--no-augment", dest="augment", action="store_false")
    add("--output", type=Path, default=Path("finetune"))
    return parser


def parse(parser, argv=None):
    options = parser.parse_args(argv)
    if options.model != RESNET8 and not options.data:
        parser.error("--model needs --data, to train and to test it on.")
    if not 0 <= options.progressive < options.epochs:
        parser.error("--progressive must be less than --epochs.")
    return options


def main(argv=None):
    options = parse(make_parser(), argv)
    keras_lab.config.keep_memory()
    trained, train, test = load(options)
    options.output.mkdir(parents=True, exist_ok=True)
    for seed in options.seed:
        for scheme in options.scheme:
            run(trained, train, test, options, scheme, seed)


if __name__ == "__main__":
    main()
