"""What an interrupted benchmark leaves, and how it goes on."""

import json

import pytest

from benchmarks import growth
from benchmarks.journal import Journal, JournalError
from benchmarks.workers import Cannot

MEASURED = {"seconds": [1.0, 2.0], "peak_bytes": 10}


def keys(path):
    rows = json.loads(path.read_text())["rows"]
    return [(row["task"], row["weights"]) for row in rows]


def run_growth(path, monkeypatch, measure):
    monkeypatch.setattr(growth, "measure", measure)
    growth.run(growth.parse(["--most", "400000", "--output", str(path)]))


def test_an_interrupted_benchmark_leaves_the_finished_rows_and_goes_on(
    tmp_path, monkeypatch
):
    path, asked = tmp_path / "growth.json", []

    def measure(task, weights, arguments):
        asked.append((task, weights))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return MEASURED

    with pytest.raises(KeyboardInterrupt):
        run_growth(path, monkeypatch, measure)
    assert keys(path) == asked[:2]
    assert not json.loads(path.read_text())["finished"]

    run_growth(path, monkeypatch, measure)
    assert json.loads(path.read_text())["finished"]
    assert asked[3] == asked[2]
    assert keys(path) == asked[:2] + asked[3:]
    assert len(set(keys(path))) == len(keys(path)) == 6

    run_growth(path, monkeypatch, measure)
    assert len(asked) == 7


def test_what_a_peer_could_not_do_is_tried_again(tmp_path, monkeypatch):
    path = tmp_path / "growth.json"

    def fails(*_):
        raise Cannot("worker process ended", "out of memory")

    run_growth(path, monkeypatch, fails)
    rows = json.loads(path.read_text())["rows"]
    assert {row["cannot"] for row in rows} == {"worker process ended"}
    assert {row["detail"] for row in rows} == {"out of memory"}

    run_growth(path, monkeypatch, lambda *_: MEASURED)
    rows = json.loads(path.read_text())["rows"]
    assert all(row["seconds"] == MEASURED["seconds"] for row in rows)
    assert len(rows) == 6


def test_rows_of_other_settings_are_not_mixed(tmp_path):
    path = tmp_path / "x.json"
    Journal(path, "x", {"rounds": 3}, ("a",)).add({"a": 1})
    with pytest.raises(JournalError, match="rounds"):
        Journal(path, "x", {"rounds": 4}, ("a",))
    assert not Journal(path, "x", {"rounds": 3}, ("a",)).misses(a=1)
