"""A result that grows row by row, each of them kept at once.

An interrupted benchmark leaves the rows it has finished. The same command given
again measures the others only.
"""

import datetime
import json
from pathlib import Path

from benchmarks import harness
from examples.locks import InUse, lock

__all__ = ["Journal", "JournalError"]


class JournalError(harness.ResultError):
    """A file that cannot be continued, or is not finished."""


class Journal:
    """The rows of a benchmark, and the file they are kept in.

    Args:
        path: The JSON file.
        benchmark: What the file says it is.
        configuration: What the rows must have been made with.
        keys: The names of the values that tell one row from another.

    Raises:
        JournalError: If the file holds rows of another configuration or
            another machine, or if another process is at work on it.
        ResultError: If the file cannot be read or written.
    """

    def __init__(self, path, benchmark, configuration, keys):
        self.path, self.keys = Path(path), keys
        harness.check_output(self.path)
        try:
            lock(self.path)
        except InUse as error:
            raise JournalError(
                f"{error} Wait for it, or name another file."
            ) from None
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
            fields = ("rows", "versions")
            self._go_on(harness.read_result(self.path, fields, keys))

    def _go_on(self, previous):
        for name in ("configuration", "environment"):
            was, now = previous[name], self.content[name]
            # A benchmark may take days.
            differ = {
                key: [values.get(key, "nothing") for values in (was, now)]
                for key in {**was, **now}
                if was.get(key) != now.get(key) and key != "date"
            }
            if differ:
                texts = [f"{k} {a}, not {b}" for k, (a, b) in differ.items()]
                raise JournalError(
                    f"{self.path} was made with {'; '.join(texts)}. Delete "
                    "it, or name another file."
                )
        for name in ("environment", "versions", "rows"):
            self.content[name] = previous[name]

    def misses(self, **key) -> bool:
        """Whether rows with these values are still to be measured.

        That is so where all of them are refusals, and where one of them failed
        for want of an environment: it may have been the network.
        """
        rows = [r for r in self.content["rows"] if key.items() <= r.items()]
        refused = all("cannot" in row for row in rows)
        return refused or any("try_again" in row for row in rows)

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

    def finish(self) -> None:
        """Says that no row is missing.

        Raises:
            JournalError: If one is, for want of an environment.
        """
        failed = [row for row in self.content["rows"] if "try_again" in row]
        self.content["finished"] = not failed
        self._write()
        if failed:
            reasons = {f"{row['peer']} ({row['cannot']})" for row in failed}
            raise JournalError(
                f"{self.path} is not finished: {', '.join(sorted(reasons))}. "
                "The same command tries that again."
            )

    def _key(self, row):
        return tuple(row.get(name) for name in self.keys)

    def _write(self):
        harness.write_json(self.path, self.content)
