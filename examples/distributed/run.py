"""Trains one network on two processes, and checks that α is right.

    python examples/distributed/run.py jax | torch | tensorflow [--kill]

It starts the workers on this machine, then the same training in one process.
α must be equal to the bit on both workers, and equal to that of the one process
to 1e-5. With `--kill`, a worker is killed in the middle of a third training,
which starts again from its last checkpoint. It must end with the same weights,
to the bit, as the one that was never killed.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

WORKERS = {
    "jax": "jax_fit",
    "torch": "torch_ddp",
    "tensorflow": "tensorflow_loop",
}
ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 300


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("engine", choices=WORKERS)
    parser.add_argument(
        "--kill", action="store_true", help="also kill a worker, and resume"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        one = train(args.engine, Path(name) / "one", workers=1)
        two = train(args.engine, Path(name) / "two", workers=2)
        checks = {
            "α is equal on both workers, to the bit": two[0] == two[1],
            "α is that of one process, to 1e-5": np.allclose(
                two[0]["alpha"], one[0]["alpha"], rtol=1e-5, atol=0
            ),
        }
        if args.kill:
            resumed = train_with_a_death(args.engine, Path(name) / "killed")
            checks[
                "killed and resumed, the weights are the same, to the bit"
            ] = resumed == two
    print("α of each layer:", *(f"{a:.6f}" for a in two[0]["alpha"]))
    for text, holds in checks.items():
        print("yes" if holds else "NO ", text)
    raise SystemExit(0 if all(checks.values()) else 1)


def start(engine, folder, workers):
    """Starts the workers of a training. Returns their processes."""
    port = free_port()
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment["PYTHONPATH"] = str(ROOT)
    processes = []
    for rank in range(workers):
        command = [sys.executable, "-m"]
        command += [f"examples.distributed.{WORKERS[engine]}"]
        command += [f"--rank={rank}", f"--workers={workers}"]
        command += [f"--port={port}", f"--folder={folder}"]
        log = (folder / f"worker-{rank}.log").open("w")
        processes.append(
            subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        )
    return processes


def free_port():
    """A port such that the next one is free, too."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def train(engine, folder, workers):
    """Trains to the end. Returns what each worker reports."""
    folder.mkdir(exist_ok=True)
    print(f"{engine}: {workers} process{'es' * (workers > 1)} ...", flush=True)
    processes = start(engine, folder, workers)
    try:
        for rank, process in enumerate(processes):
            if process.wait(TIMEOUT):
                log = (folder / f"worker-{rank}.log").read_text()
                raise SystemExit(f"Worker {rank} failed:\n{log[-3000:]}")
    finally:
        stop(processes)
    return [
        json.loads((folder / f"worker-{rank}.json").read_text())
        for rank in range(workers)
    ]


def train_with_a_death(engine, folder):
    """Kills the last worker after an epoch, and starts the training again."""
    folder.mkdir()
    print(f"{engine}: 2 processes, of which one is killed ...", flush=True)
    processes = start(engine, folder, workers=2)
    deadline = time.time() + TIMEOUT
    while not has_checkpoint(folder):
        if time.time() > deadline or processes[0].poll():
            stop(processes)
            raise SystemExit(f"No checkpoint came in {TIMEOUT} s.")
        time.sleep(0.001)
    stop(processes[1:])
    if (folder / "worker-0.json").exists():
        raise SystemExit("The training ended before a worker was killed.")
    # The other one would wait forever for its gradients.
    stop(processes)
    # Workers restore from files of their own: those of the first count.
    backup = folder / "backup-0"
    if backup.exists():
        shutil.rmtree(folder / "backup-1", ignore_errors=True)
        shutil.copytree(backup, folder / "backup-1")
    return train(engine, folder, workers=2)


def has_checkpoint(folder):
    backup = folder / "backup-0" / "training_metadata.json"
    return backup.exists() or any(folder.glob("epoch-*.npz"))


def stop(processes):
    for process in processes:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
