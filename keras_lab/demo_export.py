"""The end of `keras-lab demo`: the trained network as `.tflite` files.

The network is exported in the four formats, and each file is run on the test
digits in the stock TFLite interpreter.
"""

import dataclasses
import tempfile
from pathlib import Path

import keras
import numpy as np

import tflite_export

__all__ = ["ExportedFile", "draw", "export_all", "format_table"]

FORMATS = ("float", "fast", "packed_float", "packed")


@dataclasses.dataclass(frozen=True)
class ExportedFile:
    """A file's format and size, and its accuracy in the interpreter."""

    format: str
    bytes: int
    accuracy: float


def export_all(network: keras.Model, test) -> list[ExportedFile]:
    """Exports a network in every format and tests what came out."""
    x, y = test
    files = []
    with tempfile.TemporaryDirectory() as folder:
        for format in FORMATS:
            path = Path(folder) / f"{format}.tflite"
            report = tflite_export.export_tflite(
                network, path, format, validation_data=x
            )
            (scores,) = tflite_export.run(path, x).values()
            hits = scores.argmax(axis=1) == y.argmax(axis=1)
            files.append(
                ExportedFile(format, report.file_bytes, float(np.mean(hits)))
            )
    return files


def format_table(files: list[ExportedFile]) -> str:
    """Size and accuracy, a line a format."""
    largest = max(file.bytes for file in files)
    lines = [
        "\nThe LAB network as a .tflite file, run in the stock interpreter:\n",
        "format         test accuracy        file   of float32",
    ]
    for file in files:
        lines.append(
            f"{file.format:<14} {file.accuracy:>13.2%} "
            f"{file.bytes / 1000:>8.1f} kB   1/{largest / file.bytes:.1f}"
        )
    lines += [
        "",
        "A packed file holds tables to unpack the bits, scales and the graph",
        "too: the larger the network, the closer it comes to 1/30.",
    ]
    return "\n".join(lines)


def draw(axes, files: list[ExportedFile]) -> None:
    """The sizes of the files as bars, with the accuracies."""
    names = [file.format for file in files]
    sizes = [file.bytes / 1000 for file in files]
    bars = axes.barh(names, sizes, color="0.75")
    labels = [f"{file.accuracy:.1%}" for file in files]
    axes.bar_label(bars, labels, padding=3)
    axes.invert_yaxis()
    axes.set(xlabel="file (kB)", xlim=(0, 1.2 * max(sizes)))
    axes.set_title("LAB exported: file size, test accuracy")
