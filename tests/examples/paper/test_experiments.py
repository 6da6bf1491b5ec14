"""The queue of runs, and the controls that say why LAB wins."""

import filelock
import keras
import numpy as np
import pytest

from examples.environment import write_json
from examples.paper import experiments, train
from examples.paper.experiments import Plan
from examples.paper.recipes import RECIPES
from examples.paper.results import Finished
from examples.paper.schemes import ALL_SCHEMES, CONTROLS, ScaledBWN

GATES = 4


def step(scheme):
    """|w|, d and α of a small LSTM after a step, by kernel and gate."""
    keras.utils.set_random_seed(1)
    model = RECIPES["war_and_peace_30"].build(scheme, 9, False, cells=6)
    model.run_eagerly = True  # Faster than tracing for one step.
    x = np.random.default_rng(1).integers(0, 7, (4, 5)).astype(np.uint8)
    model.train_on_batch(x, x)
    cell, found = model.get_layer("lstm").cell, {}
    for name, alpha in (
        ("kernel", cell.alpha),
        ("recurrent_kernel", cell.recurrent_alpha),
    ):
        latent = getattr(cell, name)
        d = model.optimizer.curvature(latent, learning_rate=1).numpy()
        by_gate = [
            np.asarray(a, np.float64).reshape(len(d), GATES, -1)
            for a in (np.abs(latent.numpy()), d)
        ]
        found[name] = (*by_gate, alpha.numpy())
    return found


def bwn(w, d):
    return w.mean(axis=(0, 2))


def lab(w, d):
    return (d * w).sum(axis=(0, 2)) / d.sum(axis=(0, 2))


@pytest.mark.parametrize(
    ("scheme", "rules"),
    [
        ("lab_input", {"kernel": lab, "recurrent_kernel": bwn}),
        ("lab_recurrent", {"kernel": bwn, "recurrent_kernel": lab}),
        ("bwn_channel", {"kernel": lambda w, d: w.mean(axis=0)}),
    ],
)
def test_a_control_has_the_scale_that_it_says(scheme, rules):
    found = step(ALL_SCHEMES[scheme])
    for name, rule in rules.items():
        w, d, alpha = found[name]
        np.testing.assert_allclose(alpha, rule(w, d), rtol=1e-5)
    # The bytes 7 and 8 never occur: LAB and BWN differ.
    w, d, _ = found["kernel"]
    assert (np.abs(lab(w, d) / bwn(w, d) - 1) > 1e-3).all()


def test_shuffled_curvature_keeps_its_values_but_not_their_places():
    w, d, alpha = step(ALL_SCHEMES["lab_shuffled"])["kernel"]
    order = np.random.default_rng(0).permutation(9 * 6)
    assert (order != np.arange(9 * 6)).mean() > 0.9
    for gate in range(GATES):
        shuffled = d[:, gate].ravel()[order]
        expected = (shuffled * w[:, gate].ravel()).sum() / shuffled.sum()
        np.testing.assert_allclose(alpha[gate], expected, rtol=1e-5)
    with_places = lab(w, d)
    assert (np.abs(alpha / with_places - 1) > 1e-3).all()


def test_labs_ratio_multiplies_the_scale_of_bwn():
    ratios = {"kernel": [2.0, 3, 4, 5], "recurrent_kernel": [1.0, 1, 2, 2]}
    found = step(ALL_SCHEMES["bwn_ratio"].scaled(ratios))
    for name, ratio in ratios.items():
        w, d, alpha = found[name]
        np.testing.assert_allclose(alpha, ratio * bwn(w, d), rtol=1e-5)
    quantizer = ScaledBWN([1.5])
    assert ScaledBWN.from_config(quantizer.get_config()).ratio == [1.5]


def test_a_control_of_the_lstm_does_not_run_on_images():
    with pytest.raises(ValueError, match=r"LSTM only\. Received: mnist"):
        Plan("mnist", RECIPES["mnist"], "lab_input")


# The queue, with runs that only write a result.


def loss(plan):
    """The validation loss: best at 0.002, but for LAB at 0.004."""
    best = 0.004 if plan.scheme == "lab" else 0.002
    return 2 + abs(plan.learning_rate(1) - best)


@pytest.fixture
def queued(tmp_path, monkeypatch):
    """Runs groups of the queue; returns what ran, in order."""

    def fake(plan, data_folder, folder, jit_compile):
        if plan.path(folder).exists():
            raise Finished("it is there")
        if plan.path(folder) in busy:
            raise filelock.Timeout("another process")
        if ALL_SCHEMES[plan.scheme].ratio_of:
            ratios = experiments.scale_ratios(folder, plan)
            assert ratios["kernel"] == [1.5, 2.5, 3.5, 4.5]
        history = {f"{p}_loss": [3, loss(plan)] for p in ("validation", "test")}
        for kind in ("", "recurrent_"):
            for number, gate in enumerate("ifco", start=1):
                history[f"lstm/{kind}ratio_{gate}"] = [number, number + 1]
        content = {"epochs_done": plan.all_epochs, "history": history}
        content["learning_rate"] = plan.learning_rate(1)
        write_json(plan.path(folder), content)
        ran.append((plan.scheme, plan.seed, plan.learning_rate(1)))

    busy, ran = set(), []
    monkeypatch.setattr(train, "run", fake)
    monkeypatch.setattr(train.keras_lab.config, "keep_memory", lambda: None)
    monkeypatch.setattr(train.keras.utils, "clear_session", lambda: None)
    # While this process waits, the other one gives up its run.
    monkeypatch.setattr(train.time, "sleep", lambda seconds: busy.clear())

    def queued(*groups, locked=()):
        busy.update(tmp_path / path for path in locked)
        ran.clear()
        options = ["--results-dir", str(tmp_path), "--groups", *groups]
        assert train.main(["queue", *options]) == 0
        return ran.copy()

    return queued


def test_the_queue_chooses_the_rate_of_each_scheme_then_runs_its_seeds(queued):
    ran = queued("why")
    tuning = [(s, 1, r) for s in ("bwn", "lab") for r in experiments.RATES]
    assert ran[:6] == tuning
    assert ran[12:14] == [("bwn", 2, 0.002), ("lab", 2, 0.004)]
    schemes = [*experiments.COMPARED, *CONTROLS]
    assert len(ran) == len(set(ran)) == len(schemes) * (3 + 4)
    # Nothing is left.
    assert queued("why") == []


def test_two_processes_share_the_queue(queued):
    ran = queued("why", locked=["war_and_peace_30-rate0.004/lab-1.json"])
    # The rate of LAB is not known at first, so neither are its other runs.
    order = [("bwn_channel", 5, 0.002), ("lab", 1, 0.004), ("lab", 2, 0.004)]
    order.append(("bwn_ratio", 2, 0.002))
    places = [ran.index(run) for run in order]
    assert places == sorted(places)


def test_the_queue_has_the_runs_of_the_issue(tmp_path):
    counts = {g: len(list(experiments.queue(tmp_path, [g]))) for g in (
        "schedule", "time_steps", "signs", "mnist", "cifar10", "svhn", "code",
    )}  # fmt: skip
    assert list(counts.values()) == [4, 32, 18, 14, 4, 1, 2]
    epochs = [p.all_epochs for p in experiments.queue(tmp_path, ["cells_512"])]
    # All three have equal epochs before one of them gets more.
    assert epochs == sorted(epochs) and epochs[::3] == epochs[2::3]
