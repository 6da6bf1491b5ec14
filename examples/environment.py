"""What a number was measured with, and how it is written down."""

import datetime
import json
import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import keras_lab
from keras_lab.files import replacing

# The CPU features that the speed of matrix products depends on.
FEATURES = (
    "avx",
    "fma",
    "avx2",
    "avx_vnni",
    "avx512f",
    "avx512bw",
    "avx512_vnni",
    "amx_int8",
    "asimd",
    "asimddp",
    "i8mm",
    "sve",
)


def machine() -> dict:
    """The date, the machine and the version of Python."""
    cpu = Path("/proc/cpuinfo")
    text = cpu.read_text() if cpu.is_file() else ""
    models = [n for n in text.splitlines() if n.startswith("model name")]
    cores = os.cpu_count()
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cpu": models[0].split(": ")[1] if models else platform.processor(),
        "cpu_features": [f for f in FEATURES if f in text.split()],
        "cores": cores,
        "python": platform.python_version(),
    }


def environment() -> dict:
    """The machine and the versions that a number was measured with."""
    packages = {
        name: version(name) for name in ("keras", "tensorflow", "numpy")
    }
    return {**machine(), "keras_lab": keras_lab.__version__, **packages}


def write_json(path: str | Path, content: dict) -> None:
    """Writes a JSON file, see `write_text`."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def write_text(path: str | Path, text: str) -> None:
    """Writes the whole file or nothing, and creates its folder."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        partial.write_text(text)


def origin(environments: Iterable[dict]) -> str:
    """When something was measured, and with which versions."""
    names = ("date", "keras_lab", "keras", "tensorflow", "numpy")
    environments = list(environments)
    date, *versions = (
        " to ".join(sorted({each[name] for each in environments}))
        for name in names
    )
    versions = ", ".join(map(" ".join, zip(names[1:], versions)))
    return f"Measured {date}. {versions}."
