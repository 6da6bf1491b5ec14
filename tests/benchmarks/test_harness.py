"""Timing in turns, and files that keep what is measured."""

import json

import pytest

from benchmarks import harness
from benchmarks.worker import Cannot


def test_candidates_take_turns_after_a_warm_up_round():
    calls = []
    candidates = {name: lambda name=name: calls.append(name) for name in "abc"}
    seconds = harness.interleave(candidates, rounds=3)
    assert "".join(calls) == "abc" * 4
    assert [len(seconds[name]) for name in "abc"] == [3, 3, 3]


def test_a_ratio_is_taken_round_by_round():
    # The machine becomes slower, and the ratio is between 1 and 5.
    seconds = {"keras": [1, 2, 4, 8, 16], "lab": [5, 2, 12, 16, 64]}
    expected = {"median": 3.0, "quartiles": [1.5, 4.5]}
    assert harness.ratio(seconds, "lab", "keras") == expected


def test_a_single_value_has_quartiles():
    assert harness.quartiles([7.0]) == {"median": 7.0, "quartiles": [7.0, 7.0]}


class Measured:
    """A benchmark of three cells, and what it was asked to measure."""

    OPTIONS = {"rounds": 3, "sizes": [1, 2, 3], "width": None}

    def __init__(self, path):
        self.path, self.asked, self.fails = path, [], {}

    def run(self, **changes):
        harness.measure("x", self, self.path, changes)
        return harness.read_result(self.path)

    def cells(self, options):
        return [{"size": size} for size in options.sizes]

    def measure(self, cell, options, content):
        self.asked.append(cell["size"])
        if error := self.fails.pop(cell["size"], None):
            raise error
        return [{"seconds": [1.0] * options.rounds}]


@pytest.fixture
def measured(tmp_path):
    return Measured(tmp_path / "x.json")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("wrong")])
def test_measured_rows_are_kept_and_not_measured_again(measured, error):
    measured.fails[2] = error
    with pytest.raises(type(error)):
        measured.run()
    content = harness.read_result(measured.path)
    assert [row["size"] for row in content["rows"]] == [1]
    assert not content["finished"]

    content = measured.run()
    assert measured.asked == [1, 2, 2, 3]
    assert [row["size"] for row in content["rows"]] == [1, 2, 3]
    assert content["finished"]
    assert content["configuration"] == {"seed": 1, **Measured.OPTIONS}
    assert list(measured.path.parent.iterdir()) == [measured.path]

    measured.run()
    assert len(measured.asked) == 4


def test_what_cannot_be_measured_has_a_reason_and_is_tried_again(measured):
    measured.fails[2] = Cannot("has no wings", "It was built without.")
    content = measured.run()
    assert content["finished"]
    reason = {"cannot": "has no wings", "detail": "It was built without."}
    assert reason.items() <= content["rows"][1].items()
    content = measured.run()
    assert measured.asked == [1, 2, 3, 2]
    assert sorted(row["size"] for row in content["rows"]) == [1, 2, 3]


def test_rows_of_another_configuration_or_machine_are_not_mixed(measured):
    content = measured.run()
    with pytest.raises(harness.ResultError, match="rounds 3, not 4"):
        measured.run(rounds=4)
    content["environment"] |= {"date": "2020-01-01", "cpu": "another"}
    measured.path.write_text(json.dumps(content))
    with pytest.raises(harness.ResultError, match="with cpu another, not"):
        measured.run()
