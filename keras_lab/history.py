"""What a `BinaryMonitor` saw, as rows: in memory, and in a CSV file.

A row is a dict: epoch, step, the name of the weight, and a number for each of
`keras_lab.statistics.QUANTITIES`, or `None` where there is none.
"""

import csv
import json
import os
import re
from pathlib import Path

from keras_lab.files import replacing
from keras_lab.statistics import QUANTITIES

__all__ = ["COLUMNS", "read_history", "read_trajectories", "write_history"]

COLUMNS = ("epoch", "step", "weight", *QUANTITIES)
EPOCHS, STEPS = "epochs trained", "steps trained"
# `keras_lab.names.Part.quantity` backwards.
LOG_NAME = re.compile(
    rf"(.+)/(\w+_)?({'|'.join(QUANTITIES)})(_[a-z0-9]+)?",
)


def read_history(path) -> list[dict]:
    """The rows of a monitor's CSV."""
    with open(path, newline="", encoding="utf-8") as file:
        try:
            header, *lines = csv.reader(file)
            if tuple(header) != COLUMNS:
                raise ValueError(f"its columns are {header[:20]}")
            return [_row(line) for line in lines]
        except (ValueError, csv.Error) as error:
            raise ValueError(
                f"'{path}' is not the CSV of a BinaryMonitor: {error}"
            ) from error


def write_history(path, rows) -> None:
    """Writes the rows as CSV, the whole file or nothing."""
    with replacing(path) as partial:
        with open(partial, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def _row(line):
    epoch, step, weight, *numbers = line
    if len(numbers) != len(QUANTITIES):
        raise ValueError(f"a row has {len(line)} columns, not {len(COLUMNS)}")
    values = [None if text == "" else float(text) for text in numbers]
    return {
        "epoch": int(epoch),
        "step": int(step),
        "weight": weight,
        **dict(zip(QUANTITIES, values)),
    }


def read_trajectories(source) -> tuple[dict, str]:
    """What was measured over a training, as lines to draw.

    Args:
        source: The rows of a monitor, or the path of its CSV; or the path of a
            JSON file of results with Keras' logs by epoch under `history`.

    Returns:
        A dict from a pair, the quantity and the name of the weight, to the
        positions and the values of its line; and what the positions are.
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if path.suffix == ".json":
            return _lines_of_logs(path), EPOCHS
        if path.suffix != ".csv":
            raise ValueError(
                "`source` must be a .csv file of a monitor, a .json file of "
                f"results, or a monitor's history. Received: source='{path}'"
            )
        source = read_history(path)
    return _lines_of_rows(source)


def _lines_of_rows(rows):
    # In steps, where there is more than one measurement an epoch.
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


def _lines_of_logs(path):
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        logs = content["history"]
        lines = {}
        for key, values in logs.items():
            match = LOG_NAME.fullmatch(key)
            if match:
                layer, before, quantity, gate = match.groups("")
                epochs = range(1, len(values) + 1)
                pair = (quantity, f"{layer}/{before}kernel{gate}")
                lines[pair] = (list(epochs), [float(v) for v in values])
        return lines
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"'{path}' is not a JSON file with Keras' logs by epoch under "
            f"`history`: {type(error).__name__} {error}"
        ) from error
