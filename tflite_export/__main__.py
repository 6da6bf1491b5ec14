"""`python -m tflite_export`: exports a model, or inspects a file.

python -m tflite_export digits.keras digits.tflite --format packed
python -m tflite_export digits.keras digits.tflz --other-weights int8
python -m tflite_export inspect digits.tflz
"""

import argparse
import sys
from collections.abc import Sequence

from tflite_export import command

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
        command.add_arguments(parser)
        return command.run(parser.parse_args(arguments))
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


if __name__ == "__main__":
    sys.exit(main())
