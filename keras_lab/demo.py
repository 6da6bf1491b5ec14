"""`keras-lab demo`: four networks on real digits, a table and a figure.

The networks differ in nothing but their weights: full precision, BinaryConnect,
BWN and LAB. They start from the same latent weights and see the same batches.
The last one is exported to TFLite (`demo_export.py`).
"""

import dataclasses
import math
import sys
import time
from pathlib import Path

import keras
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from keras_lab import demo_export
from keras_lab.binary_weight import weights_of
from keras_lab.files import replacing
from keras_lab.layers import BinaryDense
from keras_lab.optimizers import LABAdam

__all__ = ["run"]

CLASSES = 10
# 1344 of the 1797 digits are left to train on: 14 batches of one size, so that
# no step has to be traced twice.
TEST_SIZE = 453
BATCH_SIZE = 96
LEARNING_RATE = 0.01
HIDDEN_UNITS = (256, 256)
DRAWN_LAYER = "hidden_2"


@dataclasses.dataclass(frozen=True)
class Scheme:
    """A way to store the weights, and the marker and dashes of its curve."""

    name: str
    kernel_quantizer: str | None
    curve: str


SCHEMES = (
    Scheme("full precision", None, "ks-"),
    Scheme("BinaryConnect", "binary_connect", "C0^:"),
    Scheme("BWN", "bwn", "C1v--"),
    Scheme("LAB", "lab", "C3o-."),
)


@dataclasses.dataclass(frozen=True)
class Trained:
    """A network after training, with its test accuracy after each epoch."""

    scheme: Scheme
    model: keras.Model
    accuracies: list[float]


def run(output: Path, epochs: int, seed: int) -> list[Trained]:
    """Trains the four networks, exports LAB, prints tables, draws a figure."""
    digits = prepare_digits()
    progress = Progress(len(SCHEMES) * epochs)
    trained = [train(s, digits, epochs, seed, progress) for s in SCHEMES]
    print(format_table(trained))
    files = demo_export.export_all(trained[-1].model, digits[1])
    print(demo_export.format_table(files))
    write_atomically(draw(trained, files), output)
    print(f"\nThe figure is in {output}")
    return trained


def prepare_digits():
    """(inputs, targets) to train on and to test on; the split is fixed."""
    x, labels = load_digits(return_X_y=True)
    x_train, x_test, train_labels, test_labels = train_test_split(
        x.astype("float32") / 8,
        labels,
        test_size=TEST_SIZE,
        random_state=0,
        stratify=labels,
    )
    mean = x_train.mean(axis=0)
    return (
        (x_train - mean, _plus_minus_one(train_labels)),
        (x_test - mean, _plus_minus_one(test_labels)),
    )


def _plus_minus_one(labels):
    return 2 * np.eye(CLASSES, dtype="float32")[labels] - 1


def build_network(kernel_quantizer: str | None, inputs: int) -> keras.Model:
    """An MLP with batch normalization, which makes biases superfluous."""
    network = keras.Sequential([keras.Input((inputs,))])
    for number, units in enumerate((*HIDDEN_UNITS, CLASSES), start=1):
        last = number > len(HIDDEN_UNITS)
        network.add(
            BinaryDense(
                units,
                kernel_quantizer=kernel_quantizer,
                use_bias=False,
                name="output" if last else f"hidden_{number}",
            )
        )
        # The default momentum remembers 100 batches, a third of the training.
        network.add(keras.layers.BatchNormalization(momentum=0.9))
        if not last:
            network.add(keras.layers.ReLU())
    return network


