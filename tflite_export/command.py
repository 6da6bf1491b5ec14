"""The command that exports a saved model: its arguments, and what it does.

`python -m tflite_export` and `keras-lab export` share it. Importing this module
imports neither Keras nor TensorFlow, so that `--help` answers at once.
"""

import argparse
import os
import sys

from tflite_export.formats import SUFFIXES, Format, OtherWeights


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command to a parser or subparser."""
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


def run(arguments: argparse.Namespace) -> int:
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
