"""Runs the benchmarks, each part once, and writes the page of results.

    python -m benchmarks                    # what has not run yet
    python -m benchmarks growth --again     # one part, once more
    python -m benchmarks --report           # the page alone

A part is a program that writes one JSON file; what it has finished stays when
it is interrupted, and the same command goes on from there. The page, the
figure and the table in the README come from the JSON files alone.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks import harness, report
from benchmarks.parts import PARTS
from benchmarks.peers import environments


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.split("\n\n")[0]
    )
    add = parser.add_argument
    add(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"one or more of {', '.join(PARTS)}; default: all",
    )
    add("--again", action="store_true", help="also those that are finished")
    add(
        "--rounds",
        type=int,
        help="of the parts that have rounds; default: as published",
    )
    add(
        "--quick",
        action="store_true",
        help="tiny networks, a smoke test: its numbers mean nothing. Needs "
        "--results, not to replace those that do",
    )
    add("--report", action="store_true", help="run nothing, write the page")
    add(
        "--results",
        type=Path,
        metavar="DIR",
        help="default: results/benchmarks",
    )
    environments.add_option(parser)
    arguments = parser.parse_args(argv)
    for name in arguments.parts:
        if name not in PARTS:
            parser.error(f"{name!r} is no part. Parts: {', '.join(PARTS)}")
    if arguments.quick and arguments.results is None:
        parser.error("--quick needs --results, a folder for its numbers.")
    arguments.parts = arguments.parts or list(PARTS)
    arguments.results = (arguments.results or harness.RESULTS).resolve()
    return arguments


def command(part, output, arguments):
    """The command line of a part."""
    options = list(part.quick if arguments.quick else part.options)
    if arguments.rounds and "--rounds" in options:
        options[options.index("--rounds") + 1] = str(arguments.rounds)
    if part.peers:
        options += ["--environments", str(arguments.environments)]
    options += ["--output", str(output)]
    return [sys.executable, "-m", part.module, *options]


def run_part(part, arguments) -> bool:
    """Runs a part unless it is finished; whether it is now.

    Run again, it writes to another file, which takes the old one's place at
    the end: until then there are the old numbers.
    """
    path = output = part.path(arguments.results)
    if arguments.again:
        output = path.with_suffix(".again.json")
    elif part.is_finished(arguments.results):
        print(f"{part.name}: finished before", flush=True)
        return True
    print(f"{part.name}:", flush=True)
    done = subprocess.run(command(part, output, arguments)).returncode == 0
    if done:
        output.replace(path)
    return done


def main(argv=None) -> int:
    """Runs the command line and returns the exit code."""
    arguments = parse(argv)
    code = 0
    try:
        for name in [] if arguments.report else arguments.parts:
            if not run_part(PARTS[name], arguments):
                print(f"{name}: failed", file=sys.stderr, flush=True)
                code = 1
    except KeyboardInterrupt:
        print("\nInterrupted. The same command goes on from here.")
        code = 130
    for path in report.write(arguments.results):
        print(f"wrote {path}")
    return code


if __name__ == "__main__":
    sys.exit(main())
