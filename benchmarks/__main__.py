"""Runs the default benchmarks that have not run, and writes the tables.

    python -m benchmarks                   # every default part that has not run
    python -m benchmarks resnet8 --again   # one part, once more
    python -m benchmarks --report          # only the tables

`backend_step` and `runtime_support` run only if you name them.

A part writes one JSON file. It keeps each row as soon as it is measured, so
after an interrupt the same command continues.
"""

import argparse
import multiprocessing
import pkgutil
import sys
from pathlib import Path

import filelock

from benchmarks import harness, parts, report

NAMES = [module.name for module in pkgutil.iter_modules(parts.__path__)]
ALL = {name: harness.part(name) for name in NAMES}
DEFAULT = [n for n, part in ALL.items() if not hasattr(part, "ON_REQUEST")]


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.split("\n\n")[0]
    )
    add = parser.add_argument
    on_request = ", ".join(sorted({*ALL} - {*DEFAULT}))
    text = f"default: {', '.join(DEFAULT)}; on request: {on_request}"
    add("parts", nargs="*", metavar="PART", help=text)
    add("--again", action="store_true", help="run finished parts again")
    add("--quick", action="store_true", help="a smoke test; needs --results")
    add("--report", action="store_true", help="run nothing, write the tables")
    add("--results", type=Path, metavar="DIR", help="the folder of results")
    arguments = parser.parse_args(argv)
    if unknown := {*arguments.parts} - {*ALL}:
        received = ", ".join(sorted(unknown))
        parser.error(f"the parts are {', '.join(ALL)}. Received: {received}")
    if arguments.quick and arguments.results is None:
        parser.error("--quick needs --results: its numbers mean nothing.")
    arguments.results = (arguments.results or harness.RESULTS).resolve()
    return arguments


def run_part(name, arguments) -> bool:
    """Runs a part unless it is finished. Returns whether it is now.

    A part that runs again writes to another file, which replaces the old one at
    the end.
    """
    file = getattr(ALL[name], "RESULT", name)
    path = output = arguments.results / f"{file}.json"
    if arguments.again:
        output = path.with_suffix(".again")
    elif path.exists() and harness.read_result(path).get("finished", True):
        print(f"{name}: finished before")
        return True
    print(f"{name}:", flush=True)
    if not run_in_process(name, output, arguments.quick):
        print(f"{name}: failed", file=sys.stderr)
        return False
    output.replace(path)
    return True


def run_in_process(*arguments) -> bool:
    """Runs a part in its own process, with its own TensorFlow."""
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=harness.run, args=arguments)
    process.start()
    process.join()
    return process.exitcode == 0


def main(argv=None) -> int:
    """Runs the parts, writes the tables, and returns the exit code."""
    arguments, done = parse(argv), []
    try:
        if not arguments.report:
            arguments.results.mkdir(parents=True, exist_ok=True)
            # Two benchmarks at the same time would disturb each other.
            lock = arguments.results / ".benchmarks.lock"
            with filelock.FileLock(lock, timeout=0):
                names = arguments.parts or DEFAULT
                done = [run_part(name, arguments) for name in names]
        for path in report.write(arguments.results):
            print(f"wrote {path}")
    except KeyboardInterrupt:
        print("\nInterrupted. The same command continues.")
        return 130
    except (harness.ResultError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
