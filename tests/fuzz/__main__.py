"""Fuzzes the readers with any number of damaged files.

    python -m tests.fuzz --files 1000000 --output results/fuzz/files.json

The record has the seed, the counts, and the number of each file that was a
problem, so that `Fuzzer.file(number)` makes it again.
"""

import argparse
import collections
import functools
import json
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from examples.environment import environment, write_json
from tests.fuzz.targets import (
    MEMORY_EVERY,
    SECONDS,
    SPARE,
    TIMES,
    read_files,
    write_corpus,
)

PART = 5_000  # The files that are read at once.


def main():
    args = _parser().parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    begin, counts, problems = time.time(), collections.Counter(), []
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(
            args.processes, multiprocessing.get_context("spawn")
        ) as pool,
    ):
        pool.submit(write_corpus, Path(folder)).result()
        read = functools.partial(read_files, folder, args.seed)
        firsts = range(0, args.files, PART)
        lasts = [min(first + PART, args.files) for first in firsts]
        try:
            for found, wrong in pool.map(read, firsts, lasts):
                counts.update(found)
                problems += wrong
                print(f"{counts.total():,} of {args.files:,} files", flush=True)
        except BrokenProcessPool as error:
            problems.append([counts.total(), "", f"at or after it: {error}"])
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
    parser.add_argument("--output", type=Path, help="a JSON file to write")
    return parser


if __name__ == "__main__":
    main()
