"""`keras-lab demo`: what one bit per weight costs, and why the scale matters.

Two small jobs on data that come with the packages:

1. Digits (scikit-learn's): a dense network in full precision and with LAB. The
   LAB network is exported to TFLite in every format.
2. Text (the first chapters of War and Peace, in `demo_text.txt`): a character
   LSTM in full precision and with three rules for the scale α.

The networks of a job differ only in their quantizer. They start from the same
latent weights and see the same batches.
"""

import collections
import sys
import tempfile
import time
from pathlib import Path

import keras
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import tflite_export
from keras_lab import config
from keras_lab.files import replacing
from keras_lab.layers import BinaryDense, BinaryLSTM
from keras_lab.optimizers import LABAdam

__all__ = ["run"]

TEXT = Path(__file__).with_name("demo_text.txt")
# The files to export: the label of a file, and the arguments of the export.
FILES = {
    "float": (".tflite", "float"),
    "fast": (".tflite", "fast"),
    "packed_float": (".tflite", "packed_float"),
    "packed": (".tflite", "packed"),
    "fast, as .tflz": (".tflz", "fast"),
}

# 1344 of the 1797 digits remain for training: 14 batches of equal size, so that
# no step is traced twice.
TEST_DIGITS = 453
DIGIT_BATCH = 96
DIGIT_UNITS = 1280
DIGIT_EPOCHS = 10

CELLS = 128
TIME_STEPS = 50
TEXT_BATCH = 50
TEXT_EPOCHS = 4


# A way to store the weights, and how its curve is drawn.
Scheme = collections.namedtuple("Scheme", ["name", "quantizer", "curve"])
FULL_PRECISION = Scheme("full precision", None, "ks-")
BINARY_CONNECT = Scheme("BinaryConnect", "binary_connect", "C0^:")
BWN = Scheme("BWN", "bwn", "C1v--")
LAB = Scheme("LAB", "lab", "C3o-.")
DIGIT_SCHEMES = (FULL_PRECISION, LAB)
TEXT_SCHEMES = (FULL_PRECISION, BINARY_CONNECT, BWN, LAB)

# The size of an exported file, and its accuracy in the interpreter.
File = collections.namedtuple("File", ["name", "bytes", "accuracy"])


def run(output: Path, seed: int, epochs: int | None = None) -> None:
    """Trains all networks, prints two tables and writes the figure.

    Args:
        output: The path of the figure.
        seed: Sets the initial weights and the order of the batches.
        epochs: Epochs for each network. Defaults to 10 for the digits and 4
            for the text.
    """
    config.keep_memory()
    progress = Progress(len(DIGIT_SCHEMES) + len(TEXT_SCHEMES))
    accuracies, files = compare_digits(seed, epochs or DIGIT_EPOCHS, progress)
    losses, baseline = compare_text(seed, epochs or TEXT_EPOCHS, progress)
    print_tables(accuracies, files, losses, baseline)
    figure = draw(losses, baseline, files)
    with replacing(output) as partial:
        figure.savefig(partial, format=output.suffix[1:].lower(), dpi=150)
    print(f"\nFigure: {output}")


