"""A Python environment for each peer, made once and kept.

    python -m benchmarks.peers.environments

The peers need versions that exclude each other: larq wants NumPy 1, and larq
and tensorflow-model-optimization the old `tf_keras`. So each is installed, with
pinned versions, in an environment below `--environments`, or else
`KERAS_LAB_PEERS`, or else `keras_lab/peers` in the user's cache.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.workers import Cannot, Worker

__all__ = ["PEERS", "Peer", "default_folder", "install", "start"]

TENSORFLOW = ("tensorflow==2.21.0", "tf_keras==2.21.0")
DONE = "installed.json"


@dataclasses.dataclass(frozen=True)
class Peer:
    """A library to compare with.

    Attributes:
        title: How tables call it.
        module: The worker that runs in its environment.
        requirements: What to install; nothing means this environment.
        url: Where to read about it.
    """

    title: str
    module: str
    requirements: tuple[str, ...] = ()
    url: str = ""


PEERS = {
    "keras_lab": Peer("keras_lab", "benchmarks.peers.ours"),
    "larq": Peer(
        "larq",
        "benchmarks.peers.larq_layers",
        ("larq==0.14.0", "numpy<2", *TENSORFLOW),
        "https://github.com/larq/larq",
    ),
    "tfmot": Peer(
        "tfmot",
        "benchmarks.peers.model_optimization",
        ("tensorflow-model-optimization==0.8.1", *TENSORFLOW),
        "https://github.com/tensorflow/model-optimization",
    ),
    "edge_quantizer": Peer(
        "ai-edge-quantizer",
        "benchmarks.peers.edge_quantizer",
        ("ai-edge-quantizer==0.10.0",),
        "https://github.com/google-ai-edge/ai-edge-quantizer",
    ),
    "compute_engine": Peer(
        "larq-compute-engine",
        "benchmarks.peers.compute_engine",
        (
            *("larq-compute-engine==0.16.0", "larq==0.14.0", "numpy<2"),
            *("tensorflow==2.16.2", "tf_keras==2.16.0"),
        ),
        "https://github.com/larq/compute-engine",
    ),
}
# The old Keras where a peer asks TensorFlow for Keras. Memory is kept, as
# importing keras_lab has TensorFlow do: all sides have it the same.
VARIABLES = {"TF_USE_LEGACY_KERAS": "1", "TF_CPU_ALLOCATOR_USE_BFC": "1"}


def default_folder() -> Path:
    """Where environments are kept unless told otherwise."""
    if folder := os.environ.get("KERAS_LAB_PEERS"):
        return Path(folder)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "keras_lab" / "peers"


def install(name: str, folder: Path) -> Path:
    """The Python of a peer's environment, which is made if need be.

    Raises:
        Cannot: If it cannot be made.
    """
    requirements = list(PEERS[name].requirements)
    if not requirements:
        return Path(sys.executable)
    place = Path(folder).resolve() / name
    python, done = place / "bin" / "python", place / DONE
    if done.is_file() and json.loads(done.read_text()) == requirements:
        return python
    print(f"installing {' '.join(requirements)}", flush=True)
    try:
        venv.create(place, clear=True, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Cannot("no virtual environment", str(error)) from error
    _pip_install(python, requirements)
    done.write_text(json.dumps(requirements))
    return python


def _pip_install(python, requirements):
    run = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", *requirements],
        capture_output=True,
        text=True,
    )
    if run.returncode:
        missing = "No matching distribution" in run.stderr
        words = "no matching wheel" if missing else "pip install fails"
        lines = [line for line in run.stderr.splitlines() if "ERROR" in line]
        raise Cannot(words, "\n".join(lines[-5:]))


def start(name: str, folder: Path) -> Worker:
    """A worker in a peer's environment, ready for calls.

    Raises:
        Cannot: If there is no such environment, or the peer does not start.
    """
    python = install(name, folder)
    worker = Worker(PEERS[name].module, python, VARIABLES)
    try:
        worker.versions = worker.call("versions")
    except Cannot as error:
        worker.close()
        raise Cannot("cannot be imported", error.detail) from error
    return worker


def add_option(parser: argparse.ArgumentParser) -> None:
    """The option that says where environments are kept."""
    parser.add_argument(
        "--environments",
        type=Path,
        metavar="DIR",
        default=default_folder(),
        help="where the peers are installed; default: KERAS_LAB_PEERS, or "
        "keras_lab/peers in the user's cache",
    )


def main(argv=None) -> int:
    """Makes every environment, and says what is in it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add_option(parser)
    folder, code = parser.parse_args(argv).environments, 0
    for name in PEERS:
        try:
            with start(name, folder) as worker:
                print(f"{name}: {worker.versions}", flush=True)
        except Cannot as error:
            print(f"{name}: {error.words}. {error.detail}", flush=True)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
