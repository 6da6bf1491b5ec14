"""Runs the long tests and records them.

    python -m tests.endurance killed_writes killed_training soak

Each writes `results/endurance/<name>.json`.
"""

import argparse
import importlib
import json
import os
import time
from pathlib import Path

from examples.environment import environment, write_json

RESULTS = Path(__file__).parents[2] / "results" / "endurance"
NAMES = ("killed_writes", "killed_training", "soak")


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.endurance", description=__doc__.split("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="name", default=NAMES)
    parser.add_argument("--folder", type=Path, default=RESULTS)
    args = parser.parse_args()
    if unknown := set(args.names) - set(NAMES):
        parser.error(f"unknown: {', '.join(unknown)}; choose from {NAMES}")
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    for name in args.names:
        print(f"{name} ...", flush=True)
        begin = time.time()
        record = importlib.import_module(f"tests.endurance.{name}").run()
        record["seconds"] = round(time.time() - begin)
        record["environment"] = environment()
        write_json(args.folder / f"{name}.json", record)
        print(json.dumps(record, indent=1), flush=True)


if __name__ == "__main__":
    main()
