"""A result that grows row by row, each of them kept at once.

An interrupted benchmark leaves the rows it has finished. The same command given
again measures the others only.
"""

import datetime
import json
from pathlib import Path

from benchmarks import harness

__all__ = ["Journal", "JournalError"]


class JournalError(Exception):
    """The file that is there was made with other settings."""


class Journal:
    """The rows of a benchmark, and the file they are kept in.

    Args:
        path: The JSON file.
        benchmark: What the file says it is.
        configuration: What the rows must have been made with.
        keys: The names of the values that tell one row from another.

    Raises:
        JournalError: If the file holds rows of another configuration.
    """

    def __init__(self, path, benchmark, configuration, keys):
        self.path, self.keys = Path(path), keys
        # As it will be read again: JSON has no tuples.
        configuration = json.loads(json.dumps(configuration))
        self.content = {
            "benchmark": benchmark,
            "configuration": configuration,
            "finished": False,
            "environment": harness.environment(),
            "versions": {},
            "rows": [],
        }
        if self.path.is_file():
            self._go_on(json.loads(self.path.read_text()))

    def _go_on(self, previous):
        was, wanted = previous["configuration"], self.content["configuration"]
        if was != wanted:
            raise JournalError(
                f"{self.path} was made with {was}, not {wanted}. Delete it, or "
                "name another file."
            )
        for name in ("versions", "rows"):
            self.content[name] = previous[name]

    def misses(self, **key) -> bool:
        """Whether a row is still to be measured.

        What a peer could not do is tried again: it may have been the network.
        """
        return not any(
            key.items() <= row.items() and "cannot" not in row
            for row in self.content["rows"]
        )

    def add(self, *rows) -> None:
        """Keeps rows, in the place of those with the same keys."""
        new = {self._key(row) for row in rows}
        kept = [r for r in self.content["rows"] if self._key(r) not in new]
        date = datetime.date.today().isoformat()
        self.content["rows"] = kept + [{**row, "date": date} for row in rows]
        self._write()

    def add_versions(self, name, versions) -> None:
        """Keeps what a peer's environment has installed."""
        self.content["versions"][name] = versions
        self._write()

    def finish(self, **more) -> None:
        """Says that no row is missing, and keeps what else is to be said."""
        self.content.update(more, finished=True)
        self._write()

    def _key(self, row):
        return tuple(row.get(name) for name in self.keys)

    def _write(self):
        harness.write_json(self.path, self.content)
