"""Runs the benchmarks that have not run, and writes the tables.

    python -m benchmarks                    # every part that has not run
    python -m benchmarks resnet8 --again    # one part, once more
    python -m benchmarks --report           # only the tables

A part writes one JSON file. It keeps each row as soon as it is measured, so
after an interrupt the same command continues.
"""

import argparse
import multiprocessing
import os
import sys
from pathlib import Path

import filelock

from benchmarks import harness, report

PARTS = (
    "peers_train_step",
    "peers_accuracy",
    "peers_files",
    "recurrent_step",
    "containers",
    "resnet8",
    "deep_int8",
    "open_batch",
    "low_bits",
)
BACKEND = os.environ.get("KERAS_BACKEND", "tensorflow")
# Parts that run only if you name them, with the names of their files.
ON_REQUEST = {
    "backend_step": f"train_step_{BACKEND}",
    "runtime_support": "runtimes",
}


def parse(argv, module, parts):
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description=__doc__.split("\n\n")[0]
    )
    parser.set_defaults(parts=parts)
    add = parser.add_argument
    if parts is None:
        add(
            "parts",
            nargs="*",
            metavar="PART",
            help="default: "
            f"{', '.join(PARTS)}; on request: {', '.join(ON_REQUEST)}",
        )
    add("--again", action="store_true", help="run finished parts again")
    add("--quick", action="store_true", help="a smoke test; needs --results")
    add("--report", action="store_true", help="run nothing, write the tables")
    add("--results", type=Path, metavar="DIR", help="the folder of results")
    arguments = parser.parse_args(argv)
    known = [*PARTS, *ON_REQUEST]
    if unknown := {*arguments.parts} - {*known}:
        parser.error(f"the parts are {', '.join(known)}. Received: {unknown}")
    if arguments.quick and arguments.results is None:
        parser.error("--quick needs --results: its numbers mean nothing.")
    arguments.results = (arguments.results or harness.RESULTS).resolve()
    return arguments


def run_part(name, arguments) -> bool:
    """Runs a part unless it is finished. Returns whether it is now.

    A part that runs again writes to another file, which replaces the old one at
    the end.
    """
    path = output = arguments.results / f"{ON_REQUEST.get(name, name)}.json"
    if arguments.again:
        output = path.with_suffix(".again.json")
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


def main(argv=None, module="benchmarks", parts=None) -> int:
    """Runs the parts, writes the tables, and returns the exit code."""
    arguments, done = parse(argv, module, parts), []
    try:
        if not arguments.report:
            arguments.results.mkdir(parents=True, exist_ok=True)
            # Two benchmarks at the same time would disturb each other.
            lock = arguments.results / ".benchmarks.lock"
            with filelock.FileLock(lock, timeout=0):
                parts = arguments.parts or PARTS
                done = [run_part(name, arguments) for name in parts]
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
