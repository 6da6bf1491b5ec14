"""From a trained binary network to a `.tflite` file with one bit per weight.

The file runs in the stock LiteRT (TFLite) runtime, without custom operators and
without Flex operators. `export_tflite` writes a file and reports what is in it;
`inspect` reports on any `.tflite` file; `read_packed` reads signs and α back;
`pack` packs the binary weights of a model that was not made with keras_lab;
`run` runs a file. `shrink` makes a smaller container (`.tflz`) of a file, which
`expand` undoes; the other functions read both. See `docs/export.md`,
`docs/checks.md` and `docs/container.md`.

Where to find what, in the order in which an export goes through it:

- `cli`: the command line; `export`: the stages in order.
- `inputs`, `prepare`, `streaming`, `other_backend`: the given model;
  `samples`: what to compare on.
- `convert`: TensorFlow's converter, which makes a float file.
- `find`, `plan`, `rewrite`: which of its constants are binary, how
  to change the operators that use them (`transformations`), and the new file,
  as the `recipe` says.
  `graph` answers questions about a TFLite graph, `flatbuffer` reads and writes
  it.
- `metadata`: what the file says about its binary weights.
- `validate`, `layers_in_float`: comparison with Keras, and what to do if int8
  is not precise enough (`int8_errors`) or signs are undecided (`sign_ties`).
- `inspection`, `report`: what is in a file; `container`, `expanders`: `.tflz`.
- `formats`, `runtimes`, `interpreter`, `errors`: used everywhere.
"""

import importlib

# The module of each public name. It is imported when the name is first used:
# TensorFlow takes seconds to import, and reading a file does not need it.
_MODULES = {
    "Agreement": "report",
    "ContainerError": "expanders.tflz",
    "ConversionError": "errors",
    "ExportReport": "report",
    "Format": "formats",
    "InFloat": "report",
    "InvalidModelError": "errors",
    "LayerRow": "report",
    "NothingBinaryError": "errors",
    "PackedWeight": "metadata",
    "ValidationError": "errors",
    "expand": "expanders.tflz",
    "export_tflite": "export",
    "inspect": "inspection",
    "make_interpreter": "interpreter",
    "pack": "rewrite",
    "read_packed": "metadata",
    "run": "interpreter",
    "shrink": "container",
}

__all__ = ["cli", *_MODULES]


def __getattr__(name):
    if name in _MODULES:
        module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
        return getattr(module, name)
    if name == "cli":
        return importlib.import_module(f"{__name__}.cli")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return __all__
