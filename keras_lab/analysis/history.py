"""The history of a `BinaryMonitor` as rows, in memory and in a CSV file.

A row is a dict: epoch, step, the name of the weight, and one number for each of
`keras_lab.analysis.measurements.QUANTITIES`, or `None` if it has no value.
"""

import csv
import json
import os
from collections.abc import Mapping
from pathlib import Path

from keras_lab.analysis.measurements import QUANTITIES, parse_quantity
from keras_lab.files import replacing

__all__ = ["CSV_COLUMNS", "read_history", "read_trajectories", "write_history"]

CSV_COLUMNS = ("epoch", "step", "weight", *QUANTITIES)
EPOCHS, STEPS = "epochs trained", "steps trained"


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
    content = getattr(source, "history", source)
    if isinstance(content, (str, os.PathLike)):
        content = _read(Path(content))
    if isinstance(content, Mapping):
        lines, positions = _lines_of_logs(content), EPOCHS
    elif isinstance(content, (list, tuple)):
        lines, positions = _lines_of_rows(content)
    else:
        raise TypeError(
            "`source` must be a monitor's history or its .csv file, or Keras' "
            "logs or a .json file with them. "
            f"Received: source={source!r}"
        )
    if not lines:
        raise ValueError(
            "There is nothing to draw: a monitor's history needs rows, and "
            "Keras' logs need entries such as 'dense_1/alpha', which "
            "`BinaryMonitor(log_quantities=...)` adds. "
            f"Received: {source!r:.200}"
        )
    return lines, positions


def _read(path):
    if path.suffix == ".csv":
        return read_history(path)
    if path.suffix != ".json":
        raise ValueError(
            "`source` must be the .csv file of a monitor, or a .json file. "
            f"Received: source='{path}'"
        )
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))["history"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            "This is not a JSON file with Keras' logs under `history`: "
            f"{type(error).__name__} {error}. Received: '{path}'"
        ) from error


def _lines_of_rows(rows):
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
    return lines, STEPS if by_step else EPOCHS


def _lines_of_logs(logs):
    lines = {}
    for key, values in logs.items():
        pair = parse_quantity(str(key))
        if pair is None:
            continue
        try:
            # An epoch without a value has null.
            known = [
                (n, float(v)) for n, v in enumerate(values, 1) if v is not None
            ]
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"'{key}' must be a list of numbers. Received: {values!r:.99}"
            ) from error
        if known:
            lines[pair] = tuple(map(list, zip(*known)))
    return lines
