"""The command line of `keras-lab`.

Each subcommand has a function that adds its parser and one that runs it. Only
the second one imports keras_lab, and Keras with it, so the help takes no time.
"""

import argparse
import contextlib
import importlib.util
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from keras_lab_command.backend_choice import BACKENDS, choose_backend
from tflite_export import cli as export_cli

__all__ = ["main"]

EXPORTED_SUFFIXES = (".tflite", ".tflz")
# What the exporter imports, whatever the backend of Keras is.
EXPORT_MODULES = ("tensorflow", "ai_edge_litert", "flatbuffers")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    choose_backend()
    parser = argparse.ArgumentParser(
        prog="keras-lab",
        description="Loss-aware binarization for Keras 3.",
    )
    parser.add_argument(
        "--version", action="store_true", help="show the version"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_demo(commands)
    _add_inspect(commands)
    _add_export(commands)
    parsed = parser.parse_args(arguments)
    if parsed.version:
        # Takes longer to import than everything else here.
        from importlib import metadata

        print("keras-lab", metadata.version("keras_lab"))
        return 0
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
        help="see what one bit per weight costs, in about a minute",
        description=(
            "Trains a digit classifier and a character LSTM in full precision "
            "and with binary weights, exports the classifier to TFLite, prints "
            "two tables and writes a figure."
        ),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--output",
        type=Path,
        default="keras_lab_demo.png",
        metavar="FILE",
        help="the figure to write: .png, .pdf, .svg",
    )
    parser.add_argument(
        "--epochs",
        type=_integer_from(1),
        default=argparse.SUPPRESS,
        metavar="N",
        help="epochs for each network (default: 10 for digits, 4 for text)",
    )
    parser.add_argument(
        "--seed",
        type=_integer_from(0, 2**32 - 1),
        default=1,
        metavar="N",
        help="sets the initial weights and the order of the batches",
    )
    parser.set_defaults(run=_run_demo, parser=parser)


def _run_demo(arguments):
    modules = ("sklearn", "matplotlib", *EXPORT_MODULES)
    if not _installed("demo", "demo", *modules):
        return 1
    with _native_logs_hidden():
        from keras_lab import demo

        _check_figure(arguments, "output")
        epochs = getattr(arguments, "epochs", None)
        demo.run(arguments.output, arguments.seed, epochs)
    return 0


def _add_inspect(commands):
    parser = commands.add_parser(
        "inspect",
        help="show what a .keras, .h5, .tflite or .tflz file holds",
        description=(
            "Prints a table of the layers of a saved model: 1-bit and 32-bit "
            "parameters, alpha, bytes now and exported, multiply-accumulates. "
            "For a .tflite or .tflz file it prints how each weight is stored."
        ),
    )
    parser.add_argument(
        "file", type=_model_path, help=".keras, .h5, .tflite or .tflz"
    )
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="write histograms of the latent weights of a model: .png, .pdf, "
        ".svg",
    )
    parser.add_argument(
        "--no-export",
        dest="exported",
        action="store_false",
        help="do not export the model to measure the file: faster",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run_inspect, parser=parser)


def _run_inspect(arguments):
    is_exported = arguments.file.suffix.lower() in EXPORTED_SUFFIXES
    if arguments.plot and is_exported:
        arguments.parser.error(
            "an exported file has no latent weights to plot. "
            f"Received: '{arguments.file}'"
        )
    if arguments.plot and not _installed("inspect", "plots", "matplotlib"):
        return 1
    try:
        with _native_logs_hidden():
            if is_exported:
                import tflite_export

                report = tflite_export.inspect(arguments.file)
                print(report.to_json() if arguments.json else report)
            else:
                _inspect_keras(arguments)
    except (ImportError, OSError, ValueError) as error:
        name = str(getattr(error, "name", None)).partition(".")[0]
        if name in BACKENDS:
            error = (
                f"the backend of Keras, {name}, is not installed. Set "
                "KERAS_BACKEND to one that is, or run: "
                f'pip install "keras_lab[{name}]"'
            )
        print(f"keras-lab inspect: error: {error}", file=sys.stderr)
        return 1
    return 0


