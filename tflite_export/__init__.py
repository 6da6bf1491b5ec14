"""From a trained binary network to a `.tflite` file with one bit per weight.

The file runs in the stock LiteRT (TFLite) runtime, without custom operators and
without Flex operators. `export_tflite` writes a file and reports what is in it;
`inspect` reports on any `.tflite` file; `read_packed` reads signs and α back;
`pack` packs the binary weights of a model that was not made with keras_lab;
`run` runs a file. `tflite_export.command` is the command line. See
`docs/export.md`.
"""

import importlib

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

__all__ = ["command", *_MODULES]


def __getattr__(name):
    if name in _MODULES:
        module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
        return getattr(module, name)
    if name == "command":
        return importlib.import_module(f"{__name__}.command")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return __all__
