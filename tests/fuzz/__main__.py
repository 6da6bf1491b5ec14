"""Fuzzes the readers with any number of damaged files.

    python -m tests.fuzz --files 1000000 --output results/fuzz/files.json

The record has the seed, the counts, and the number of each file that was a
problem, so that `Fuzzer.file(number)` makes it again.
"""

import argparse
import collections
import json
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from examples.environment import environment, write_json
from tests.fuzz.targets import (
    MEMORY_EVERY,
    READERS,
    SECONDS,
    SPARE,
    TIMES,
    read_files,
    write_corpus,
)

PART = 25_000  # The files that one process reads.
SPAWN = multiprocessing.get_context("spawn")


def main():
    args = _parser().parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    begin, counts, problems = time.time(), collections.Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        _run(write_corpus, Path(folder))
        parts = range(0, args.files, PART)
        with ThreadPoolExecutor(args.processes) as pool:
            results = pool.map(lambda first: _part(folder, args, first), parts)
            for part_counts, part_problems in results:
                counts.update(part_counts)
                problems += part_problems
                print(f"{counts.total():,} of {args.files:,} files", flush=True)
    record = {
        "files": counts.total(),
        "seed": args.seed,
        "outcomes": {" ".join(key): n for key, n in sorted(counts.items())},
        "problems": problems,
        "limits": {"seconds": SECONDS, "times": TIMES, "spare_bytes": SPARE},
        "memory_measured_every": MEMORY_EVERY,
        "minutes": round((time.time() - begin) / 60, 1),
        "processes": args.processes,
        "environment": environment(),
    }
    print(json.dumps(record, indent=1))
    if args.output:
        write_json(args.output, record)
    raise SystemExit(1 if problems else 0)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--readers", nargs="+", choices=READERS, default=list(READERS)
    )
    parser.add_argument("--output", type=Path, help="a JSON file to write")
    return parser


def _run(function, *args):
    process = SPAWN.Process(target=function, args=args)
    process.start()
    process.join()
    return process.exitcode


def _part(folder, args, first):
    """Reads one part of the files. Returns the counts and the problems."""
    queue, number = SPAWN.SimpleQueue(), SPAWN.Value("q", first)
    last = min(first + PART, args.files)
    process = SPAWN.Process(
        target=read_files,
        args=(folder, args.seed, args.readers, number, last, queue),
    )
    process.start()
    counts, problems = collections.Counter(), []
    seen, since = first, time.time()
    while process.is_alive() or not queue.empty():
        while not queue.empty():
            what, value = queue.get()
            if what == "counts":
                counts.update(value)
            else:
                problems.append(value)
                counts[value[1], "problem"] += 1
        if number.value != seen:
            seen, since = number.value, time.time()
        elif time.time() - since > 10 * SECONDS:
            process.kill()
        process.join(1)
    if number.value < last:
        why = f"the process ended with {process.exitcode}"
        problems.append([number.value, "", why])
    return counts, problems


if __name__ == "__main__":
    main()