def train(
    scheme: Scheme, digits, epochs: int, seed: int, progress: "Progress"
) -> Trained:
    """Trains one network. The same seed gives all the same start."""
    keras.utils.set_random_seed(seed)
    (x, y), test = digits
    network = build_network(scheme.kernel_quantizer, x.shape[1])
    steps = epochs * (len(x) // BATCH_SIZE)
    rate = keras.optimizers.schedules.ExponentialDecay(
        LEARNING_RATE, decay_steps=steps, decay_rate=0.01
    )
    network.compile(
        optimizer=LABAdam(rate),
        loss="squared_hinge",
        metrics=["categorical_accuracy"],
        # At so few steps XLA takes longer to compile than it saves.
        jit_compile=False,
    )
    progress.name = scheme.name
    history = network.fit(
        x,
        y,
        batch_size=BATCH_SIZE,
        epochs=epochs,
        validation_data=test,
        validation_batch_size=TEST_SIZE,
        callbacks=[progress],
        verbose=0,
    )
    return Trained(scheme, network, history.history["val_categorical_accuracy"])


class Progress(keras.callbacks.Callback):
    """One line a network; in a terminal it is rewritten after each epoch."""

    def __init__(self, total_epochs: int):
        super().__init__()
        self.name = ""
        self.total_epochs = total_epochs
        self.epochs_done = 0
        self.began = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        self.epochs_done += 1
        last = epoch + 1 == self.params["epochs"]
        terminal = sys.stderr.isatty()
        if not (last or terminal):
            return
        elapsed = time.monotonic() - self.began
        left = elapsed * (self.total_epochs / self.epochs_done - 1)
        line = (
            f"{self.name:<15} epoch {epoch + 1}/{self.params['epochs']}   "
            f"test accuracy {logs['val_categorical_accuracy']:7.2%}   "
            f"{left:.0f} s left"
        )
        clear = "\r\x1b[K" if terminal else ""
        end = "\n" if last else ""
        print(clear + line, end=end, file=sys.stderr, flush=True)


def size_in_bits(network: keras.Model) -> int:
    """1 bit a binary weight; 32 for each α and each other parameter."""
    binary = {id(w.latent) for w in weights_of(network.weights)}
    return sum(
        math.prod(v.shape) * (1 if id(v) in binary else 32)
        for v in network.weights
    )


def format_table(trained: list[Trained]) -> str:
    """Accuracy against size, a line a scheme, and how to read it."""
    columns = ("test accuracy", "bits a kernel weight", "all parameters")
    lines = ["\nscheme          " + "   ".join(columns)]
    for network in trained:
        bits = 32 if network.scheme.kernel_quantizer is None else 1
        kilobytes = size_in_bits(network.model) / 8000
        lines.append(
            f"{network.scheme.name:<15} {network.accuracies[-1]:>13.2%}"
            f"{bits:>23}{kilobytes:>14.1f} kB"
        )
    accuracy = np.mean([network.accuracies[-1] for network in trained])
    error = math.sqrt(accuracy * (1 - accuracy) / TEST_SIZE)
    lines += [
        "",
        "Accuracy: after the last epoch. With "
        f"{TEST_SIZE} test digits its standard error is",
        f"{100 * error:.1f} points: differences of that size are noise.",
        "All parameters: 1 bit for each weight of a binary kernel, 32 for each",
        "alpha and each parameter of batch normalization. 1 kB is 1000 bytes.",
    ]
    return "\n".join(lines)


def draw(
    trained: list[Trained], files: list[demo_export.ExportedFile]
) -> Figure:
    """Test error by epoch, a layer's latent weights with its ±α, the files."""
    figure = Figure(figsize=(15, 4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    _draw_errors(left, trained)
    _draw_latent_weights(middle, trained[-1])
    demo_export.draw(right, files)
    return figure


def _draw_errors(axes, trained):
    for network in trained:
        scheme = network.scheme
        errors = 100 * (1 - np.array(network.accuracies))
        epochs = np.arange(1, len(errors) + 1)
        axes.plot(epochs, errors, scheme.curve, label=scheme.name, markersize=4)
    axes.set(xlabel="epoch", ylabel="test error (%)")
    axes.set(xlim=(0, len(epochs) + 1), ylim=(0, None))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title("The same network, four kinds of weight")
    axes.legend(loc="best")


def _draw_latent_weights(axes, network):
    name, layer = network.scheme.name, network.model.get_layer(DRAWN_LAYER)
    alpha = float(layer.alpha.numpy())
    latent = layer.kernel.numpy().ravel()
    limit = np.abs(latent).max()
    # An edge at zero: no bar mixes weights of both signs.
    axes.hist(latent, bins=np.linspace(-limit, limit, 81), color="0.75")
    for value in (-alpha, alpha):
        axes.axvline(value, color="black", linestyle="--")
    axes.set(xlabel="latent weight w", ylabel="number of weights")
    # Not a legend: after few epochs the bars leave it no room.
    axes.set_title(f"{name}, layer {DRAWN_LAYER}; dashed: ±α = ±{alpha:.3f}")


def write_atomically(figure: Figure, path: Path) -> None:
    """Leaves the whole file or what was there before, never half a file."""
    with replacing(path) as partial:
        figure.savefig(partial, format=path.suffix[1:].lower(), dpi=150)
