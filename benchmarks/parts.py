"""The parts of `python -m benchmarks`: a program and a JSON file each."""

import dataclasses
from pathlib import Path

from benchmarks import harness

__all__ = ["PARTS", "Part", "load"]


@dataclasses.dataclass(frozen=True)
class Part:
    """A benchmark.

    Attributes:
        name: Also of its file, without `.json`.
        title: How the page calls it.
        module: The program.
        columns: What each row of its file has.
        fields: What its file has, besides what all of them have.
        options: Of the program, for the numbers that are published.
        quick: The same for a smoke test.
        rounds: Whether it has the option --rounds.
        peers: Whether it needs the peers' environments.
        keeps_rows: Whether a row is kept when it is measured, and the program
            goes on from there. The others write at their end.
    """

    name: str
    title: str
    module: str
    columns: tuple[str, ...] = ()
    fields: tuple[str, ...] = ("rows",)
    options: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()
    rounds: bool = False
    peers: bool = False
    keeps_rows: bool = False

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
    """The content of a part's file, `None` if it has not run.

    Raises:
        ResultError: If the file is damaged, or of another format.
    """
    path = part.path(folder)
    if not path.exists():
        return None
    return harness.read_result(path, part.fields, part.columns)


_LIST = (
    Part(
        "peers_train_step",
        "Training step, against other libraries",
        "benchmarks.peers.train_step",
        ("network", "jit_compile", "peer", "method", "ratio", "seconds"),
        quick=("--rounds", "2", "--steps", "1", "--width", "8"),
        rounds=True,
        peers=True,
        keeps_rows=True,
    ),
    Part(
        "peers_accuracy",
        "Accuracy at one bit, at the same budget",
        "benchmarks.peers.accuracy",
        ("method", "seed", "test_error"),
        quick=(
            *("--epochs", "1", "--seeds", "1", "2"),
            *("--width", "32", "--images", "1000"),
        ),
        peers=True,
        keeps_rows=True,
    ),
    Part(
        "peers_files",
        "Size, load time, memory and latency of the file",
        "benchmarks.peers.files",
        (
            *("network", "format", "binary_weights", "float_parameters"),
            *("file_bytes", "load_seconds", "memory_bytes", "peak_bytes"),
            "seconds",
        ),
        quick=("--processes", "1", "--seconds", "0.1", "--width", "16"),
        peers=True,
        keeps_rows=True,
    ),
    Part(
        "growth",
        "Growth with the number of weights",
        "benchmarks.growth",
        ("task", "weights", "seconds", "peak_bytes"),
        quick=("--rounds", "2", "--exports", "1", "--most", "1000000"),
        rounds=True,
        keeps_rows=True,
    ),
    Part(
        "train_step",
        "Training step, with and without XLA, by memory allocator",
        "benchmarks.train_step",
        (
            *("network", "jit_compile", "allocator", "scheme", "ratio"),
            "optimizer_memory_ratio",
        ),
        quick=(
            *("--rounds", "2", "--steps", "1"),
            *("--networks", "mlp", "--allocator", "bfc"),
        ),
        rounds=True,
    ),
    Part(
        "recurrent_step",
        "The LSTM, in training and inference",
        "benchmarks.recurrent_step",
        ("what", "layer", "jit_compile", "ratio"),
        fields=("rows", "parts"),
        quick=("--rounds", "2", "--cells", "8", "--steps", "5", "--batch", "2"),
        rounds=True,
    ),
    Part(
        "inference",
        "Our formats, layer by layer",
        "benchmarks.inference",
        (
            *("network", "format", "threads", "ratio", "limit", "file_bytes"),
            *("load_milliseconds", "memory_bytes", "export_seconds"),
        ),
        quick=("--processes", "1", "--seconds", "0.1", "--networks", "conv128"),
    ),
    Part(
        "monitor",
        "`BinaryMonitor`",
        "benchmarks.monitor",
        fields=("share_of_an_epoch",),
        options=("--rounds", "7", "--steps", "30"),
        quick=("--rounds", "2", "--steps", "1"),
        rounds=True,
    ),
)
PARTS = {part.name: part for part in _LIST}
