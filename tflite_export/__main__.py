"""The command line.

python -m tflite_export digits.keras digits.tflite --format packed
python -m tflite_export inspect digits.tflite
"""

import argparse
import os
import sys
import zipfile
from collections.abc import Sequence

from tflite_export.plan import Format

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if arguments[:1] == ["inspect"]:
            return _inspect(arguments[1:])
        return _export(arguments)
    except (ValueError, TypeError, RuntimeError, OSError) as error:
        print(f"tflite_export: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 130


def _inspect(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m tflite_export inspect",
        description="Prints what a .tflite file holds, without running it.",
    )
    parser.add_argument("file", help="a .tflite file, of whatever origin")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parsed = parser.parse_args(arguments)
    from tflite_export import inspect

    report = inspect(parsed.file)
    print(report.to_json() if parsed.json else report)
    return 0


def _export(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m tflite_export",
        description=(
            "Writes a trained Keras model with binary layers as a .tflite file "
            "for the stock runtime. To see what a file holds: "
            "python -m tflite_export inspect FILE"
        ),
    )
    add = parser.add_argument
    add("model", help="a .keras or .h5 file")
    add("output", help="the .tflite file to write")
    add(
        "--format",
        choices=[str(name) for name in Format],
        default=str(Format.PACKED),
        help="how the weights are stored; default: %(default)s",
    )
    add(
        "--batch-size",
        type=int,
        metavar="N",
        help="a fixed batch size; default: any, and 1 for recurrent models",
    )
    add(
        "--validate",
        metavar="FILE",
        help="inputs to compare with Keras on: .npy, or .npz with an array for "
        "each input, by its name; default: random numbers",
    )
    add("--json", action="store_true", help="print the report as JSON")
    parsed = parser.parse_args(arguments)

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from keras_lab.files import check_target, load_model
    from tflite_export.export import SUFFIX, export_tflite

    check_target("path", parsed.output, (SUFFIX,))
    model = load_model(parsed.model)
    report = export_tflite(
        model,
        parsed.output,
        parsed.format,
        batch_size=parsed.batch_size,
        validation_data=_load_inputs(parsed.validate, model),
    )
    print(report.to_json() if parsed.json else report)
    return 0


def _load_inputs(path, model):
    if path is None:
        return None
    import numpy as np

    from tflite_export.prepare import as_functional, input_names

    try:
        content = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"'{path}' is neither an .npy nor an .npz file: {error}"
        ) from error
    if isinstance(content, np.ndarray):
        return content
    names = input_names(as_functional(model))
    if set(content.files) != set(names):
        raise ValueError(
            f"'{path}' must hold the arrays {sorted(names)}. "
            f"Received: {sorted(content.files)}"
        )
    return [content[name] for name in names]


if __name__ == "__main__":
    sys.exit(main())
