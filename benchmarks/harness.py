"""What every benchmark shares: timing in turns, and results as JSON files."""

import argparse
import dataclasses
import datetime
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import filelock

from benchmarks.networks import SEED
from benchmarks.worker import Cannot, versions

RESULTS = Path(__file__).resolve().parent.parent / "results" / "benchmarks"
PACKAGES = ("keras_lab", "keras", "tensorflow", "numpy", "ai-edge-litert")
# The CPU features that the speed of matrix products depends on.
FEATURES = (
    *("avx", "fma", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni"),
    *("amx_int8", "asimd", "asimddp", "i8mm", "sve"),
)


class ResultError(Exception):
    """A file of results that cannot be read, continued or finished."""


def interleave(candidates, rounds, progress=print):
    """Times each candidate once per round, in turn, after a warm-up round.

    The machine's speed drifts, so only times of the same round are comparable.

    Args:
        candidates: A dict from a name to a function without arguments.
        rounds: The number of rounds to time.
        progress: Called with a line of text every five rounds.

    Returns:
        A dict from the name to a list of seconds, one per round.
    """
    seconds = {name: [] for name in candidates}
    for run in candidates.values():
        run()
    for number in range(1, rounds + 1):
        for name, run in candidates.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
        if number % 5 == 0:
            progress(f"  round {number} of {rounds}")
    return seconds


def ratio(seconds, name, baseline):
    """Returns median and quartiles of a ratio, taken round by round."""
    return spread([a / b for a, b in zip(seconds[name], seconds[baseline])])


def spread(values):
    """Returns median and quartiles."""
    low = median = high = values[0]
    if len(values) > 1:
        low, median, high = statistics.quantiles(values, n=4)
    return {"median": median, "quartiles": [low, high]}


def environment():
    """Returns the machine, the versions and the date, for a JSON file."""
    cpu, features = _cpu()
    cores = os.cpu_count()
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cpu": cpu,
        "cpu_features": features,
        "cores": cores,
        "python": platform.python_version(),
        **versions(PACKAGES),
    }


def _cpu():
    """The model of the CPU, and which of `FEATURES` it has."""
    path = Path("/proc/cpuinfo")
    if not path.is_file():
        return platform.processor() or platform.machine(), []
    text = path.read_text()
    models = [n for n in text.splitlines() if n.startswith("model name")]
    model = models[0].partition(":")[2].strip() if models else ""
    words = set(text.split())
    return model or platform.machine(), [f for f in FEATURES if f in words]


