"""Which backend Keras runs on if TensorFlow is not installed."""

import importlib.util
import json
import os
from pathlib import Path

__all__ = ["BACKENDS", "choose_backend"]

BACKENDS = ("tensorflow", "jax", "torch")


def choose_backend() -> None:
    """Without TensorFlow, names an installed backend to Keras.

    Does nothing if the user named one. Keras would try TensorFlow, and fail.
    """
    if os.environ.get("KERAS_BACKEND") or _configured() != "tensorflow":
        return
    for name in BACKENDS:
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
