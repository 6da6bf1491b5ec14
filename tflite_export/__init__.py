"""From a trained binary network to a `.tflite` file with one bit per weight.

The file runs in the stock LiteRT (TFLite) runtime, without custom operators and
without Flex operators. `export_tflite` writes a file and reports what is in it;
`inspect` reports on any `.tflite` file; `read_packed` reads signs and α back;
`pack` packs the binary weights of a model that was not made with keras_lab;
`run` runs a file. `tflite_export.command` is the command line. See
`docs/export.md`.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tflite_export import command as command
    from tflite_export.agreement import Agreement as Agreement
    from tflite_export.errors import ConversionError as ConversionError
    from tflite_export.errors import InvalidModelError as InvalidModelError
    from tflite_export.errors import NothingBinaryError as NothingBinaryError
    from tflite_export.errors import ValidationError as ValidationError
    from tflite_export.export import export_tflite as export_tflite
    from tflite_export.formats import Format as Format
    from tflite_export.interpreter import make_interpreter as make_interpreter
    from tflite_export.interpreter import run as run
    from tflite_export.metadata import PackedWeight as PackedWeight
    from tflite_export.metadata import read_packed as read_packed
    from tflite_export.report import ExportReport as ExportReport
    from tflite_export.report import LayerRow as LayerRow
    from tflite_export.report import inspect as inspect
    from tflite_export.rewrite import pack as pack

# The module of each public name. It is imported when the name is first used:
# TensorFlow takes seconds to import, and reading a file does not need it.
_MODULES = {
    "Agreement": "agreement",
    "ConversionError": "errors",
    "ExportReport": "report",
    "Format": "formats",
    "InvalidModelError": "errors",
    "LayerRow": "report",
    "NothingBinaryError": "errors",
    "PackedWeight": "metadata",
    "ValidationError": "errors",
    "export_tflite": "export",
    "inspect": "report",
    "make_interpreter": "interpreter",
    "pack": "rewrite",
    "read_packed": "metadata",
    "run": "interpreter",
}

__all__ = [
    "Agreement",
    "ConversionError",
    "ExportReport",
    "Format",
    "InvalidModelError",
    "LayerRow",
    "NothingBinaryError",
    "PackedWeight",
    "ValidationError",
    "command",
    "export_tflite",
    "inspect",
    "make_interpreter",
    "pack",
    "read_packed",
    "run",
]


def __getattr__(name):
    if name == "command":
        return importlib.import_module("tflite_export.command")
    if name in _MODULES:
        module = importlib.import_module(f"tflite_export.{_MODULES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return __all__
