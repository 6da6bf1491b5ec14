"""Runs the benchmarks, each part once, and writes the page of results.

    python -m benchmarks                    # what has not run yet
    python -m benchmarks growth --again     # one part, once more
    python -m benchmarks --report           # the page alone

A part is a program that writes one JSON file. When the command is interrupted,
the parts that are finished stay, and the same command does the others; with
`--again`, name those. Of the part that was interrupted, those against other
libraries and growth have kept each row, and go on from there; the others begin
anew. The page, the figure and the table in the README come from the JSON files
alone.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks import harness, report
from benchmarks.parts import PARTS, load
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
        type=harness.at_least(2),
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
    if arguments.report:
        arguments.parts = []
    arguments.results = (arguments.results or harness.RESULTS).resolve()
    return arguments


def command(part, output, arguments):
    """The command line of a part."""
    options = list(part.quick if arguments.quick else part.options)
    if part.rounds and arguments.rounds is not None:
        # The last one counts.
        options += ["--rounds", str(arguments.rounds)]
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


def check(folder):
    """Raises a `ResultError` unless there is a page at the end of it all."""
    harness.check_output(folder / "README.md")
    for part in PARTS.values():
        load(part, folder)


def say_how_to_go_on(names, again):
    """What an interrupt leaves, and how to do these parts, the first begun."""
    first = PARTS[names[0]]
    how = "goes on from its last row" if first.keeps_rows else "begins anew"
    # With --again, the same command would do all of them.
    parts = f" for {' '.join(names)}" if again else ""
    print(
        f"\nInterrupted. The same command{parts} does the rest; {first.name} "
        f"{how}."
    )


def run(arguments) -> int:
    """Runs the parts, writes the page, and returns the exit code."""
    check(arguments.results)
    code = 0
    for number, name in enumerate(arguments.parts):
        try:
            done = run_part(PARTS[name], arguments)
        except KeyboardInterrupt:
            say_how_to_go_on(arguments.parts[number:], arguments.again)
            code = 130
            break
        if not done:
            print(f"{name}: failed", file=sys.stderr, flush=True)
            code = 1
    for path in report.write(arguments.results):
        print(f"wrote {path}")
    return code


def main(argv=None) -> int:
    """Runs the command line and returns the exit code."""
    arguments = parse(argv)
    return harness.report_errors(lambda: run(arguments))


if __name__ == "__main__":
    sys.exit(main())
