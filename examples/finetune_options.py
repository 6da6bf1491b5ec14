"""The options of `finetune.py`, and what they name: the model and the data.

All that can be wrong with them is found here, before any work.
"""

import argparse
import math
import zipfile
from pathlib import Path

import numpy as np

import keras_lab
from examples.paper import data as datasets
from examples.paper.data.files import Source, digests, locate
from keras_lab.files import load_model

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
ARRAYS = ("x_train", "y_train", "x_test", "y_test")
DIGITS = 12  # Of a SHA-256: enough to tell files apart.
SEEDS = 2**32  # NumPy's are smaller.


class OptionError(Exception):
    """What the options name cannot be used."""


class Parser(argparse.ArgumentParser):
    """One whose errors are a line."""

    def error(self, message):
        self.exit(2, f"error: {message}\n")


def number(kind, low, high=math.inf, more_than=False):
    """A type of option: a finite number in a range, `high` not in it.

    Args:
        kind: `int` or `float`.
        low: The least.
        high: What it must be less than.
        more_than: Whether `low` is not in the range.
    """

    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        above = value > low if more_than else value >= low
        if not (above and value < high):
            what = "a whole number" if kind is int else "a number"
            bound = f"more than {low}" if more_than else f"at least {low}"
            if high < math.inf:
                bound += f" and less than {high}"
            raise argparse.ArgumentTypeError(
                f"must be {what}, {bound}. Received: {text}"
            )
        return value

    return parse


