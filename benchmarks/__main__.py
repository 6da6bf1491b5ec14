"""Runs the benchmarks that have not run, and writes the tables.

    python -m benchmarks                    # every part that has not run
    python -m benchmarks growth --again     # one part, once more
    python -m benchmarks --report           # only the tables

A part is a program that writes one JSON file. It keeps each row as soon as it
is measured, so after an interrupt the same command continues.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks import harness, report

# The modules, each with options for a smoke test.
PARTS = {
    "peers_train_step": "--rounds 2 --steps-per-round 1 --width 8",
    "peers_accuracy": "--epochs 1 --seeds 1 2 --width 32 --images 1000",
    "peers_files": "--processes 1 --seconds-per-process 0.1 --width 16",
    "growth": "--rounds 2 --exports 1 --most 1000000",
    "train_step": "--rounds 2 --steps-per-round 1 --width 8",
    "recurrent_step": "--rounds 2 --cells 8 --steps 5 --batch 2",
    "inference": "--processes 1 --seconds-per-process 0.1 --networks conv128",
    "monitor": "--rounds 2 --steps-per-round 1 --width 8",
}


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.split("\n\n")[0]
    )
    add = parser.add_argument
    add("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    add("--again", action="store_true", help="run finished parts again")
    add(
        "--quick",
        action="store_true",
        help="a smoke test with tiny networks; needs --results",
    )
    add("--report", action="store_true", help="run nothing, write the tables")
    add("--results", type=Path, metavar="DIR", help="the folder of results")
    arguments = parser.parse_args(argv)
    if unknown := {*arguments.parts} - {*PARTS}:
        parser.error(f"the parts are {', '.join(PARTS)}. Received: {unknown}")
    if arguments.quick and arguments.results is None:
        parser.error("--quick needs --results: its numbers mean nothing.")
    arguments.results = (arguments.results or harness.RESULTS).resolve()
    return arguments


def run_part(name, arguments) -> bool:
    """Runs a part unless it is finished. Returns whether it is now.

    A part that runs again writes to another file, which replaces the old one at
    the end.
    """
    path = output = arguments.results / f"{name}.json"
    if arguments.again:
        output = path.with_suffix(".again.json")
    elif path.exists() and harness.read_result(path).get("finished", True):
        print(f"{name}: finished before", flush=True)
        return True
    print(f"{name}:", flush=True)
    command = [sys.executable, "-m", f"benchmarks.{name}"]
    command += ["--output", str(output)]
    done = subprocess.run(
        command + (PARTS[name].split() if arguments.quick else [])
    )
    if done.returncode == 0:
        output.replace(path)
    return done.returncode == 0


def run(arguments) -> int:
    """Runs the parts, writes the tables, and returns the exit code."""
    code = 0
    report.load(arguments.results)  # A damaged file is an error at the start.
    for name in [] if arguments.report else arguments.parts or PARTS:
        try:
            done = run_part(name, arguments)
        except KeyboardInterrupt:
            print("\nInterrupted. The same command continues.")
            code = 130
            break
        if not done:
            print(f"{name}: failed", file=sys.stderr, flush=True)
            code = 1
    for path in report.write(arguments.results):
        print(f"wrote {path}")
    return code


def main(argv=None) -> int:
    arguments = parse(argv)
    return harness.exit_code(lambda: run(arguments))


if __name__ == "__main__":
    sys.exit(main())
