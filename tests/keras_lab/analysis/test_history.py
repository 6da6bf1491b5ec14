"""Histories are read from rows, files and logs, or the error says why."""

import json

import pytest

from keras_lab.analysis.history import (
    CSV_COLUMNS,
    read_history,
    read_trajectories,
    write_history,
)
from tests.keras_lab.analysis.support import rows


def logs_of(history):
    logs = {"loss": [3.0, 2.0, 1.0]}
    for row in history:
        for name in ("alpha", "flips", "clipped"):
            layer = row["weight"].removesuffix("kernel")
            logs.setdefault(layer + name, []).append(row[name])
    return logs


def test_rows_files_and_logs_give_the_same_lines(tmp_path):
    history = rows(2, 3)
    write_history(tmp_path / "monitor.csv", history)
    assert read_history(tmp_path / "monitor.csv") == history
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"history": logs_of(history)}))
    expected = read_trajectories(history)
    for source in (tmp_path / "monitor.csv", path, logs_of(history)):
        assert read_trajectories(source) == expected
    lines, positions = expected
    assert positions == "epochs trained"
    assert lines["clipped", "dense_1/kernel"] == ([1, 2, 3], [0, 0.02, 0.04])


def test_several_measurements_per_epoch_are_in_steps():
    history = rows(1, 2)
    history += [{**row, "step": row["step"] + 5} for row in history]
    history.sort(key=lambda row: row["step"])
    lines, positions = read_trajectories(history)
    assert positions == "steps trained"
    assert lines["alpha", "dense_1/kernel"][0] == [10, 15, 20, 25]


def test_an_epoch_that_was_not_recorded_is_left_out():
    logs = {"error": [3, 2, 1], "dense/alpha": [None, 0.2, 0.3]}
    lines, _ = read_trajectories(logs)
    assert lines == {("alpha", "dense/kernel"): ([2, 3], [0.2, 0.3])}


FILES = {
    "empty.csv": ("", r"empty\.csv.*not the CSV"),
    "short.csv": (",".join(CSV_COLUMNS) + "\n1,2", "not the CSV"),
    "loss.json": ('{"history": {"loss": [1]}}', r"'dense_1/alpha'.*loss\.json"),
    "list.json": ('{"history": [1]}', "dict of lists.*Received: a list"),
    "bad.json": ("[1, 2", r"bad\.json"),
    "log.txt": ("", r"log\.txt"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_something_else_is_named(tmp_path, name):
    content, message = FILES[name]
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        read_trajectories(tmp_path / name)


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ([], ValueError, "nothing to draw.*no rows"),
        (None, TypeError, "source=None"),
        ({"loss": [1.0]}, ValueError, r"'dense_1/alpha'.*\['loss'\]"),
        ({"a/alpha": 0.5}, ValueError, r"'a/alpha' must be a list.*: 0\.5"),
    ],
)
def test_a_source_without_lines_is_named(source, error, message):
    with pytest.raises(error, match=message):
        read_trajectories(source)
