"""Runs the long tests and records them.

    python -m tests.endurance killed_writes killed_training threads soak

Each writes `results/endurance/<name>.json`.
"""

import argparse
import importlib
import json
import os
import platform
import time
from importlib import metadata
from pathlib import Path

NAMES = ("killed_writes", "killed_training", "threads", "soak")
PACKAGES = ("keras", "numpy", "tensorflow", "ai-edge-litert")


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.endurance", description=__doc__.split("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="name", default=NAMES)
    parser.add_argument("--folder", type=Path, default="results/endurance")
    args = parser.parse_args()
    if unknown := set(args.names) - set(NAMES):
        parser.error(f"unknown: {', '.join(unknown)}; choose from {NAMES}")
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.names:
        print(f"{name} ...", flush=True)
        begin = time.time()
        record = importlib.import_module(f"tests.endurance.{name}").run()
        record["seconds"] = round(time.time() - begin)
        record["python"] = platform.python_version()
        record["versions"] = {p: metadata.version(p) for p in PACKAGES}
        text = json.dumps(record, indent=1)
        (args.folder / f"{name}.json").write_text(text + "\n")
        print(text, flush=True)


if __name__ == "__main__":
    main()
