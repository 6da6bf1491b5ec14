"""A Python environment for each peer, made once and kept.

    python -m benchmarks.peers.environments

The peers need versions that exclude each other: larq needs NumPy 1, and larq
and tensorflow-model-optimization need the old `tf_keras`. So each is installed
with pinned versions in its own environment in the folder `KERAS_LAB_PEERS`, or
by default in `keras_lab/peers` in the user's cache.
"""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.worker import Cannot, Worker

__all__ = ["PEERS", "NotSetUp", "install", "start"]

TENSORFLOW = ("tensorflow==2.21.0", "tf_keras==2.21.0")
DONE = "installed.json"


class NotSetUp(Cannot):
    """A peer without an environment. Its rows are tried again."""

    def to_json(self):
        return {**super().to_json(), "try_again": True}


# What to install for each worker. keras_lab runs in this environment.
PEERS = {
    "keras_lab": (),
    "larq": ("larq==0.14.0", "numpy<2", *TENSORFLOW),
    "tfmot": ("tensorflow-model-optimization==0.8.1", *TENSORFLOW),
    "edge_quantizer": ("ai-edge-quantizer==0.10.0",),
    "compute_engine": (
        *("larq-compute-engine==0.16.0", "larq==0.14.0", "numpy<2"),
        *("tensorflow==2.16.2", "tf_keras==2.16.0"),
    ),
}
# TensorFlow's memory allocator: glibc's malloc, which returns blocks of more
# than 32 MB to the system after each step, or TensorFlow's own, which keeps
# them. The second is what `keras_lab.config.keep_memory()` chooses; the peers
# do not have that function.
ALLOCATORS = {
    "system": {"TF_CPU_ALLOCATOR_USE_BFC": "0"},
    "bfc": {"TF_CPU_ALLOCATOR_USE_BFC": "1"},
}


def install(name: str) -> Path:
    """Returns the Python of a peer's environment, which is made if needed.

    Raises:
        NotSetUp: If it cannot be made.
    """
    requirements = list(PEERS[name])
    if not requirements:
        return Path(sys.executable)
    place = _folder() / name
    python, done = place / "bin" / "python", place / DONE
    wanted = json.dumps(requirements)
    if done.is_file() and done.read_text() == wanted and python.exists():
        return python
    if place.exists() and not (place / "pyvenv.cfg").is_file():
        raise NotSetUp(
            "folder is taken",
            f"{place} is not an environment. Move it, or set KERAS_LAB_PEERS "
            "to another folder.",
        )
    print(f"installing {' '.join(requirements)}", flush=True)
    try:
        venv.create(place, clear=True, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotSetUp("no virtual environment", str(error)) from error
    command = [python, "-m", "pip", "install", "--quiet", *requirements]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise NotSetUp("pip install fails", run.stderr[-2000:])
    done.write_text(wanted)
    return python


def _folder():
    if folder := os.environ.get("KERAS_LAB_PEERS"):
        return Path(folder).resolve()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "keras_lab" / "peers"


def start(name: str, allocator: str = "bfc") -> Worker:
    """Returns a worker in a peer's environment.

    Raises:
        NotSetUp: If there is no such environment, or the peer does not start.
    """
    worker = Worker(
        f"benchmarks.peers.{name}",
        install(name),
        # The old Keras, if a peer asks TensorFlow for Keras.
        {"TF_USE_LEGACY_KERAS": "1", **ALLOCATORS[allocator]},
    )
    try:
        worker.versions = worker.call("versions")
    except Cannot as error:
        worker.close()
        raise NotSetUp("cannot be imported", error.detail) from error
    return worker


def main() -> int:
    """Makes every environment and prints what is in it."""
    code = 0
    for name in PEERS:
        try:
            with start(name) as worker:
                print(f"{name}: {worker.versions}", flush=True)
        except Cannot as error:
            print(f"{name}: {error.words}. {error.detail}", flush=True)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
