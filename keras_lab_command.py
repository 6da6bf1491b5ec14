"""The entry point of the command `keras-lab`.

The command must answer `--help` at once, and importing Keras takes seconds. So
where this module is imported, `keras_lab` loads its public names when they are
first used. It is not a part of that package, because importing it from there
would import the package first.
"""

import sys

__all__ = ["main"]


def main() -> int:
    """Runs the command line and returns the exit code."""
    from keras_lab.cli import main

    return main()


if __name__ == "__main__":
    # Under its name, by which `keras_lab` looks for it.
    import keras_lab_command

    sys.exit(keras_lab_command.main())
