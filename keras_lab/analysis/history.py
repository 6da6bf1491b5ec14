"""The history of a `BinaryMonitor` as rows, in memory and in a CSV file.

A row is a dict: epoch, step, the name of the weight, and one number for each of
`keras_lab.analysis.measurements.QUANTITIES`, or `None` if it has no value.
"""

import csv
import os

from keras_lab.analysis.measurements import QUANTITIES
from keras_lab.files import replacing

__all__ = ["CSV_COLUMNS", "read_history", "read_trajectories", "write_history"]

CSV_COLUMNS = ("epoch", "step", "weight", *QUANTITIES)


def read_history(path) -> list[dict]:
    """Reads the rows of a monitor's CSV file."""
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        try:
            if tuple(reader.fieldnames or ()) != CSV_COLUMNS:
                raise ValueError(f"its columns are {reader.fieldnames}")
            return [_row(texts) for texts in reader]
        except (ValueError, csv.Error) as error:
            raise ValueError(
                f"This is not the CSV file of a BinaryMonitor: {error!s:.200}. "
                f"Received: '{path}'"
            ) from error


def _row(texts):
    if None in (*texts, *texts.values()):
        raise ValueError(f"a row does not have {len(CSV_COLUMNS)} columns")
    numbers = {
        name: float(texts[name]) if texts[name] else None for name in QUANTITIES
    }
    times = {name: int(texts[name]) for name in ("epoch", "step")}
    return {**times, "weight": texts["weight"], **numbers}


def write_history(path, rows) -> None:
    """Writes the rows to a CSV file."""
    with replacing(path) as partial:
        with open(partial, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, CSV_COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def read_trajectories(source) -> tuple[dict, str]:
    """Reads the measurements of a training as lines to draw.

    The source is as in `plots.trajectories`. Returns a dict from pairs
    (quantity, name of the weight) to pairs (positions, values), and the label
    of the positions.
    """
    rows = getattr(source, "history", source)
    if isinstance(rows, (str, os.PathLike)):
        rows = read_history(rows)
    if not isinstance(rows, (list, tuple)):
        raise TypeError(
            "`source` must be a BinaryMonitor, its history or its .csv file. "
            f"Received: source={source!r:.200}"
        )
    if not rows:
        raise ValueError(
            "There is nothing to draw: the history has no rows. "
            f"Received: source={source!r:.200}"
        )
    # In steps if there is more than one measurement per epoch.
    times = {(row["epoch"], row["step"]) for row in rows}
    by_step = len({epoch for epoch, _ in times}) < len(times)
    lines = {}
    for row in rows:
        position = row["step"] if by_step else row["epoch"] + 1
        for name in QUANTITIES:
            if row[name] is not None:
                xs, ys = lines.setdefault((name, row["weight"]), ([], []))
                xs.append(position)
                ys.append(row[name])
    return lines, f"{'steps' if by_step else 'epochs'} trained"
