"""From a trained binary network to a `.tflite` file, one bit a weight.

The file runs in the stock LiteRT/TFLite runtime: no custom operator, no Flex
operator. `export_tflite` writes it, `read_packed` reads signs and α back, and
`inspect` says what a file holds. See `tflite_export/README.md`.
"""

from tflite_export.errors import (
    ConversionError,
    InvalidModelError,
    NothingBinaryError,
    ValidationError,
)
from tflite_export.metadata import PackedWeight, read_packed
from tflite_export.report import ExportReport, inspect
from tflite_export.rewrite import pack
from tflite_export.validate import run

__all__ = [
    "ConversionError",
    "ExportReport",
    "InvalidModelError",
    "NothingBinaryError",
    "PackedWeight",
    "ValidationError",
    "export_tflite",
    "inspect",
    "pack",
    "read_packed",
    "run",
]


def __getattr__(name):
    # Keras and TensorFlow take seconds to import; reading files needs neither.
    if name == "export_tflite":
        from tflite_export.export import export_tflite

        return export_tflite
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
