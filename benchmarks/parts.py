"""The parts of `python -m benchmarks`: a program and a JSON file each."""

import dataclasses
import json
from pathlib import Path

__all__ = ["PARTS", "Part", "load"]


@dataclasses.dataclass(frozen=True)
class Part:
    """A benchmark.

    Attributes:
        name: Also of its file, without `.json`.
        title: How the page calls it.
        module: The program.
        options: Of the program, for the numbers that are published.
        quick: The same for a smoke test.
        peers: Whether it needs the peers' environments.
    """

    name: str
    title: str
    module: str
    options: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()
    peers: bool = False

    @property
    def command(self) -> str:
        """What a reader types to have it measured again."""
        return f"python -m benchmarks {self.name} --again"

    def path(self, folder: Path) -> Path:
        """Its file in a folder of results."""
        return folder / f"{self.name}.json"

    def is_finished(self, folder: Path) -> bool:
        """Whether its file is there and lacks no row."""
        content = load(self, folder)
        return content is not None and content.get("finished", True)


def load(part: Part, folder: Path) -> dict | None:
    """The content of a part's file, `None` if it has not run."""
    path = part.path(folder)
    return json.loads(path.read_text()) if path.is_file() else None


_LIST = (
    Part(
        "peers_train_step",
        "Training step, against other libraries",
        "benchmarks.peers.train_step",
        ("--rounds", "11"),
        ("--rounds", "2", "--steps", "1", "--width", "8"),
        peers=True,
    ),
    Part(
        "peers_accuracy",
        "Accuracy at one bit, at the same budget",
        "benchmarks.peers.accuracy",
        (),
        (
            *("--epochs", "1", "--seeds", "1", "2"),
            *("--width", "32", "--images", "1000"),
        ),
        peers=True,
    ),
    Part(
        "peers_files",
        "Size, load time, memory and latency of the file",
        "benchmarks.peers.files",
        (),
        ("--processes", "1", "--seconds", "0.1", "--width", "16"),
        peers=True,
    ),
    Part(
        "growth",
        "Growth with the number of weights",
        "benchmarks.growth",
        (),
        ("--rounds", "2", "--exports", "1", "--most", "1000000"),
    ),
    Part(
        "train_step",
        "Training step, with and without XLA, by memory allocator",
        "benchmarks.train_step",
        ("--rounds", "21"),
        (
            *("--rounds", "2", "--steps", "1"),
            *("--networks", "mlp", "--allocator", "bfc"),
        ),
    ),
    Part(
        "recurrent_step",
        "The LSTM, in training and inference",
        "benchmarks.recurrent_step",
        ("--rounds", "11"),
        ("--rounds", "2", "--cells", "8", "--steps", "5", "--batch", "2"),
    ),
    Part(
        "inference",
        "Our formats, layer by layer",
        "benchmarks.inference",
        (),
        ("--processes", "1", "--seconds", "0.1", "--networks", "conv128"),
    ),
    Part(
        "monitor",
        "`BinaryMonitor`",
        "benchmarks.monitor",
        ("--rounds", "7", "--steps", "30"),
        ("--rounds", "2", "--steps", "1"),
    ),
)
PARTS = {part.name: part for part in _LIST}
