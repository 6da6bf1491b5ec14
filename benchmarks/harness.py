"""What every benchmark shares: interleaved timing, and results as JSON."""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
import uuid
from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent / "results" / "benchmarks"
# What every file of results has, and what to do with one that has not.
COMMON = ("configuration", "environment")
REMEDY = "Delete it, or have an older one back from git, and run again."
# What the speed of matrix products depends on.
FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "asimddp")


class ResultError(Exception):
    """A file of results that cannot be read, or cannot be written."""


def interleave(candidates, rounds, progress=print):
    """Times each candidate once a round, in turn, after a warm-up round.

    The machine's speed drifts, so only times of the same round are comparable.

    Args:
        candidates: A dict from a name to a function without arguments.
        rounds: How many rounds to time.
        progress: Called with a line of text now and then.

    Returns:
        A dict from the name to a list of seconds, one a round.
    """
    seconds = {name: [] for name in candidates}
    for run in candidates.values():
        run()
    for number in range(rounds):
        for name, run in candidates.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
        if (number + 1) % 5 == 0:
            progress(f"  round {number + 1} of {rounds}")
    return seconds


def ratio(seconds, name, baseline):
    """Median and quartiles of the ratio of two candidates, round by round."""
    return spread([a / b for a, b in zip(seconds[name], seconds[baseline])])


def spread(values):
    """Median and quartiles; of a single value, that value."""
    if len(values) == 1:
        return {"median": values[0], "quartiles": [values[0], values[0]]}
    low, median, high = statistics.quantiles(values, n=4)
    return {"median": median, "quartiles": [low, high]}


def environment(packages=("keras", "tensorflow", "numpy")):
    """The machine and the versions a number was measured with."""
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "cpu_features": cpu_features(),
        **{name: importlib.metadata.version(name) for name in packages},
    }


def cpu_features():
    """Of `FEATURES`, those that this machine has; none where unknown."""
    path = Path("/proc/cpuinfo")
    words = set(path.read_text().split()) if path.is_file() else set()
    return [feature for feature in FEATURES if feature in words]


def write_json(path, content):
    """Writes the whole file or nothing."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def write_text(path, text):
    """Writes the whole file or nothing."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own: another process may be writing the same file.
    partial = path.with_name(f".{uuid.uuid4().hex}.part")
    try:
        partial.write_text(text)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read_result(path, fields=("rows",), columns=()):
    """The content of a file of results.

    Args:
        path: The JSON file.
        fields: What it must have, besides what all of them have.
        columns: What each row must have, but for those that say why not.

    Raises:
        ResultError: If it is damaged, or of another format.
    """
    try:
        content = json.loads(Path(path).read_text())
        missing = {*COMMON, *fields} - {*content}
        for row in content.get("rows", []):
            if "cannot" not in row:
                missing |= {*columns} - {*row}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ResultError(
            f"{path} is no file of results ({error}). {REMEDY}"
        ) from error
    if missing:
        names = ", ".join(sorted(missing))
        raise ResultError(f"{path} has another format: no {names}. {REMEDY}")
    return content


def check_output(path):
    """Raises a `ResultError` unless a file can be written at a path."""
    path = Path(path).resolve()
    if path.is_dir():
        raise ResultError(f"{path} is a folder, and should be a file.")
    folder = next(p for p in path.parents if os.path.exists(p))
    if not folder.is_dir():
        raise ResultError(f"{folder} is a file, and should be a folder.")
    if not os.access(folder, os.W_OK):
        raise ResultError(f"{folder} cannot be written to.")


def at_least(least):
    """The type of an option: an integer that is not too small."""

    def integer(text):
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(
                f"must be at least {least}. Received: {value}"
            )
        return value

    return integer


def report_errors(program, *errors) -> int:
    """Runs a program and returns its exit code.

    A `ResultError`, or an error of these kinds, is a line and exit code 1; an
    interrupt is exit code 130.
    """
    try:
        return program() or 0
    except (ResultError, *errors) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
