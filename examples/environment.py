"""What a number was measured with, and how it is written down."""

import datetime
import json
import os
import platform
import statistics
from collections.abc import Iterable, Sequence
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


def mean_and_spread(values: Sequence[float], digits: int) -> str:
    """Mean ± standard deviation over runs, if they differ."""
    mean = f"{statistics.fmean(values):.{digits}f}"
    if len(set(values)) == 1:
        return mean
    return f"{mean} ± {statistics.stdev(values):.{digits}f}"


def markdown_table(heads: Sequence[str], lines: Iterable[Sequence]) -> str:
    """Returns a Markdown table, for the heads of its columns and its lines."""
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


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


def show_table(folder: Path, text: str) -> None:
    """Prints a table, and puts it into the README of its folder, if any."""
    print("\n" + text)
    page = folder / "README.md"
    if page.exists():
        before, begin, rest = page.read_text().partition("<!-- table -->\n")
        _, end, after = rest.partition("<!-- end -->")
        write_text(page, f"{before}{begin}{text}\n{end}{after}")