def parse(description, argv=None):
    """The options, as far as they can be judged by themselves."""
    parser = Parser(
        description=description,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--model", help="a .keras or .h5 file; ResNet-8 if not given")
    add("--data", help="an .npz file; CIFAR-10 if not given")
    add("--data-dir", help="where the data sets are; see examples.paper.data")
    add("--scheme", nargs="+", choices=BINARY, default=BINARY)
    add("--seed", nargs="+", type=number(int, 0, SEEDS), default=[1])
    add("--epochs", type=number(int, 1), default=30)
    add("--batch", type=number(int, 1), default=128)
    add(
        "--learning-rate",
        type=number(float, 0, more_than=True),
        default=0.002,
    )
    add(
        "--distill",
        type=number(float, 0),
        default=1.0,
        help="the weight of what the float network says; 0 for none",
    )
    add(
        "--temperature",
        type=number(float, 0, more_than=True),
        default=2.0,
        help="of that",
    )
    add(
        "--progressive",
        type=number(int, 0),
        default=0,
        help="epochs in which the binary weights take over",
    )
    add("--progressive-by", choices=("layer", "share"), default="layer")
    add(
        "--images",
        type=number(int, 1),
        help="only the first so many to train on",
    )
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
    if options.progressive >= options.epochs:
        parser.error(
            "--progressive must be less than --epochs, for the last epochs "
            f"are those of the binary network. Received: {options.progressive} "
            f"of {options.epochs}"
        )
    return options


def load(options):
    """The float network and the data, which fit each other.

    Returns:
        The model; the data; and what says which they are, for the result.
    """
    try:
        path = options.model
        if path is None:
            folder = datasets.data_folder(options.data_dir)
            path = locate(RESNET8, folder)
        path = Path(path)
        model = load_model(path)
        data = _load_data(options)
        names = {
            "model": path.name,
            "model_sha256": _digest(path),
            "data": _digest(options.data) if options.data else "cifar10",
        }
    except (datasets.DataError, OSError, ValueError) as error:
        raise OptionError(str(error)) from error
    _check_model(model, path)
    _check_fit(model, data)
    _check_options(options, data)
    return model, data, names


def _digest(path):
    (digest,) = digests([Path(path)]).values()
    return digest[:DIGITS]


def _load_data(options):
    """The data set: CIFAR-10 as it is, or that of the user's file."""
    if options.data is None:
        data = datasets.cifar10(options.data_dir, raw=True)
        # No epoch is chosen by them, and the float network has seen them.
        train = map(np.concatenate, zip(data.train, data.validation))
        return datasets.Dataset(
            datasets.Part(*train), None, data.test, data.classes, data.files
        )
    try:
        with np.load(options.data, allow_pickle=False) as file:
            missing = [name for name in ARRAYS if name not in file.files]
            if missing:
                raise OptionError(
                    f"{options.data} must have the arrays {', '.join(ARRAYS)}. "
                    f"Received: {', '.join(file.files) or 'none'}"
                )
            arrays = {name: file[name] for name in ARRAYS}
    except (EOFError, OSError, ValueError, zipfile.BadZipFile) as error:
        raise OptionError(f"{options.data}: {error}") from error
    except (
        AttributeError,
        TypeError,
    ) as error:  # A single array, of an `.npy` file.
        raise OptionError(
            f"{options.data} must be an .npz file of several arrays."
        ) from error
    train, test = (
        datasets.Part(_check_inputs(arrays, f"x_{part}"), _labels(arrays, part))
        for part in ("train", "test")
    )
    classes = int(train.y.max()) + 1
    return datasets.Dataset(train, None, test, classes, {})


def _check_inputs(arrays, name):
    x = arrays[name]
    if x.dtype.kind not in "biuf" or not x.size:
        raise OptionError(
            f"{name} must be numbers. Received: an array of the shape "
            f"{x.shape} and dtype {x.dtype}"
        )
    return x


def _labels(arrays, part):
    x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
    if y.shape == (len(x), 1):
        y = y[:, 0]
    if y.shape != (len(x),):
        raise OptionError(
            f"y_{part} must be one class a row of x_{part}, as its number and "
            f"not one-hot: of the shape {(len(x),)}. Received: {y.shape}"
        )
    whole = y.dtype.kind in "biuf" and np.array_equal(y, np.floor(y))
    if not whole or y.min() < 0:
        raise OptionError(
            f"y_{part} must be the numbers of classes, 0 and up. Received: "
            f"{y.dtype}, {', '.join(map(str, np.unique(y)[:5]))}, …"
        )
    return y.astype("int64")


def _check_model(model, path):
    try:
        keras_lab.binarize_model(model)
    except (TypeError, ValueError) as error:
        problem = str(error).split("\n")[0]
        raise OptionError(f"{path}: {problem}") from error
    shapes = [tuple(x.shape) for x in (*model.inputs, *model.outputs)]
    if len(shapes) != 2 or len(shapes[1]) != 2:
        raise OptionError(
            f"{path} must be a classifier of one input and one output. "
            f"Received: inputs and outputs of the shapes {shapes}"
        )


def _check_fit(model, data):
    expected = tuple(model.inputs[0].shape[1:])
    for name in ("train", "test"):
        x, y = getattr(data, name)
        if len(expected) != len(x.shape[1:]) or any(
            size not in (None, received)
            for size, received in zip(expected, x.shape[1:])
        ):
            raise OptionError(
                f"x_{name} must have rows of the shape {expected}, as the "
                f"model takes them. Received: {x.shape[1:]}"
            )
        classes = model.outputs[0].shape[-1]
        if y.max() >= classes:
            raise OptionError(
                f"y_{name} must be less than {classes}, as the model has so "
                f"many classes. Received: {y.max()}"
            )
    outputs = model.predict(data.test.x[:100].astype("float32"), verbose=0)
    sums = outputs.astype("float32").sum(axis=-1)
    if not (np.all(outputs >= 0) and np.allclose(sums, 1, atol=0.02)):
        raise OptionError(
            "the model must end in a softmax, and its outputs are no "
            "probabilities. Put keras.layers.Softmax() after one that ends in "
            f"logits. Received: {outputs[0].tolist()!s:.60}… for an image"
        )


def _check_options(options, data):
    shape = data.train.x.shape
    if options.augment and len(shape) != 4:
        raise OptionError(
            "only images of the shape (height, width, channels) can be moved "
            "and mirrored: say --no-augment. Received: x_train of the shape "
            f"{shape}"
        )
    images = min(options.images or shape[0], shape[0])
    if options.batch > images:
        raise OptionError(
            f"--batch must be at most {images}, the images to train on. "
            f"Received: {options.batch}"
        )
