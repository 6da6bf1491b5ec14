"""The long tests, made short, and what they recorded when they were long."""

import json
import subprocess
import sys

import pytest

from tests.endurance.__main__ import RESULTS


def run(name, **options):
    """Runs one of them in a process of its own, in which nothing ran yet."""
    code = (
        f"import json; from tests.endurance.{name} import run; "
        f"print(json.dumps(run(**{options})))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_killed_process_leaves_the_old_file_or_the_new_one():
    found = run("killed_writes", kills=10)
    assert (found["old or new"], found["damaged"]) == (10, 0)


@pytest.mark.slow
def test_a_killed_training_ends_with_the_same_weights():
    found = run("killed_training", trainings=2)
    for kind in ("BackupAndRestore", "examples/paper"):
        assert found[kind]["kills"] and found[kind]["equal to the bit"] == 2


@pytest.mark.slow
def test_training_with_all_callbacks_runs_again_and_again():
    assert run("soak", minutes=0.3)["fits"]


HELD = {
    "killed_writes": lambda r: r["kills"] >= 200 and r["damaged"] == 0,
    "killed_training": lambda r: all(
        r[kind]["equal to the bit"] == r["trainings"] >= 20
        for kind in ("BackupAndRestore", "examples/paper")
    ),
    "soak": lambda r: r["minutes"] >= 30 and r["ratio"] <= 1.05,
}


@pytest.mark.parametrize("name", HELD)
def test_the_record_says_what_must_hold(name):
    assert HELD[name](json.loads((RESULTS / f"{name}.json").read_text()))
