"""The memory of this process, as Linux counts it."""

import dataclasses
from pathlib import Path

__all__ = ["Memory", "forget_peak", "now"]


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes of a process.

    Attributes:
        private: Pages in memory that are not pages of a file.
        resident: All pages in memory.
        peak: The most that were ever in memory.
    """

    private: int
    resident: int
    peak: int


def now() -> Memory:
    """The memory of this process now."""
    lines = Path("/proc/self/status").read_text().splitlines()
    pairs = (line.split(":") for line in lines if line.endswith(" kB"))
    size = {name: 1024 * int(value.split()[0]) for name, value in pairs}
    return Memory(size["RssAnon"], size["VmRSS"], size["VmHWM"])


def forget_peak() -> None:
    """Has the system count the peak from now on."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass  # then what was before counts, too: the peak is an upper bound
