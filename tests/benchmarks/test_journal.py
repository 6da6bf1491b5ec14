"""What an interrupted benchmark leaves, and how it goes on."""

import json
import subprocess
import sys

import pytest

from benchmarks import growth, harness, parts
from benchmarks.journal import Journal, JournalError
from benchmarks.workers import Cannot
from tests.benchmarks import sample

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


@pytest.mark.parametrize("name", ["cores", "cpu_features", "keras", "numpy"])
def test_rows_of_another_machine_are_not_mixed(tmp_path, name):
    path = tmp_path / "growth.json"
    Journal(path, "growth", {}, ("task",)).add({"task": "lab", **MEASURED})
    content = json.loads(path.read_text())
    content["environment"][name] = "another"
    path.write_text(json.dumps(content))
    with pytest.raises(JournalError, match=f"{name} another, not"):
        Journal(path, "growth", {}, ("task",))


def test_the_page_shows_numbers_of_another_machine(tmp_path):
    content = sample.results()["growth"]
    harness.write_json(tmp_path / "growth.json", content)
    assert parts.load(parts.PARTS["growth"], tmp_path) == content


def test_rows_of_another_day_are_kept_with_what_they_were_made_with(tmp_path):
    path = tmp_path / "x.json"
    Journal(path, "x", {}, ("a",)).add({"a": 1})
    content = json.loads(path.read_text())
    content["environment"]["date"] = "2020-01-01"
    path.write_text(json.dumps(content))
    journal = Journal(path, "x", {}, ("a",))
    assert journal.content["environment"] == content["environment"]


def test_what_failed_for_want_of_an_environment_is_missing(tmp_path):
    path = tmp_path / "x.json"
    journal = Journal(path, "x", {}, ("a", "b"))
    refused = {"cannot": "has no wings", "detail": "", "peer": "larq"}
    journal.add({"a": 1, "b": 1}, {"a": 1, "b": 2, **refused})
    assert not journal.misses(a=1)
    assert journal.misses(a=1, b=2)
    journal.finish()
    journal.add({"a": 1, "b": 3, **refused, "try_again": True})
    assert journal.misses(a=1)
    with pytest.raises(JournalError, match=r"larq \(has no wings\)"):
        journal.finish()
    assert not json.loads(path.read_text())["finished"]


@pytest.mark.parametrize(
    "text", ["", "{", "\0", "[]", "3", "{}", '{"rows": [{"seconds": 3}]}']
)
def test_a_damaged_file_is_named_with_what_to_do(tmp_path, text):
    path = tmp_path / "growth.json"
    path.write_text(text)
    with pytest.raises(harness.ResultError, match=r"growth.json.*Delete it"):
        Journal(path, "growth", {}, ("task",))
    with pytest.raises(harness.ResultError, match=r"growth.json.*Delete it"):
        parts.load(parts.PARTS["growth"], tmp_path)
    assert path.read_text() == text


def test_a_row_of_an_old_format_is_named(tmp_path):
    content = sample.results()["growth"]
    del content["rows"][3]["peak_bytes"]
    harness.write_json(tmp_path / "growth.json", content)
    with pytest.raises(harness.ResultError, match="peak_bytes"):
        parts.load(parts.PARTS["growth"], tmp_path)


def test_a_path_that_cannot_be_written_is_an_error_before_all_else(tmp_path):
    (tmp_path / "file").write_text("")
    for path, words in (
        (tmp_path, "is a folder"),
        (tmp_path / "file" / "x.json", "is a file"),
        (tmp_path / "file" / "more" / "x.json", "is a file"),
    ):
        with pytest.raises(harness.ResultError, match=words):
            Journal(path, "x", {}, ("a",))


HOLD = """
import sys
from benchmarks.journal import Journal
journal = Journal(sys.argv[1], "x", {}, ("a",))
journal.add({"a": 1})
print("ready", flush=True)
sys.stdin.read()
"""


def test_two_processes_do_not_write_the_same_file(tmp_path):
    path = tmp_path / "x.json"
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=harness.RESULTS.parents[1],
    )
    try:
        assert other.stdout.readline() == b"ready\n"
        with pytest.raises(JournalError, match=f"Process {other.pid} is"):
            Journal(path, "x", {}, ("a",))
    finally:
        other.kill()
        other.communicate()
    # What it left is no obstacle.
    assert not Journal(path, "x", {}, ("a",)).misses(a=1)


def test_a_lock_ends_with_its_process(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path / "x.json")]
    subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        cwd=harness.RESULTS.parents[1],
        check=True,
    )
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_a_file_that_two_write_at_once_is_one_of_theirs(tmp_path, monkeypatch):
    path, replace = tmp_path / "x.txt", harness.Path.replace

    def write_another_first(partial, target):
        monkeypatch.setattr(harness.Path, "replace", replace)
        harness.write_text(path, "another")
        return replace(partial, target)

    monkeypatch.setattr(harness.Path, "replace", write_another_first)
    harness.write_text(path, "this one")
    assert path.read_text() == "this one"
    assert list(tmp_path.iterdir()) == [path]
