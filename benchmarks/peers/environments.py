"""A Python environment for each peer, made once and kept.

The peers need versions that exclude each other: larq needs NumPy 1, and larq
and tensorflow-model-optimization need the old `tf_keras`. So each is installed
with pinned versions in its own environment in the folder `KERAS_LAB_PEERS`, by
default `~/.cache/keras_lab/peers`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.worker import Cannot, Worker

FOLDER = "~/.cache/keras_lab/peers"
TENSORFLOW = ("tensorflow==2.21.0", "tf_keras==2.21.0")
# What to install for each worker. keras_lab runs in this environment.
PEERS = {
    "keras_lab": (),
    "larq": ("larq==0.14.0", "numpy<2", *TENSORFLOW),
    "tfmot": ("tensorflow-model-optimization==0.8.1", *TENSORFLOW),
    "edge_quantizer": ("ai-edge-quantizer==0.10.0",),
    "compute_engine": (
        "larq-compute-engine==0.16.0",
        "larq==0.14.0",
        "numpy<2",
        "tensorflow==2.16.2",
        "tf_keras==2.16.0",
    ),
}
VARIABLES = {
    # The old Keras, if a peer asks TensorFlow for Keras.
    "TF_USE_LEGACY_KERAS": "1",
    # What `keras_lab.config.keep_memory()` does.
    "TF_CPU_ALLOCATOR_USE_BFC": "1",
}


def install(name: str) -> Path:
    """Returns the Python of a peer's environment, which is made if needed."""
    if not PEERS[name]:
        return Path(sys.executable)
    folder = Path(os.environ.get("KERAS_LAB_PEERS", FOLDER)).expanduser()
    return create(folder.resolve() / name, PEERS[name])


def create(place: Path, requirements) -> Path:
    """Returns the Python of an environment, which is made if needed."""
    python, done = place / "bin" / "python", place / "installed.json"
    wanted = json.dumps(requirements)
    if python.exists() and done.exists() and done.read_text() == wanted:
        return python
    print(f"installing {' '.join(requirements)}", flush=True)
    execute("venv fails", [sys.executable, "-m", "venv", place])
    command = [python, "-m", "pip", "install", "--quiet", *requirements]
    execute("pip install fails", command)
    done.write_text(wanted)
    return python


def execute(words: str, command, **options) -> None:
    """Runs a command. Raises `Cannot` with these words if it fails."""
    try:
        subprocess.run(
            command, capture_output=True, text=True, check=True, **options
        )
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", None) or str(error)
        raise Cannot(words, detail[-400:]) from error


def start(name: str, versions: dict) -> Worker:
    """Returns a peer's worker. Adds what is installed there to `versions`."""
    worker = Worker(f"benchmarks.peers.{name}", install(name), VARIABLES)
    versions[name] = worker.call("versions")
    return worker
