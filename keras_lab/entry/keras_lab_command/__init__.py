"""The entry point of the command `keras-lab`.

The command must answer `--help` at once, and importing Keras takes seconds. So
where this module is imported, `keras_lab` loads its public names when they are
first used. It is installed as a package of its own, because importing it from
`keras_lab` would import that package first.
"""

import importlib.util
import json
import os
from pathlib import Path

__all__ = ["choose_backend", "main"]


def main() -> int:
    """Runs the command line and returns the exit code."""
    choose_backend()
    from keras_lab.cli import main

    return main()


def choose_backend() -> None:
    """Without TensorFlow, names an installed backend to Keras.

    Does nothing if the user named one. Keras would try TensorFlow, and fail.
    """
    if os.environ.get("KERAS_BACKEND") or _configured() != "tensorflow":
        return
    for name in ("tensorflow", "jax", "torch"):
        if importlib.util.find_spec(name) is not None:
            os.environ["KERAS_BACKEND"] = name
            return


def _configured() -> str:
    """The backend in Keras' file; Keras itself writes "tensorflow" there."""
    home = os.environ.get("KERAS_HOME") or Path.home() / ".keras"
    try:
        content = json.loads(Path(home, "keras.json").expanduser().read_text())
        return content.get("backend", "tensorflow")
    except (OSError, ValueError, AttributeError):
        return "tensorflow"