def compare_digits(seed, epochs, progress):
    """Returns test accuracies by scheme, and the files of the LAB network."""
    x, labels = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(
        x.astype("float32") / 8,
        labels,
        test_size=TEST_DIGITS,
        random_state=0,
        stratify=labels,
    )
    mean = x.mean(axis=0)
    x, x_test = x - mean, x_test - mean
    accuracies = {}
    for scheme in DIGIT_SCHEMES:
        keras.utils.set_random_seed(seed)
        network = digit_network(scheme.quantizer)
        history = train(
            network,
            (x, y),
            (x_test, y_test),
            DIGIT_BATCH,
            epochs,
            LABAdam(decay(0.01, epochs * len(x) // DIGIT_BATCH)),
            progress.start(f"digits, {scheme.name}", "val_accuracy", "{:.2%}"),
        )
        accuracies[scheme] = history["val_accuracy"][-1]
    return accuracies, export(network, x_test, y_test)


def digit_network(quantizer: str | None) -> keras.Model:
    """Two hidden layers. Batch normalization makes biases unnecessary."""
    network = keras.Sequential([keras.Input((64,), name="pixels")])
    for units in (DIGIT_UNITS, DIGIT_UNITS, 10):
        network.add(
            BinaryDense(units, kernel_quantizer=quantizer, use_bias=False)
        )
        # The default momentum averages over about 100 batches, most of the run.
        network.add(keras.layers.BatchNormalization(momentum=0.9))
        network.add(keras.layers.ReLU())
    network.pop()  # No ReLU after the scores.
    return network


def export(network, x, y) -> list[File]:
    """Exports a network in every format and tests each file."""
    files = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (suffix, format) in FILES.items():
            path = Path(folder) / f"{format}{suffix}"
            report = tflite_export.export_tflite(
                network, path, format, validation_data=x
            )
            (scores,) = tflite_export.run(path, x).values()
            accuracy = float(np.mean(scores.argmax(axis=1) == y))
            files.append(File(name, report.file_bytes, accuracy))
    return files


def compare_text(seed, epochs, progress):
    """Returns held-out losses by scheme and epoch, and the byte entropy."""
    vocabulary, text = np.unique(
        np.frombuffer(TEXT.read_bytes(), np.uint8), return_inverse=True
    )
    text = text.astype("uint8")
    end = len(text) * 9 // 10
    x, y = sequences(text[:end])
    held_out = sequences(text[end:])
    # As many as fill whole batches.
    count = len(x) // TEXT_BATCH * TEXT_BATCH
    x, y = x[:count], y[:count]
    losses = {}
    for scheme in TEXT_SCHEMES:
        keras.utils.set_random_seed(seed)
        history = train(
            text_network(scheme.quantizer, len(vocabulary)),
            (x, y),
            held_out,
            TEXT_BATCH,
            epochs,
            # The paper clips each entry of the gradient to [−5, 5].
            LABAdam(decay(0.01, epochs * count // TEXT_BATCH), clipvalue=5.0),
            progress.start(f"text, {scheme.name}", "val_loss", "{:.2f} nats"),
        )
        losses[scheme] = history["val_loss"]
    frequency = np.bincount(text[:end], minlength=len(vocabulary)) + 1.0
    frequency /= frequency.sum()
    return losses, float(-np.log(frequency[held_out[1]]).mean())


def sequences(text):
    """Cuts a text into inputs, and targets that are one byte ahead."""
    count = (len(text) - 1) // TIME_STEPS
    shape = (count, TIME_STEPS)
    end = count * TIME_STEPS
    return text[:end].reshape(shape), text[1 : end + 1].reshape(shape)


def text_network(quantizer: str | None, characters: int) -> keras.Model:
    """An LSTM over one-hot bytes, and the scores of the next byte."""
    uniform = keras.initializers.RandomUniform(-0.08, 0.08)
    return keras.Sequential(
        [
            keras.Input((TIME_STEPS,), dtype="uint8"),
            keras.layers.Reshape((TIME_STEPS, 1)),
            BinaryLSTM(
                CELLS,
                kernel_quantizer=quantizer,
                one_hot=characters,
                return_sequences=True,
                kernel_initializer=uniform,
                recurrent_initializer=uniform.clone(),
            ),
            keras.layers.Dense(characters),
        ]
    )


def decay(rate, steps):
    return keras.optimizers.schedules.CosineDecay(rate, steps, alpha=0.02)


def train(network, data, test, batch, epochs, optimizer, progress) -> dict:
    """Trains a network on scores of classes and returns Keras' history."""
    network.compile(
        optimizer,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        # XLA takes longer to compile than it saves in so few steps.
        jit_compile=False,
    )
    return network.fit(
        *data,
        batch_size=batch,
        epochs=epochs,
        validation_data=test,
        validation_batch_size=len(test[0]),
        callbacks=[progress],
        verbose=0,
    ).history


class Progress(keras.callbacks.Callback):
    """Prints a line per network; a terminal sees it change in each epoch."""

    def __init__(self, networks: int):
        super().__init__()
        self.networks, self.number = networks, 0
        self.began = time.monotonic()

    def start(self, name: str, metric: str, form: str) -> "Progress":
        """Announces the next network, and which of its metrics to show."""
        self.number += 1
        self.name, self.metric, self.form = name, metric, form
        self._show("training", end=False)
        return self

    def on_epoch_end(self, epoch, logs=None):
        done, epochs = epoch + 1, self.params["epochs"]
        value = self.form.format(logs[self.metric])
        self._show(f"epoch {done}/{epochs}  {value}", end=done == epochs)

    def _show(self, text, end):
        terminal = sys.stderr.isatty()
        if not (end or terminal):
            return
        line = (
            f"[{time.monotonic() - self.began:3.0f} s] "
            f"{self.number}/{self.networks} {self.name:<22} {text}"
        )
        clear = "\r\x1b[K" if terminal else ""
        print(
            clear + line, end="\n" if end else "", file=sys.stderr, flush=True
        )


def print_tables(accuracies, files, losses, baseline) -> None:
    """Prints accuracies and files of the digits, and losses of the text."""
    units = f"64-{DIGIT_UNITS}-{DIGIT_UNITS}-10"
    print(f"\nDigits: a network {units}, test accuracy")
    for scheme, accuracy in accuracies.items():
        print(f"  {scheme.name:<28}{accuracy:>7.2%}")
    print("\nThe LAB network as an exported file: test accuracy, size")
    for name, size, accuracy in files:
        smaller = files[0].bytes / size
        print(
            f"  {name:<28}{accuracy:>7.2%}{size / 1000:>9.0f} kB"
            + f"   1/{smaller:.1f}" * (smaller > 1)
        )
    print(f"\nText: an LSTM of {CELLS} cells, nats per byte on held-out text")
    for scheme, values in losses.items():
        print(f"  {scheme.name:<28}{values[-1]:>7.2f}")
    print(f"  {'byte frequencies, no network':<28}{baseline:>7.2f}")


def draw(losses, baseline, files) -> Figure:
    """The losses on the text by epoch, and the sizes of the digit files."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    for scheme, values in losses.items():
        epochs = np.arange(1, len(values) + 1)
        left.plot(epochs, values, scheme.curve, label=scheme.name)
    left.axhline(baseline, color="0.6", linewidth=1)
    left.annotate(
        "byte frequencies alone",
        (1, baseline),
        xytext=(0, -4),
        textcoords="offset points",
        va="top",
        color="0.4",
    )
    left.set(xlabel="epoch", ylabel="held-out cross-entropy (nats per byte)")
    left.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    left.set_title("Character LSTM with four kinds of weight")
    left.legend(frameon=False)
    sizes = [file.bytes / 1000 for file in files]
    bars = right.barh([file.name for file in files], sizes, color="0.75")
    right.bar_label(
        bars,
        [f"{s:,.0f} kB, {f.accuracy:.1%}" for s, f in zip(sizes, files)],
        padding=4,
    )
    right.invert_yaxis()
    right.set(xlabel="file size (kB)", xlim=(0, 1.55 * max(sizes)))
    right.set_title("LAB digit classifier: file size, test accuracy")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure
