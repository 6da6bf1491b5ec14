"""The entry point of the command `keras-lab`.

The command must answer `--help` at once, and importing Keras takes seconds. So
where this module is imported, `keras_lab` loads its public names when they are
first used. It is installed as a package of its own, because importing it from
`keras_lab` would import that package first.
"""

__all__ = ["main"]


def main() -> int:
    """Runs the command line and returns the exit code."""
    from keras_lab.cli import main

    return main()
