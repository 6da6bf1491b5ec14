"""The command `keras-lab`.

Each subcommand is a function that adds its parser and names the function that
runs it. The job itself is in a module of its own, imported only once the
arguments are known to be good.
"""

import argparse
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from keras_lab.analysis.figures import FIGURE_SUFFIXES
from keras_lab.files import target_problem

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="keras-lab",
        description="Loss-aware binarization for Keras 3.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_demo(commands)
    _add_inspect(commands)
    parsed = parser.parse_args(arguments)
    if not hasattr(parsed, "run"):
        parser.print_help(sys.stderr)
        return 2
    try:
        return parsed.run(parsed)
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 130


def _add_demo(commands):
    parser = commands.add_parser(
        "demo",
        help="compare four ways to store a weight, in about a minute",
        description=(
            "Trains the same network on scikit-learn's digits in full "
            "precision, with BinaryConnect, BWN and LAB; exports the last to "
            "TFLite; prints two tables and writes a figure."
        ),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--output",
        type=_figure_path,
        default="keras_lab_demo.png",
        metavar="FILE",
        help="the figure: " + ", ".join(FIGURE_SUFFIXES),
    )
    parser.add_argument(
        "--epochs",
        type=_integer_from(1),
        default=25,
        metavar="N",
        help="epochs for each network",
    )
    parser.add_argument(
        "--seed",
        type=_integer_from(0, 2**32 - 1),
        default=1,
        metavar="N",
        help="of the initial weights and the order of the batches",
    )
    parser.set_defaults(run=_run_demo)


def _run_demo(arguments):
    if not _installed("demo", "demo", "sklearn", "matplotlib"):
        return 1
    from keras_lab import demo

    demo.run(arguments.output, arguments.epochs, arguments.seed)
    return 0


def _add_inspect(commands):
    parser = commands.add_parser(
        "inspect",
        help="what a .keras, .h5 or .tflite file holds: bits, scales, bytes",
        description=(
            "Prints a table of a saved model's layers: 1-bit and 32-bit "
            "parameters, alpha, bytes now and exported, multiply-accumulates. "
            "Of a .tflite file it prints the weights and how they are stored."
        ),
    )
    parser.add_argument("file", type=_model_path, help=".keras, .h5 or .tflite")
    parser.add_argument(
        "--plot",
        type=_figure_path,
        metavar="FILE",
        help="write histograms of the latent weights of a model: "
        + ", ".join(FIGURE_SUFFIXES),
    )
    parser.add_argument(
        "--no-export",
        dest="exported",
        action="store_false",
        help="do not export the model to measure the file: faster",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run_inspect)


def _run_inspect(arguments):
    if arguments.plot and arguments.file.suffix == ".tflite":
        print(
            "keras-lab inspect: error: a .tflite file has no latent weights "
            f"to plot. Received: '{arguments.file}'",
            file=sys.stderr,
        )
        return 2
    if arguments.plot and not _installed("inspect", "plots", "matplotlib"):
        return 1
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from keras_lab import inspection

    return inspection.run(
        arguments.file, arguments.plot, arguments.exported, arguments.json
    )


def _installed(command, extra, *modules):
    """Whether the modules are there that an extra of the package brings."""
    missing = [m for m in modules if importlib.util.find_spec(m) is None]
    if missing:
        print(
            f"keras-lab {command}: error: it needs {' and '.join(missing)}, "
            f'not installed here. Run: pip install "keras_lab[{extra}]"',
            file=sys.stderr,
        )
    return not missing


def _integer_from(lowest, highest=None):
    bounds = f"at least {lowest}"
    if highest is not None:
        bounds += f" and at most {highest}"

    def integer(text):
        try:
            value = int(text)
        except ValueError:
            value = None
        too_high = highest is not None and value is not None and value > highest
        if value is None or value < lowest or too_high:
            raise argparse.ArgumentTypeError(
                f"must be an integer, {bounds}. Received: {text!r}"
            )
        return value

    return integer


def _model_path(text):
    path = Path(text)
    problem = None
    if path.suffix not in (".keras", ".h5", ".tflite"):
        problem = "must end in .keras, .h5 or .tflite"
    elif path.is_dir():
        problem = "is a directory"
    elif not path.is_file():
        problem = "is not there"
    if problem:
        raise argparse.ArgumentTypeError(f"{problem}. Received: {text!r}")
    return path


def _figure_path(text):
    path = Path(text)
    problem = target_problem(path, FIGURE_SUFFIXES)
    if problem:
        raise argparse.ArgumentTypeError(f"{problem}. Received: {text!r}")
    return path


if __name__ == "__main__":
    sys.exit(main())
