"""What a number was measured with, and how the examples write it down."""

import datetime
import json
import os
import platform
from pathlib import Path

import keras
import numpy
import tensorflow

import keras_lab
from keras_lab.files import replacing


def environment() -> dict:
    """The machine and the versions that a number was measured with."""
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "keras_lab": keras_lab.__version__,
        "keras": keras.version(),
        "tensorflow": tensorflow.__version__,
        "numpy": numpy.__version__,
    }


def write_json(path: str | Path, content: dict) -> None:
    """Writes a JSON file, see `write_text`."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def write_text(path: str | Path, text: str) -> None:
    """Writes the whole file or nothing, and creates its folder."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        partial.write_text(text)
