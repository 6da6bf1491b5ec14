"""What the examples write down: numbers, and what they were measured with."""

import datetime
import importlib.metadata
import json
import os
import platform
from pathlib import Path

from keras_lab.files import replacing


def environment() -> dict:
    """The machine and the versions a number was measured with."""
    packages = ("keras_lab", "keras", "tensorflow", "numpy")
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        **{name: _version(name) for name in packages},
    }


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None  # It runs from a folder.


def write_json(path: str | Path, content: dict) -> None:
    """Writes the whole file or nothing, and its folder where there is none."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def write_text(path: str | Path, text: str) -> None:
    """Writes the whole file or nothing, and its folder where there is none."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        partial.write_text(text)
