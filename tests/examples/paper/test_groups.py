"""The queue of runs, with runs that only write a result."""

import filelock
import pytest

from examples.environment import write_json
from examples.paper import results, train
from examples.paper.recipes import COMPARED, RATES
from examples.paper.results import Finished
from examples.paper.schemes import CONTROLS


def loss(plan):
    """The validation loss: best at 0.002, but for LAB at 0.004."""
    best = 0.004 if plan.scheme == "lab" else 0.002
    return 2 + abs(plan.rate - best)


@pytest.fixture
def done(tmp_path, monkeypatch):
    """Runs a command line; returns what it did, in order."""

    def fake(plan, data_folder, folder, jit_compile):
        if plan.path(folder).exists():
            raise Finished("it is there")
        if plan.path(folder) in busy:
            raise filelock.Timeout("another process")
        if plan.scheme == "bwn_ratio":
            runs = results.load(folder)
            ratios = results.scale_ratios(runs, plan.scheme, plan.seed)
            assert ratios["kernel"] == [1.5, 2.5, 3.5, 4.5]
        history = {f"{p}_loss": [3, loss(plan)] for p in ("validation", "test")}
        for kind in ("", "recurrent_"):
            for number, gate in enumerate("ifco", start=1):
                history[f"lstm/{kind}ratio_{gate}"] = [number, number + 1]
        content = {"epochs_done": plan.epochs, "history": history}
        write_json(plan.path(folder), {**plan.configuration(), **content})
        ran.append((plan.scheme, plan.seed, plan.rate))

    busy, ran = set(), []
    monkeypatch.setattr(train, "run", fake)
    monkeypatch.setattr(train.keras_lab.config, "keep_memory", lambda: None)
    monkeypatch.setattr(train.keras.utils, "clear_session", lambda: None)
    # While this process waits, the other one gives up its run.
    monkeypatch.setattr(train.time, "sleep", lambda seconds: busy.clear())

    def done(command, locked=()):
        busy.update(tmp_path / path for path in locked)
        ran.clear()
        options = [*command.split(), "--results-dir", str(tmp_path)]
        assert train.main(options) == 0
        return ran.copy()

    return done


def test_named_runs_are_done_once(done):
    command = "war_and_peace --scheme lab bwn --seed 1 2"
    ran = done(command, locked=["war_and_peace/bwn-1.json"])
    # While it waits, the other process gives up its run.
    names = [(scheme, seed) for scheme, seed, _ in ran]
    assert names == [("lab", 1), ("lab", 2), ("bwn", 2), ("bwn", 1)]
    assert done(command) == []


def test_the_queue_chooses_the_rate_of_each_scheme_then_runs_its_seeds(done):
    ran = done("queue --groups why")
    assert ran[:6] == [(s, 1, r) for s in ("bwn", "lab") for r in RATES]
    # All seeds of these two come before the other schemes.
    assert ran[6:8] == [("bwn", 2, 0.002), ("lab", 2, 0.004)]
    assert {scheme for scheme, *_ in ran[:14]} == {"bwn", "lab"}
    schemes = [*COMPARED, *CONTROLS]
    assert len(ran) == len(set(ran)) == len(schemes) * (3 + 4)
    # Nothing is left.
    assert done("queue --groups why") == []


def test_a_result_that_the_queue_depends_on_may_be_damaged(tmp_path, capsys):
    path = tmp_path / "war_and_peace_30" / "lab-1.json"
    path.parent.mkdir()
    path.write_text("{")
    options = ["queue", "--groups", "why", "--results-dir", str(tmp_path)]
    assert train.main(options) == 1
    assert "lab-1.json is not a result" in capsys.readouterr().err


def test_two_processes_share_the_queue(done):
    ran = done(
        "queue --groups why", locked=["war_and_peace_30-rate0.004/lab-1.json"]
    )
    # The rate of LAB is not known at first, so neither are its other runs.
    order = [("bwn_channel", 5, 0.002), ("lab", 1, 0.004), ("lab", 2, 0.004)]
    order.append(("bwn_ratio", 2, 0.002))
    places = [ran.index(run) for run in order]
    assert places == sorted(places)


def test_the_groups_have_the_runs_of_the_page(tmp_path):
    groups = ["schedule", "time_steps", "signs", "mnist", "code", "first"]
    found = [len(list(train.queue(tmp_path, [group]))) for group in groups]
    assert found == [4, 32, 18, 14, 2, 46]
    epochs = [plan.epochs for plan in train.queue(tmp_path, ["cells_512"])]
    # All three have equal epochs before one of them gets more.
    assert epochs == sorted(epochs) and epochs[::3] == epochs[2::3]