class Journal:
    """The results of a benchmark. Each row is written as soon as it is there.

    An interrupted or failed benchmark keeps its rows, and the same command
    measures the others. Use it as a context manager: if the block ends without
    an error, the file is marked as finished.

    Args:
        path: The JSON file.
        benchmark: The name of the benchmark.
        configuration: What the rows are measured with, the seed included.

    Raises:
        ResultError: If the file is damaged, if it has rows of another
            configuration or machine, or if another process is writing it.
    """

    def __init__(self, path, benchmark, configuration):
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = self.path.with_name(f".{self.path.name}.lock")
        self.lock = filelock.FileLock(lock)
        self.content = {
            "benchmark": benchmark,
            "configuration": configuration,
            "finished": False,
            "environment": environment(),
            "versions": {},
            "rows": [],
        }

    def __enter__(self):
        try:
            self.lock.acquire(timeout=0)
        except filelock.Timeout:
            raise ResultError(
                f"Another process is writing {self.path}. Wait for it, or "
                "choose another file with --output."
            ) from None
        try:
            if self.path.exists():
                self._continue(read_result(self.path))
            self.write()  # A path that cannot be written fails before the work.
        except BaseException:
            self._unlock()
            raise
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self._finish()
        finally:
            self._unlock()

    def _unlock(self):
        self.lock.release()
        Path(self.lock.lock_file).unlink(missing_ok=True)

    def _continue(self, previous):
        for part in ("configuration", "environment"):
            was, now = previous[part], self.content[part]
            differ = [
                f"{key} {was.get(key)}, not {now.get(key)}"
                for key in {**was, **now}
                # A benchmark may take days.
                if was.get(key) != now.get(key) and key != "date"
            ]
            if differ:
                raise ResultError(
                    f"{self.path} was made with {'; '.join(differ)}. Delete "
                    "it, or choose another file with --output."
                )
        self.content |= previous | {"finished": False}

    def _finish(self):
        failed = [row for row in self.content["rows"] if "try_again" in row]
        self.content["finished"] = not failed
        self.write()
        if failed:
            reasons = {f"{row['peer']} ({row['cannot']})" for row in failed}
            raise ResultError(
                f"{self.path} is not finished: {', '.join(sorted(reasons))}. "
                "The same command tries these again."
            )

    def misses(self, cell) -> bool:
        """Returns whether rows with these values still have to be measured.

        That is so if there are none, if all of them failed, or if one of them
        had no environment: the reason may have been the network.
        """
        rows = [r for r in self.content["rows"] if cell.items() <= r.items()]
        failed = all("cannot" in row for row in rows)
        return failed or any("try_again" in row for row in rows)

    def add(self, cell, rows) -> None:
        """Keeps rows, and drops older rows with the values of the cell."""
        old = self.content["rows"]
        kept = [row for row in old if not cell.items() <= row.items()]
        date = datetime.date.today().isoformat()
        new = [{**cell, **row, "date": date} for row in rows]
        self.content["rows"] = kept + new
        self.write()

    def write(self) -> None:
        """Writes the file as it is now."""
        write_text(self.path, json.dumps(self.content, indent=1) + "\n")


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """A program that measures cells and writes one JSON file.

    Attributes:
        name: The name of the module and of the file.
        description: The docstring of the module.
        options: The options of the command line with their defaults: a number,
            a list, or `None` for an optional integer.
        cells: A function of the options that returns the cells to measure, as
            dicts of the values that their rows share.
        measure: A function of a cell, the options and the journal that returns
            the rows of the cell.
    """

    name: str
    description: str
    options: Mapping[str, object]
    cells: Callable
    measure: Callable

    def parse(self, argv=None):
        parser = argparse.ArgumentParser(
            description=self.description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument("--output", default=RESULTS / f"{self.name}.json")
        for name, default in self.options.items():
            many = isinstance(default, list)
            kind = type(default[0] if many else default)
            parser.add_argument(
                f"--{name.replace('_', '-')}",
                type=int if default is None else kind,
                nargs="+" if many else None,
                default=default,
                help=f"default: {default}",
            )
        return parser.parse_args(argv)

    def run(self, arguments):
        """Measures the cells that are not in the file yet."""
        chosen = {name: getattr(arguments, name) for name in self.options}
        configuration = {"seed": SEED, **chosen}
        with Journal(arguments.output, self.name, configuration) as journal:
            for cell in self.cells(arguments):
                if not journal.misses(cell):
                    continue
                print(cell or self.name, flush=True)
                try:
                    rows = self.measure(cell, arguments, journal)
                except Cannot as error:
                    print(f"  {error.words}. {error.detail}", flush=True)
                    rows = [error.to_json()]
                journal.add(cell, rows)

    def main(self) -> int:
        arguments = self.parse()
        return exit_code(lambda: self.run(arguments))


def write_text(path, text):
    """Writes the whole file or nothing."""
    partial = Path(path).with_name(f".{Path(path).name}.part")
    partial.write_text(text)
    partial.replace(path)


def read_result(path):
    """Returns the content of a file of results.

    Raises:
        ResultError: If it is damaged, or something else.
    """
    try:
        content = json.loads(Path(path).read_text())
        missing = {"benchmark", "configuration", "environment"} - {*content}
    except (OSError, ValueError, TypeError) as error:
        missing = str(error)
    if missing:
        raise ResultError(
            f"{path} is not a file of results (missing: {missing}). Delete it "
            "or restore it with git, and run the command again."
        )
    return content


def exit_code(program) -> int:
    """Runs a program and returns its exit code."""
    try:
        return program() or 0
    except (ResultError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
