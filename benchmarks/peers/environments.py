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

__all__ = [
    "PEERS",
    "NotSetUp",
    "Peer",
    "add_option",
    "default_folder",
    "install",
    "start",
]

TENSORFLOW = ("tensorflow==2.21.0", "tf_keras==2.21.0")
DONE = "installed.json"
# What pip says when it gets no answer. It then finds no distribution, either.
NO_ANSWER = (
    *("connection broken by", "Max retries exceeded", "timed out"),
    *("NewConnectionError", "ProxyError", "name resolution"),
)


@dataclasses.dataclass(frozen=True)
class Peer:
    """A library to compare with.

    Attributes:
        module: The worker that runs in its environment.
        requirements: What to install; nothing means this environment.
    """

    module: str
    requirements: tuple[str, ...] = ()


class NotSetUp(Cannot):
    """A peer without an environment: its rows are tried again."""

    def to_json(self):
        return {**super().to_json(), "try_again": True}


PEERS = {
    "keras_lab": Peer("benchmarks.peers.ours"),
    "larq": Peer(
        "benchmarks.peers.larq_layers",
        ("larq==0.14.0", "numpy<2", *TENSORFLOW),
    ),
    "tfmot": Peer(
        "benchmarks.peers.model_optimization",
        ("tensorflow-model-optimization==0.8.1", *TENSORFLOW),
    ),
    "edge_quantizer": Peer(
        "benchmarks.peers.edge_quantizer",
        ("ai-edge-quantizer==0.10.0",),
    ),
    "compute_engine": Peer(
        "benchmarks.peers.compute_engine",
        (
            *("larq-compute-engine==0.16.0", "larq==0.14.0", "numpy<2"),
            *("tensorflow==2.16.2", "tf_keras==2.16.0"),
        ),
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
        NotSetUp: If it cannot be made.
    """
    requirements = list(PEERS[name].requirements)
    if not requirements:
        return Path(sys.executable)
    place = Path(folder).resolve() / name
    python, done = place / "bin" / "python", place / DONE
    wanted = json.dumps(requirements).encode()
    whole = os.access(python, os.X_OK) and done.is_file()
    if whole and done.read_bytes() == wanted:
        return python
    _check_place(place)
    print(f"installing {' '.join(requirements)}", flush=True)
    try:
        venv.create(place, clear=True, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotSetUp("no virtual environment", str(error)) from error
    _pip_install(python, requirements)
    done.write_bytes(wanted)
    return python


def _check_place(place):
    """Raises unless a folder is free, or an environment to be made anew."""
    free = not place.exists() or (place.is_dir() and not any(place.iterdir()))
    made = (place / DONE).is_file() or (place / "pyvenv.cfg").is_file()
    if not free and not made:
        raise NotSetUp(
            "folder is taken",
            f"{place} is no environment, and is not replaced by one. Move it, "
            "or name another folder with --environments.",
        )


def _pip_install(python, requirements):
    run = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", *requirements],
        capture_output=True,
        text=True,
    )
    if not run.returncode:
        return
    lines = run.stderr.splitlines()
    errors = [line for line in lines if "ERROR" in line]
    if unanswered := [n for n in lines if any(w in n for w in NO_ANSWER)]:
        raise NotSetUp("no network here", unanswered[-1])
    missing = "No matching distribution" in run.stderr
    words = "no matching wheel" if missing else "pip install fails"
    raise NotSetUp(words, "\n".join(errors[-5:]))


def start(name: str, folder: Path) -> Worker:
    """A worker in a peer's environment, ready for calls.

    Raises:
        NotSetUp: If there is no such environment, or the peer does not start.
    """
    python = install(name, folder)
    worker = Worker(PEERS[name].module, python, VARIABLES)
    try:
        worker.versions = worker.call("versions")
    except Cannot as error:
        worker.close()
        raise NotSetUp("cannot be imported", error.detail) from error
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