def _inspect_keras(arguments):
    from keras_lab import plots, summary
    from keras_lab.files import load_model

    if arguments.plot:
        _check_figure(arguments, "plot")
    model = load_model(arguments.file)
    exported = arguments.exported
    if exported:
        print(
            "Exporting the model to measure the file. Use --no-export to skip "
            "this.",
            file=sys.stderr,
        )
    if arguments.json:
        content = summary(model, exported=exported, return_dict=True)
        print(json.dumps(content, indent=1))
    else:
        summary(model, exported=exported)
    if arguments.plot:
        plots.latent_weights(model, arguments.plot)
        print(f"Figure: {arguments.plot}", file=sys.stderr)


def _add_export(commands):
    parser = commands.add_parser(
        "export",
        help="write a saved model as a .tflite file, one bit per weight",
    )
    export_cli.add_export_arguments(parser)
    parser.set_defaults(run=_run_export)


def _run_export(arguments):
    if not _installed("export", "export", *EXPORT_MODULES):
        return 1
    with _native_logs_hidden():
        return export_cli.run_export(arguments)


@contextlib.contextmanager
def _native_logs_hidden():
    """Keeps the log lines of TensorFlow's C++ code off the terminal.

    Some of them come before any log level is read, so what is written to file
    descriptor 2 goes to a temporary file. Python's own `sys.stderr` still
    reaches the terminal. If the body fails, the log is shown after all.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    with (
        tempfile.TemporaryFile() as log,
        open(os.dup(2), "w", buffering=1, encoding="utf-8") as terminal,
        contextlib.ExitStack() as stack,
    ):
        if sys.stderr is sys.__stderr__:
            stack.enter_context(contextlib.redirect_stderr(terminal))
        os.dup2(log.fileno(), 2)
        try:
            yield
        except (KeyboardInterrupt, OSError, SystemExit, ValueError):
            raise  # `main` or the command itself says what is wrong.
        except BaseException:
            log.seek(0)
            shutil.copyfileobj(log, terminal.buffer)
            terminal.flush()
            raise
        finally:
            os.dup2(terminal.fileno(), 2)


def _installed(command, extra, *modules):
    """Whether the modules that an extra of the package brings are installed."""
    missing = [m for m in modules if importlib.util.find_spec(m) is None]
    if missing:
        print(
            f"keras-lab {command}: error: {' and '.join(missing)} must be "
            f'installed. Run: pip install "keras_lab[{extra}]"',
            file=sys.stderr,
        )
    return not missing


def _integer_from(lowest, highest=math.inf):
    bounds = f"at least {lowest}"
    if highest < math.inf:
        bounds += f" and at most {highest}"

    def integer(text):
        if not (text.isdecimal() and lowest <= int(text) <= highest):
            raise argparse.ArgumentTypeError(
                f"must be an integer, {bounds}. Received: {text!r}"
            )
        return int(text)

    return integer


def _model_path(text):
    path = Path(text)
    problem = None
    if path.suffix.lower() not in (".keras", ".h5", *EXPORTED_SUFFIXES):
        problem = "must end in .keras, .h5, .tflite or .tflz"
    elif path.is_dir():
        problem = "is a directory"
    elif not path.is_file():
        problem = "does not exist"
    if problem:
        raise argparse.ArgumentTypeError(f"{problem}. Received: {text!r}")
    return path


def _check_figure(arguments, option):
    """Ends the program if the figure of an option cannot be written."""
    from keras_lab.files import FIGURE_SUFFIXES, target_problem

    path = getattr(arguments, option)
    problem = target_problem(path, FIGURE_SUFFIXES)
    if problem:
        arguments.parser.error(
            f"argument --{option}: {problem}. Received: '{path}'"
        )
