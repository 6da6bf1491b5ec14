"""What every benchmark shares: timing in turns, and results as JSON files.

A benchmark is a module in `parts/` with these names:

- `OPTIONS`: the settings with their defaults. The JSON file has them too.
- `QUICK`: other settings, for a smoke test.
- `cells(options)` returns what to measure, as dicts of the values that the
  rows of a cell share. Without it there is one cell.
- `measure(cell, options, content)` returns the rows of a cell. `content` is
  what the file has so far, with the `versions` of the peers.
- `table(content)` returns the table of a file in Markdown.
- `RESULT`: the name of its file, if it is not that of the module.
- `ON_REQUEST = True`: it runs only if you name it.
"""

import datetime
import importlib
import json
import statistics
import sys
import time
import types
from pathlib import Path

from benchmarks.networks import SEED
from benchmarks.worker import Cannot, versions
from examples.environment import machine, write_json

RESULTS = Path(__file__).resolve().parent.parent / "results" / "benchmarks"


class ResultError(Exception):
    """A file of results that cannot be read or continued."""


def interleave(candidates, rounds, clock=time.perf_counter):
    """Times each candidate once per round, in turn, after a warm-up round.

    The machine's speed drifts, so only times of the same round are comparable.
    `candidates` is a dict of functions. Returns a list of seconds for each, one
    per round.
    """
    seconds = {name: [] for name in candidates}
    for run in candidates.values():
        run()
    for _ in range(rounds):
        for name, run in candidates.items():
            start = clock()
            run()
            seconds[name].append(clock() - start)
    return seconds


def ratio(seconds, name, baseline):
    """Returns median and quartiles of a ratio, taken round by round."""
    return quartiles([a / b for a, b in zip(seconds[name], seconds[baseline])])


def quartiles(values):
    """Returns median and quartiles."""
    low = median = high = values[0]
    if len(values) > 1:
        low, median, high = statistics.quantiles(values, n=4)
    return {"median": median, "quartiles": [low, high]}


def measure(name, benchmark, path, changes):
    """Measures the cells of a benchmark that are not in its file yet.

    The rows of a cell are written as soon as they are there, so an interrupted
    or failed benchmark keeps them, and the same command measures the others.
    What could not be measured is tried again. Raises `ResultError` if the file
    has rows of another configuration or machine.
    """
    options = benchmark.OPTIONS | changes
    content = {
        "benchmark": name,
        "configuration": {"seed": SEED, **options},
        "finished": False,
        "environment": {**machine(), **versions()},
        "versions": {},
        "rows": [],
    }
    if path.exists():
        content |= _continued(path, content) | {"finished": False}
    write_json(path, content)  # Fails before the work, if it fails.
    options = types.SimpleNamespace(**options)
    cells = benchmark.cells(options) if hasattr(benchmark, "cells") else [{}]
    for cell in cells:
        old = [r for r in content["rows"] if cell.items() <= r.items()]
        if any("cannot" not in row for row in old):
            continue
        print(cell or name, flush=True)
        try:
            rows = benchmark.measure(cell, options, content)
        except Cannot as error:
            print(f"  {error.words}. {error.detail}", flush=True)
            rows = [error.to_json()]
        date = datetime.date.today().isoformat()
        content["rows"] = [r for r in content["rows"] if r not in old]
        content["rows"] += [{**cell, **row, "date": date} for row in rows]
        write_json(path, content)
    content["finished"] = True
    write_json(path, content)


def _continued(path, content):
    previous = read_result(path)
    for part in ("configuration", "environment"):
        was, now = previous[part], content[part]
        differ = [
            f"{key} {was.get(key)}, not {now.get(key)}"
            for key in {**was, **now}
            # A benchmark may take days.
            if was.get(key) != now.get(key) and key != "date"
        ]
        if differ:
            raise ResultError(
                f"{path} was made with {'; '.join(differ)}. Delete it, or "
                "choose another folder with --results."
            )
    return previous


def part(name):
    """Returns the module of a benchmark."""
    return importlib.import_module(f"benchmarks.parts.{name}")


def run(name, path, quick):
    """Measures a benchmark. Runs in a process of its own."""
    benchmark = part(name)
    try:
        measure(name, benchmark, path, benchmark.QUICK if quick else {})
    except (ResultError, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def read_result(path):
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        # For example after a merge.
        raise ResultError(f"{path} is damaged: {error}") from error
