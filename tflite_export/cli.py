"""The command line: exports a saved model, or inspects a file.

python -m tflite_export digits.keras digits.tflite --format packed
python -m tflite_export digits.keras digits.tflz --other-weights int8
python -m tflite_export inspect digits.tflz

`keras-lab export` has the same arguments and does the same. Importing this
module imports neither Keras nor TensorFlow, so that `--help` answers at once.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from tflite_export.formats import SUFFIXES, Format, OtherWeights

PROGRAM = "python -m tflite_export"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if arguments[:1] == ["inspect"]:
            return _inspect(arguments[1:])
        parser = argparse.ArgumentParser(
            prog=PROGRAM, epilog=f"To see what is in a file: {PROGRAM} inspect"
        )
        add_export_arguments(parser)
        return run_export(parser.parse_args(arguments))
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 130


def _inspect(arguments):
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} inspect",
        description="Prints what is in an exported file, without running it.",
    )
    parser.add_argument("file", help="a .tflite or .tflz file of any origin")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parsed = parser.parse_args(arguments)
    from tflite_export import inspect

    try:
        report = inspect(parsed.file)
    except (ValueError, OSError) as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 1
    print(report.to_json() if parsed.json else report)
    return 0


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the export to a parser or subparser."""
    parser.description = (
        "Writes a trained Keras model with binary layers as a .tflite file for "
        "the stock runtime, or as a .tflz file, which expands to one."
    )
    add = parser.add_argument
    add("model", help="a .keras or .h5 file")
    add("output", help="the .tflite or .tflz file to write")
    add(
        "--format",
        choices=[str(name) for name in Format],
        help="how the weights are stored; default: fast for .tflz, packed for "
        ".tflite",
    )
    add(
        "--other-weights",
        choices=[str(name) for name in OtherWeights],
        default=str(OtherWeights.FLOAT32),
        help="how weights that are not binary are stored; default: %(default)s",
    )
    add(
        "--runtime",
        metavar="NAME",
        help="the oldest runtime that must run the file: tensorflow-2.13, "
        "tflite-runtime-2.14, litert-1.1, browser, ...",
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
        help="samples to compare on: an .npy file, or an .npz file with one "
        "array per input, by name; default: random numbers",
    )
    add(
        "--tolerance",
        type=float,
        metavar="X",
        help="the largest relative error to accept; default: 0.001 for float "
        "arithmetic, 0.01 with float16 weights, 0.1 for int8",
    )
    add("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(program=parser.prog)


def run_export(arguments: argparse.Namespace) -> int:
    """Exports the model, prints the report, and returns the exit code."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        report = _export(arguments)
    except (ValueError, TypeError, RuntimeError, OSError) as error:
        print(f"{arguments.program}: error: {error}", file=sys.stderr)
        return 1
    print(report.to_json() if arguments.json else report)
    return 0


def _export(arguments):
    from keras_lab.files import check_target, load_model

    check_target("path", arguments.output, SUFFIXES)
    model = load_model(arguments.model)
    from tflite_export.export import export_tflite

    return export_tflite(
        model,
        arguments.output,
        arguments.format,
        batch_size=arguments.batch_size,
        validation_data=_load_samples(arguments.validate),
        tolerance=arguments.tolerance,
        other_weights=arguments.other_weights,
        runtime=arguments.runtime,
    )


def _load_samples(path):
    """An array, or a dict of arrays by the names of the inputs."""
    if path is None:
        return None
    import zipfile

    import numpy as np

    try:
        content = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"The samples must be an .npy or an .npz file: {error}. "
            f"Received: '{path}'"
        ) from error
    if isinstance(content, np.ndarray):
        return content
    return {name: content[name] for name in content.files}
