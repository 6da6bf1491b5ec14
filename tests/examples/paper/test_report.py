"""The page of results, from results that never ran."""

import json
import math
import shutil

import matplotlib.image
import numpy as np
import pytest

from examples.paper import checks, claims, figures, prose, report, results
from examples.paper.cells import cell_of, shown_sizes
from examples.paper.plans import Plan
from examples.paper.recipes import RECIPES
from examples.paper.schemes import SCHEMES, WEIGHT_ONLY
from examples.paper.selection import select
from examples.paper.tables import TABLES


def write_result(folder, recipe, scheme, seed, values, extra=(), **changes):
    """A result whose epochs have the given (validation, test) numbers."""
    plan = Plan(recipe, RECIPES[recipe], scheme, seed, **changes)
    measure = plan.recipe.task.measure
    content = {
        **plan.configuration(),
        "epochs_planned": plan.recipe.epochs,
        "epochs_done": len(values),
        "data": {"train": 20_000, "validation": 6_000, "test": 10_000},
        "history": {
            f"train_{measure}": [1.0] * len(values),
            f"validation_{measure}": [validation for validation, _ in values],
            f"test_{measure}": [test for _, test in values],
            "seconds": [2.0] * len(values),
        },
        "sessions": [
            {
                **{"commit": "abc", "machine": "M", "cores": 2, "python": "3"},
                **{"keras": "3", "tensorflow": "2", "numpy": "2"},
            }
        ],
    }
    content["selected"] = select(content["history"], measure)
    content.update(extra)
    path = folder / plan.experiment / f"{scheme}-{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def row(page, title, first):
    """The cells of a row, in the section with that title."""
    section = page[page.index(f"## {title}") :].split("\n## ")[0]
    lines = [li for li in section.splitlines() if li.startswith(f"| {first} |")]
    return [cell.strip() for cell in lines[0].split("|")[2:-1]], section


def test_three_results_give_the_right_table(tmp_path, capsys):
    finished = [(2.0, 2.5)] * 49
    write_result(tmp_path, "mnist", "lab", 1, [(1.1, 1.25), *finished])
    write_result(tmp_path, "mnist", "lab", 2, [*finished, (1.2, 1.15)])
    write_result(
        tmp_path, "svhn", "bwn", 1, [(5.0, 4.0)] * 15, sizes={"width": 32}
    )
    assert report.main(["--results-dir", str(tmp_path)]) == 0
    assert "3 results" in capsys.readouterr().out
    page = (tmp_path / "README.md").read_text()

    cells, section = row(page, "Table 1", "LAB")
    mark = "<sup>2</sup>"
    assert cells[:2] == ["1.180", f"**1.20** ± 0.07 (2 runs, 50 epochs) {mark}"]
    assert cells[2:] == ["10.500", "not run", "2.354", "not run"]
    sizes = "20,000 train examples instead of {}; 6,000 validation examples "
    mnist = sizes.format("50,000") + "instead of 10,000"
    assert f"2. {mnist}\n" in section
    cells, _ = row(page, "Table 1", "BWN")
    assert cells[:4] == ["1.310", "not run", "10.510", "not run"]
    assert cells[5] == "**4.00** (1 run, 15 epochs) <sup>1</sup>"
    assert (
        "1. width 32 instead of 64; 20,000 train examples instead of 598,388; "
        "10,000 test examples instead of 26,032; 15 of the paper's 50 epochs, "
        "all before the learning rate first falls; not finished: 50 epochs "
        "are planned\n"
    ) in section

    cells, section = row(page, "Table 2", "BWN")
    assert cells[:2] == ["3.119", "not run"]
    assert cells[2:4] == ["2.743", "**4.00** (1 run, 15 epochs) <sup>1</sup>"]
    assert "width 32 instead" not in section
    for scheme in WEIGHT_ONLY:
        cells, _ = row(page, "Table 4", SCHEMES[scheme].title)
        assert cells[1::2] == ["not run"] * 4
    assert "| mnist | LAB | 2 | 50 of 50 | 50 | 1.00 | 1.20 | 1.15 |" in page
    assert "All epochs, one by one: 0.1 hours." in page  # 115 of two seconds.
    assert "![Figure 1: convergence of LAB](figures/convergence.png)" in page
    for figure in ("convergence", "width"):
        picture = matplotlib.image.imread(
            tmp_path / "figures" / f"{figure}.png"
        )
        assert picture.std() > 0.05


def test_a_study_shows_networks_of_one_size(tmp_path):
    """Not the 512 cells of Table 3 in one column and 128 in the others."""
    for scheme in ("lab", "bwn"):
        for steps in (10, 50, 100):
            sizes = {"cells": 128, "steps": steps}
            args = (tmp_path, "war_and_peace", scheme, 1, [(2.0, 2.0)])
            write_result(*args, sizes=sizes)
    runs = results.load(tmp_path)
    shown = shown_sizes(runs, TABLES["table3"])
    assert shown[0] == {"cells": 128, "steps": 100}
    for scheme in ("lab", "bwn"):
        write_result(tmp_path, "war_and_peace", scheme, 1, [(1.5, 1.4)])
    runs = results.load(tmp_path)
    shown = shown_sizes(runs, TABLES["table3"])
    assert shown[0] == {"cells": 512, "steps": 100}
    shown = shown_sizes(runs, TABLES["table4"])
    assert [size["cells"] for size in shown] == [128] * 4
    assert [size["steps"] for size in shown] == [10, 50, 100, 150]
    shown = shown_sizes(runs, TABLES["table3"])
    assert shown[1] == {"cells": 512, "steps": 100}


def test_an_unfinished_seed_is_left_out_of_the_mean(tmp_path):
    write_result(tmp_path, "mnist", "lab", 1, [(1.0, 1.0)] * 50)
    write_result(tmp_path, "mnist", "lab", 2, [(9.0, 9.0)] * 3)
    runs = results.load(tmp_path)
    cell = cell_of(runs, "table1", "MNIST", "lab")
    assert (cell.mean, cell.epochs, len(cell.runs)) == (1.0, 50, 1)
    page = report.build_page(runs, {})
    _, section = row(page, "Table 1", "LAB")
    assert "; 1 more run with fewer epochs left out\n" in section


def test_more_epochs_than_the_papers_do_not_count(tmp_path):
    for seed in (1, 2, 3):
        write_result(tmp_path, "mnist", "lab", seed, [(1.2, 1.2)] * 50)
    write_result(tmp_path, "mnist", "lab", 4, [(1.2, 1.2)] * 50 + [(0.9, 0.9)])
    runs = results.load(tmp_path)
    cell = cell_of(runs, "table1", "MNIST", "lab")
    assert (cell.values, cell.epochs) == ([1.2] * 4, 50)


def test_a_note_says_what_each_run_departs_in(tmp_path):
    """Not what the first one does, for all of them."""
    finished = [(1.0, 1.0)] * 50
    sizes = {"train": 50_000, "validation": 10_000, "test": 10_000}
    whole = {"data": sizes, "departures": ["an old file"], "note": "mine"}
    part = {"data": {**sizes, "test": 500}, "departures": ["an old file"]}
    write_result(tmp_path, "mnist", "lab", 1, finished, whole)
    write_result(tmp_path, "mnist", "lab", 2, [*finished[1:], (None, 1)], part)
    _, section = row(
        report.build_page(results.load(tmp_path), {}), "Table 1", "LAB"
    )
    assert (
        "1. an old file; seed 1: mine; seed 2: 500 test examples instead of "
        "10,000, diverged in 1 of its epochs\n"
    ) in section


def test_a_run_that_diverged_is_called_so(tmp_path):
    write_result(tmp_path, "war_and_peace", "bnn", 1, [(None, None)] * 3)
    page = report.build_page(results.load(tmp_path), {})
    cells, _ = row(page, "Table 3", "BNN")
    assert cells[1].startswith("diverged")
    assert "| 3 of 200 | – | diverged | diverged | diverged |" in page


def test_an_epoch_may_have_a_validation_error_but_none_of_training(tmp_path):
    """One infinite batch, from which the network recovers."""
    path = write_result(tmp_path, "mnist", "lab", 1, [(1.5, 1.25)])
    content = json.loads(path.read_text())
    content["history"]["train_error"] = [None]
    path.write_text(json.dumps(content))
    page = report.build_page(results.load(tmp_path), {})
    assert "| 1 of 50 | 1 | diverged | 1.50 | 1.25 |" in page


@pytest.mark.parametrize(
    "change",
    [
        {"learning_rate": 0.5},
        {"scheme": "bwm"},
        {"seed": 2},
        {"sizes": {}},
        {"data": {}},
        {"sessions": []},
        {"sessions": [{}]},
        {"sessions": [dict.fromkeys(("commit", *results.MACHINE), "1")]},
        {"epochs_done": 3},
        {"epochs_planned": None},
        {"history": {}},
        {"history": None},
    ],
)
def test_a_result_that_contradicts_itself_is_named(tmp_path, change, capsys):
    write_result(tmp_path, "mnist", "lab", 1, [(1.0, 1.0)] * 2, change)
    assert report.main(["--results-dir", str(tmp_path)]) == 1
    assert "lab-1.json is not a result" in capsys.readouterr().err


def test_a_copy_of_a_result_does_not_count_as_another(tmp_path, capsys):
    path = write_result(tmp_path, "mnist", "lab", 1, [(1.0, 1.0)] * 2)
    shutil.copytree(path.parent, tmp_path / "copy")
    assert report.main(["--results-dir", str(tmp_path)]) == 1
    assert "it is that of mnist lab-1" in capsys.readouterr().err


def test_what_is_selected_is_worked_out_anew(tmp_path):
    wrong = {"selected": {"epoch": 1, "validation_error": 0, "test_error": 0}}
    write_result(tmp_path, "mnist", "lab", 1, [(1.0, 1.5)] * 2, wrong)
    page = report.build_page(results.load(tmp_path), {})
    assert "| mnist | LAB | 1 | 2 of 50 | 2 | 1.00 | 1.00 | 1.50 |" in page


@pytest.mark.parametrize(
    "text", ["", "{", "{}", "5", "null", "[]", '{"recipe": "x"}']
)
def test_a_file_that_is_no_result_is_named(tmp_path, text, capsys):
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "lab-1.json").write_text(text)
    assert report.main(["--results-dir", str(tmp_path)]) == 1
    assert "lab-1.json" in capsys.readouterr().err
    assert not (tmp_path / "README.md").exists()


def verdict(folder, start):
    (claim,) = [c for c in claims.CLAIMS if c.text.startswith(start)]
    return checks.decide(claim.check, results.load(folder))


def test_a_claim_is_decided_by_the_results(tmp_path):
    best = "MNIST: of the networks with binary weights LAB"
    assert verdict(tmp_path, best)[0] == "not run"
    for scheme in ("bwn", "binary_connect"):
        write_result(tmp_path, "mnist", scheme, 1, [(3.0, 3.0)] * 4)
    for error, expected in (
        (2.0, "holds"),
        (2.9, "open"),
        (4.0, "does not hold"),
    ):
        # Two epochs more than the others had, which do not count.
        values = [(error, error)] * 4 + [(0.1, 0.1)] * 2
        write_result(tmp_path, "mnist", "lab", 1, values)
        assert verdict(tmp_path, best)[0] == expected
        assert (
            f"LAB {error:.2f} (4 of 50 epochs, 1 run each, not finished, "
            "reduced)" in verdict(tmp_path, best)[1]
        )


def test_a_rival_that_did_not_run_does_not_hide_the_others(tmp_path):
    best = "With binary activations LAB2"
    write_result(tmp_path, "mnist", "lab2", 1, [(2.0, 2.0)])
    assert verdict(tmp_path, best)[0] == "not run"
    for error, expected in (
        (3.0, "holds so far"),
        (2.1, "open"),
        (1.0, "does not hold"),
    ):
        write_result(tmp_path, "mnist", "bnn", 1, [(error, error)])
        decided, numbers = verdict(tmp_path, best)
        assert decided == expected
        assert f"BNN {error:.2f}, LAB2 2.00" in numbers
        assert "; XNOR not run" in numbers


def test_the_cost_of_binarization_is_followed_in_time(tmp_path):
    costs = "War and Peace, 100 steps: binarization costs less"
    write_result(tmp_path, TEXT, "full_precision", 1, [(2.0, 2.0), (1.5, 1.5)])
    for last, expected in (
        (1.6, "holds so far"),
        (1.8, "open"),
        (2.0, "does not hold"),
    ):
        write_result(tmp_path, TEXT, "lab", 1, [(2.3, 2.3), (last, last)])
        decided, numbers = verdict(tmp_path, costs)
        assert decided == expected
        assert f"0.300 at epoch 1, {last - 1.5:.3f} at the best" in numbers
    # Another seed that has just begun does not count.
    write_result(tmp_path, TEXT, "lab", 2, [(9.0, 9.0)])
    assert verdict(tmp_path, costs) == (decided, numbers)


def test_the_page_explains_only_what_came_out(tmp_path):

    def explained():
        page = report.build_page(results.load(tmp_path), {})
        titles = [line[4:] for line in page.splitlines() if line[:4] == "### "]
        assert titles.pop(0) == "Why the feedforward tables say little about α"
        return titles

    assert explained() == []
    for steps, loss in ((10, 1.7), (150, 2.0)):
        write_study(tmp_path, steps, full_precision=loss, bwn=loss, lab=loss)
    assert explained() == ["Why longer sequences are behind here"]
    write_study(tmp_path, 150, bwn=1.5)  # Of one scheme this is not true.
    assert explained() == []
    data = {"train": 9, "validation": 9, "test": 9}
    for files, titles in (
        ({"train_32x32.mat": "0" * 64}, []),
        (
            {"train_32x32.mat": prose.SVHN_AT_HAND},
            ["Why SVHN's errors are several times the paper's"],
        ),
    ):
        extra = {"data": {**data, "files": files}}
        write_result(tmp_path, "svhn", "lab", 1, [(9.0, 9.0)], extra)
        assert explained() == titles


def test_what_is_under_way_does_not_overturn_what_is_finished(tmp_path):
    best = "With binary activations LAB2"
    finished = {"epochs_planned": 3}
    for scheme, last in (("lab2", 1.4), ("bnn", 2.5)):
        values = [(9.0, 9.0), (5.0, 5.0), (last, last)]
        write_result(tmp_path, "mnist", scheme, 1, values, finished)
    write_result(tmp_path, "mnist", "xnor", 1, [(2.0, 2.0)])
    decided, numbers = verdict(tmp_path, best)
    assert decided == "holds so far" and "; XNOR not run" in numbers
    # As far as the others, it counts.
    write_result(tmp_path, "mnist", "xnor", 1, [(9.0, 9.0)] * 3)
    assert verdict(tmp_path, best)[0] == "holds so far"  # MNIST only.
    assert "XNOR 9.00" in verdict(tmp_path, best)[1]
    for scheme in WEIGHT_ONLY:
        args = (tmp_path, "svhn", scheme, 1)
        write_result(*args, [(9, 9)] * 3, finished, sizes={"width": 16})
        write_result(*args, [(30, 30)], sizes={"width": 32})
    shown = shown_sizes(results.load(tmp_path), TABLES["table1"])
    assert shown[2] == {"width": 16}


def test_of_sizes_that_are_not_the_papers_the_larger_is_shown(tmp_path):
    for width in (16, 32):
        sizes = {"width": width}
        write_result(tmp_path, "svhn", "lab", 1, [(9.0, 9.0)], sizes=sizes)
    shown = shown_sizes(results.load(tmp_path), TABLES["table1"])
    assert shown[2] == {"width": 32}


def test_the_spread_of_seeds_leaves_a_lead_open(tmp_path):
    """That the errors of 10,000 images alone would decide."""
    better = "MNIST: LAB is even better"
    write_result(tmp_path, "mnist", "full_precision", 1, [(3.0, 3.0)])
    for spread, expected in ((0.0, "holds"), (0.9, "open")):
        for seed, sign in ((1, 1), (2, -1)):
            error = 2.0 + sign * spread
            write_result(tmp_path, "mnist", "lab", seed, [(error, error)])
        assert verdict(tmp_path, better)[0] == expected


def test_two_networks_that_diverged_are_not_told_apart(tmp_path):
    for scheme in ("full_precision", "lab"):
        write_result(tmp_path, "mnist", scheme, 1, [(None, None)])
    assert verdict(tmp_path, "MNIST: LAB is even better")[0] == "open"


def test_claims_on_texts_compare_nats(tmp_path):
    for scheme, loss in (("full_precision", 1.6), ("bwn", 1.65), ("lab", 1.69)):
        write_result(tmp_path, "war_and_peace", scheme, 1, [(loss, loss)])
    close = "War and Peace, 100 steps: BWN and LAB"
    assert verdict(tmp_path, close)[0] == "holds"
    write_result(tmp_path, "war_and_peace", "lab", 1, [(1.71, 1.71)])
    assert verdict(tmp_path, close)[0] == "does not hold"
    write_result(tmp_path, "war_and_peace", "binary_connect", 1, [(3.0, 2.9)])
    fails = "War and Peace, 100 steps: BinaryConnect fails"
    assert verdict(tmp_path, fails)[0] == "holds"


TEXT = "war_and_peace"


def test_close_to_full_precision_is_not_far_below_it(tmp_path):
    for scheme in ("full_precision", "bwn", "lab"):
        write_result(tmp_path, TEXT, scheme, 1, [(1.6, 1.6)])
    write_result(tmp_path, TEXT, "lab", 1, [(1.3, 1.3)])
    close = "War and Peace, 100 steps: BWN and LAB"
    assert verdict(tmp_path, close)[0] == "does not hold"


def test_what_fails_where_full_precision_fails_too_is_open(tmp_path):
    write_result(tmp_path, TEXT, "binary_connect", 1, [(3.8, 3.8)])
    fails = "War and Peace, 100 steps: BinaryConnect fails"
    assert verdict(tmp_path, fails)[0] == "not run"
    write_result(tmp_path, TEXT, "full_precision", 1, [(3.2, 3.2)])
    found, numbers = verdict(tmp_path, fails)
    assert (
        found == "open"
        and "(1 of 200 epochs, 1 run each, not finished)" in numbers
    )


def test_to_diverge_is_to_fail(tmp_path):
    for scheme in ("full_precision", "bwn", "lab"):
        write_result(tmp_path, TEXT, scheme, 1, [(1.6, 1.6)])
    write_result(tmp_path, TEXT, "binary_connect", 1, [(None, None)])
    fails = "War and Peace, 100 steps: BinaryConnect fails"
    found, numbers = verdict(tmp_path, fails)
    assert found == "holds" and "BinaryConnect diverged" in numbers
    # One good seed does not make up for another that diverged.
    write_result(tmp_path, TEXT, "lab", 2, [(None, None)])
    close = "War and Peace, 100 steps: BWN and LAB"
    found, numbers = verdict(tmp_path, close)
    assert found == "does not hold" and "LAB 1.600 and 1 diverged" in numbers
    best = "The texts: of the networks with binary weights"
    assert verdict(tmp_path, best)[0] == "does not hold"


def test_runs_of_different_data_are_not_compared(tmp_path):
    other = {"data": {"train": 9, "validation": 9, "test": 9}}
    write_result(tmp_path, "mnist", "full_precision", 1, [(3.0, 3.0)])
    write_result(tmp_path, "mnist", "lab", 1, [(1.0, 1.0)], other)
    found = verdict(tmp_path, "MNIST: LAB is even better")
    assert found == ("open", "the runs are not of the same data")
    # Of a table's columns, too: parts may differ in size, not in files.
    for steps, digest in ((10, "a"), (150, "b")):
        data = {"train": steps, "validation": 9, "test": 9}
        extra = {"data": {**data, "files": {"text": digest}}}
        sizes = {"cells": 128, "steps": steps}
        for scheme in ("full_precision", "lab"):
            args = (tmp_path, TEXT, scheme, 1, [(2.0, 2.0)], extra)
            write_result(*args, sizes=sizes)
    assert "LAB: open, the runs are not" in verdict(tmp_path, GROWS)[1]


def test_the_texts_are_drawn_by_epoch(tmp_path):
    assert figures.texts(results.load(tmp_path)) is None
    losses = {"lab": [2.5, 2.0], "binary_connect": [3.0, None]}
    for scheme, values in losses.items():
        pairs = [(value, value) for value in values]
        write_result(tmp_path, TEXT, scheme, 1, pairs)
    (axes,) = figures.texts(results.load(tmp_path)).axes
    drawn = {line.get_label(): line.get_xydata() for line in axes.lines}
    for scheme, values in losses.items():
        got = drawn[SCHEMES[scheme].title]
        np.testing.assert_array_equal(got[:, 0], [1, 2])
        np.testing.assert_array_equal(got[:, 1], np.array(values, float))


def test_what_a_falling_rate_does_is_judged_at_ten_epochs(tmp_path):
    costs = {"full_precision": (0.1, 0), "lab": (0.3, 0.05), "bwn": (0.4, 0.15)}
    small = {"cells": 128, "steps": 100}
    for scheme, (constant, falling) in costs.items():
        for recipe, sizes, cost in (
            (TEXT, small, constant),
            ("war_and_peace_short", {}, falling),
        ):
            values = [(3.0, 3.0)] * 9 + [(2 + cost, 2 + cost)]
            write_result(tmp_path, recipe, scheme, 1, values, sizes=sizes)
    text = "The same: where the learning rate falls"
    decided, numbers = verdict(tmp_path, text)
    assert decided == "holds"
    assert "LAB: holds, 2.300 at the paper's rates, 2.050 at ten" in numbers
    text = "The same, where it falls"
    assert verdict(tmp_path, text)[0] == "does not hold"
    text = "War and Peace, 128 cells, ten epochs: where the learning rate falls"
    decided, numbers = verdict(tmp_path, text)
    assert decided == "holds"
    assert "LAB: holds, 0.200 at the paper's rates, 0.050 at ten" in numbers
    panels = figures.schedules(results.load(tmp_path)).axes
    assert [len(axes.lines) for axes in panels] == [3, 3]


def test_of_two_networks_a_third_does_not_matter(tmp_path):
    for scheme, error in (("binary_connect", 9), ("bwn", 8), ("lab", 12)):
        write_result(tmp_path, "cifar10", scheme, 1, [(error, error)])
    outperformed = "CIFAR-10: LAB is outperformed"
    assert verdict(tmp_path, outperformed)[0] == "holds"


def test_all_rivals_count_not_only_the_nearest(tmp_path):
    """A far rival with a large spread leaves a lead open."""
    best = "War and Peace, each number of steps"
    for seed, noise in ((1, 0.1), (2, -0.1)):
        for scheme, loss, spread in (
            ("lab", 1.5, 0),
            ("bwn", 1.56, 0),
            ("binary_connect", 1.58, 1),
        ):
            value = loss + spread * noise
            sizes = {"steps": 10}
            args = (tmp_path, TEXT, scheme, seed, [(value, value)])
            write_result(*args, sizes=sizes)
    found, numbers = verdict(tmp_path, best)
    assert found == "open"
    assert "TS = 10: open" in numbers and "lead 0.060 ± 0.020" in numbers
    assert "TS = 50: not run" in numbers


def test_seeds_with_enough_epochs_count_in_a_comparison(tmp_path):
    """Also where another seed of the same scheme has more."""
    write_result(tmp_path, "mnist", "lab", 1, [(1.0, 1.0)] * 50)
    for seed in (2, 3):
        write_result(tmp_path, "mnist", "lab", seed, [(1.3, 1.3)] * 20)
    short = {"epochs_planned": 20}
    args = (tmp_path, "mnist", "full_precision", 1)
    write_result(*args, [(2.0, 2.0)] * 20, short)
    _, numbers = verdict(tmp_path, "MNIST: LAB is even better")
    assert "LAB 1.20 (20 of 50 epochs, 1–3 runs each" in numbers


def test_single_cross_entropies_may_be_luck(tmp_path):
    best = "The texts: of the networks with binary weights"
    write_result(tmp_path, TEXT, "binary_connect", 1, [(3.0, 3.0)])
    write_result(tmp_path, TEXT, "bwn", 1, [(1.6, 1.6)])
    for lab, expected in (
        (1.55, "open"),
        (1.54, "holds"),
        (1.66, "does not hold"),
    ):
        write_result(tmp_path, TEXT, "lab", 1, [(lab, lab)])
        found, numbers = verdict(tmp_path, best)
        so_far = " so far" if expected == "holds" else ""
        assert found == expected + so_far
        assert numbers.startswith(f"War and Peace: {expected}, BinaryConnect")
        assert numbers.endswith("<br>Linux Kernel: not run")
    # More seeds that agree tell less apart, but not any lead: not 0.038 of two
    # runs, but 0.036 of four. (Two standard errors are 0.04 and 0.028.)
    for seeds, lab, expected in ((2, 1.562, "open"), (4, 1.564, "so far")):
        for seed in range(1, seeds + 1):
            write_result(tmp_path, TEXT, "bwn", seed, [(1.6, 1.6)])
            write_result(tmp_path, TEXT, "lab", seed, [(lab, lab)])
            args = (tmp_path, TEXT, "binary_connect", seed, [(3.0, 3.0)])
            write_result(*args)
        assert verdict(tmp_path, best)[0].endswith(expected)


def write_study(folder, steps, epochs=1, **losses):
    """A column of Table 4, at 128 cells."""
    for scheme, loss in losses.items():
        sizes = {"steps": steps, "cells": 128}
        args = (folder, TEXT, scheme, 1, [(loss, loss)] * epochs)
        write_result(*args, sizes=sizes)


COSTS = "War and Peace: with more steps binarization costs more"
GROWS = f"{COSTS}, at equal epochs"
BETTER = (
    "War and Peace: with more steps all but BinaryConnect get better, at "
    "equal epochs"
)


def test_studies_are_judged_by_the_columns_that_ran(tmp_path):
    losses = dict.fromkeys(WEIGHT_ONLY, 1.6)
    write_study(tmp_path, 10, **losses)
    assert verdict(tmp_path, GROWS)[0] == "not run"
    losses = {"bwn": 1.4, "lab": 1.4, "binary_connect": 3.0}
    write_study(tmp_path, 100, full_precision=1.3, **losses)
    found, numbers = verdict(tmp_path, GROWS)
    assert found == "holds so far"
    assert "change 0.100 ± 0.040 (1 of 200 epochs" in numbers
    assert verdict(tmp_path, BETTER)[0] == "holds so far"
    close = "War and Peace, 10 steps: all are close"
    assert verdict(tmp_path, close)[0] == "holds"
    fails = "War and Peace, from 50 steps on"
    found, numbers = verdict(tmp_path, fails)
    assert found == "holds so far"
    assert numbers.startswith("TS = 50: not run<br>TS = 100: holds, full")
    write_study(tmp_path, 150, full_precision=1.7, lab=1.5, bwn=1.5)
    assert verdict(tmp_path, GROWS)[0] == "does not hold"
    assert verdict(tmp_path, BETTER)[0] == "does not hold"


def test_columns_are_compared_at_equal_updates(tmp_path):
    """An epoch of sequences of 10 bytes has fifteen times as many here."""
    claim = f"{COSTS}, at equal updates"
    for steps, sequences, costs in (
        (10, 30_000, [0.1, 0.1, 0.5]),
        (150, 2_000, [0.9] * 14 + [0.3]),
    ):
        sizes = {"steps": steps, "cells": 128}
        data = {"data": {"train": sequences, "validation": 100, "test": 100}}
        for scheme in ("full_precision", "bwn", "lab"):
            losses = [1.5 + c * (scheme != "full_precision") for c in costs]
            values = [(loss, loss) for loss in losses]
            args = (tmp_path, TEXT, scheme, 1, values, data)
            write_result(*args, sizes=sizes)
    found, numbers = verdict(tmp_path, claim)
    assert found == "holds"
    # One epoch of the first, fifteen of the last.
    assert "0.100 at TS = 10, 0.300 at TS = 150; change 0.200" in numbers
    assert "(1–15 of 200 epochs, 1 run each, not finished, reduced)" in numbers
    for path in tmp_path.glob("*steps150*/*.json"):
        path.unlink()
    values = [(1.5, 1.5)] * 5
    for scheme in ("full_precision", "bwn", "lab"):
        args = (tmp_path, TEXT, scheme, 1, values, data)
        write_result(*args, sizes=sizes)
    found, numbers = verdict(tmp_path, claim)
    assert found == "open" and "an epoch of one is longer" in numbers


def test_a_table_that_is_read_across_has_equal_epochs(tmp_path):
    for steps, epochs in ((10, 2), (100, 4)):
        sizes = {"steps": steps, "cells": 128}
        values = [(2.0 - 0.1 * n, 2.0 - 0.1 * n) for n in range(epochs)]
        done = {"epochs_planned": epochs}
        write_result(tmp_path, TEXT, "lab", 1, values, done, sizes=sizes)
    cells, _ = row(
        report.build_page(results.load(tmp_path), {}), "Table 4", "LAB"
    )
    assert cells[1] == "**1.900** (1 run, 2 epochs) <sup>1</sup>"
    assert cells[5] == "**1.900** (1 run, 2 epochs) <sup>1</sup>"
    # What is under way does not cut the others short.
    sizes = {"steps": 50, "cells": 128}
    write_result(tmp_path, TEXT, "lab", 1, [(2.5, 2.5)], sizes=sizes)
    cells, _ = row(
        report.build_page(results.load(tmp_path), {}), "Table 4", "LAB"
    )
    assert cells[1].startswith("**1.900** (1 run, 2 epochs)")
    assert cells[3].startswith("**2.500** (1 run, 1 epoch)")


def test_gradients_beyond_the_bins_are_drawn(tmp_path):
    """An explosion off the scale is not a flat line at zero."""
    for scheme, above in (("lab", 0), ("binary_connect", 6)):
        gradient = {
            "log10_range": [-12, 20],
            "counts": [0] * 70 + [6 - above] + [0] * 57,
            **{"below": 0, "above": above, "not_finite": above},
            "rms": 1.0,
        }
        extra = {"recurrent_gradient": gradient}
        sizes = {"steps": 100, "cells": 512}
        args = (tmp_path, TEXT, scheme, 1, [(2.0, 2.0)], extra)
        write_result(*args, sizes=sizes)
    figure = figures.gradients(results.load(tmp_path))
    ten, hundred = figure.axes
    assert ten.get_title() == "TS = 10, cells 512, not run"
    lines = {line.get_label(): line for line in hundred.lines}
    x, share = lines["BinaryConnect"].get_data()
    assert share.max() == share[-1] == 100
    low, high = hundred.get_xlim()
    assert low < x[-1] < high


def test_the_summary_has_each_sentence_of_the_paper_once(tmp_path):
    write_result(tmp_path, TEXT, "full_precision", 1, [(1.6, 1.6)])
    write_result(tmp_path, TEXT, "binary_connect", 1, [(3.0, 3.0)])
    summary = claims.format_summary(results.load(tmp_path))
    holds = "War and Peace, 100 steps: BinaryConnect fails, above 2.5 nats "
    assert summary[0] == f"- **Holds here, too** (1 of {len(claims.PAPER)})"
    assert summary[1].startswith(f"  - {holds}")
    texts = [line[4:] for line in summary if line.startswith("  - ")]
    assert sorted(texts) == sorted(claim.text for claim in claims.PAPER)


def test_columns_are_compared_at_equal_epochs(tmp_path):
    write_study(tmp_path, 10, full_precision=1.6, lab=1.6, bwn=1.6)
    write_study(tmp_path, 150, 3, full_precision=1.3, lab=1.3, bwn=1.3)
    for path in tmp_path.glob("*steps150*/*.json"):
        content = json.loads(path.read_text())
        for part in ("validation", "test"):
            content["history"][f"{part}_loss"][0] = 2.0
        path.write_text(json.dumps(content))
    # In its first epoch that column is worse.
    found, numbers = verdict(tmp_path, BETTER)
    assert found == "does not hold"
    assert "2.000 at TS = 150; change 0.400 ± 0.028 (1 of 200" in numbers


def test_a_study_is_drawn_at_equal_epochs(tmp_path):
    for steps, tested in ((10, [2.0, 1.5]), (100, [2.5, 2.2, 1.0])):
        values = [(test, test) for test in tested]
        sizes = {"cells": 128, "steps": steps}
        write_result(tmp_path, TEXT, "lab", 1, values, sizes=sizes)
    _, ours = figures.time_steps(results.load(tmp_path)).axes
    assert "2 epochs" in ours.get_title()
    assert ours.lines[0].get_ydata().tolist() == [1.5, 2.2]


def test_where_full_precision_diverged_there_is_no_cost(tmp_path):
    write_study(tmp_path, 10, full_precision=1.6, lab=1.6, bwn=1.6)
    write_study(tmp_path, 150, full_precision=None, lab=1.3, bwn=None)
    found, numbers = verdict(tmp_path, GROWS)
    assert found == "open" and "nan" not in numbers and "inf" not in numbers
    write_study(tmp_path, 10, full_precision=None, binary_connect=1.6)
    close = "War and Peace, 10 steps: all are close"
    assert verdict(tmp_path, close)[0] == "open"


@pytest.mark.parametrize(
    ("wide", "expected"),
    [(4.1, "holds so far"), (6.9, "does not hold"), (6.0, "open")],
)
def test_the_cost_of_filters_is_that_of_full_precision(
    tmp_path, wide, expected
):
    for width, lab in ((16, 7.0), (32, wide)):
        for scheme in WEIGHT_ONLY:
            error = 4.0 if scheme == "full_precision" else lab - (width == 16)
            args = (tmp_path, "svhn", scheme, 1, [(error, error)])
            write_result(*args, sizes={"width": width})
    claim = "SVHN: the cost of binarization falls"
    assert verdict(tmp_path, claim)[0] == expected


@pytest.mark.parametrize(
    ("sizes", "similar", "exploded"),
    [
        ((1, 1, 1, 1), "holds", "does not hold"),
        ((1, 50, 1, 2), "does not hold", "holds"),
        ((1, 50, 1, 6), "does not hold", "does not hold"),
        ((9, 1, 1, 0.2), "does not hold", "does not hold"),
        ((1, math.inf, 1, 1), "does not hold", "holds"),
        ((0, 0, 0, 0), "does not hold", "does not hold"),
    ],
)
def test_gradients_are_similar_or_not(tmp_path, sizes, similar, exploded):
    for scheme, size in zip(WEIGHT_ONLY, sizes):
        gradient = {"rms": size, "not_finite": 0}
        if math.isinf(size):
            gradient = {"rms": 1.0, "not_finite": 3}
        for steps in (10, 100):
            write_result(
                *(tmp_path, TEXT, scheme, 1, [(2.0, 2.0)]),
                extra={"recurrent_gradient": gradient},
                sizes={"steps": steps},
            )
    claim = "War and Peace, 10 steps: all have similar"
    assert verdict(tmp_path, claim)[0] == similar
    claim = "War and Peace, 100 steps: BinaryConnect's"
    assert verdict(tmp_path, claim)[0] == exploded
    write_result(
        *(tmp_path, TEXT, "lab", 1, [(2.0, 2.0)] * 2),
        extra={"recurrent_gradient": {"rms": 1.0, "not_finite": 0}},
        sizes={"steps": 10},
    )
    claim = "War and Peace, 10 steps: all have similar"
    assert verdict(tmp_path, claim)[0] == "open"  # Not of the same epoch.


def test_other_schemes_do_not_decide_which_sizes_a_table_shows(tmp_path):
    """Table 3 has seven schemes at 512 cells, Table 4 four."""
    for scheme in SCHEMES:
        write_result(tmp_path, TEXT, scheme, 1, [(2.0, 2.0)])
    for steps in (10, 50):
        write_study(tmp_path, steps, full_precision=2.0, bwn=2.0, lab=2.0)
    runs = results.load(tmp_path)
    shown = shown_sizes(runs, TABLES["table4"])
    assert [size["cells"] for size in shown] == [128] * 4


def test_small_networks_do_not_take_the_place_of_the_papers(tmp_path):
    for scheme in SCHEMES:
        sizes = {"width": 16}
        write_result(tmp_path, "mnist", scheme, 1, [(9.0, 9.0)], sizes=sizes)
    write_result(tmp_path, "mnist", "lab", 1, [(1.0, 1.0)] * 50)
    cells, _ = row(
        report.build_page(results.load(tmp_path), {}), "Table 1", "LAB"
    )
    assert cells[1].startswith("**1.00** (1 run, 50 epochs)")


def test_our_own_limits_are_for_all_epochs(tmp_path):
    ours = "MNIST: LAB at most"
    sizes = {"train": 50_000, "validation": 10_000, "test": 10_000}
    whole = {"data": sizes}
    for scheme, error in zip(WEIGHT_ONLY, (1.59, 1.55, 1.6, 1.3)):
        values = [(3.0, 3.0)] * 49 + [(error, error)]
        write_result(tmp_path, "mnist", scheme, 1, values, whole)
    assert verdict(tmp_path, ours)[0] == "holds"
    write_result(tmp_path, "mnist", "bwn", 1, values[:30], whole)
    assert verdict(tmp_path, ours)[0] == "open"
    write_result(tmp_path, "mnist", "lab", 1, [(1.31, 1.31)] * 50, whole)
    assert verdict(tmp_path, ours)[0] == "does not hold"
    write_result(tmp_path, "mnist", "lab", 1, values)  # Of fewer images.
    assert verdict(tmp_path, ours)[0] == "not run"


def test_the_page_in_the_repository_is_that_of_its_results():
    folder = report.ROOT / "results" / "paper"
    if not folder.is_dir():
        pytest.skip("results/paper is not here")
    runs = results.load(folder)
    drawn = {
        drawing.name: f"figures/{drawing.name}.png"
        for drawings in figures.OF_TABLE.values()
        for drawing in drawings
        if drawing.draw(runs) is not None
    }
    assert (folder / "README.md").read_text() == report.build_page(runs, drawn)
    for file in drawn.values():
        assert (folder / file).is_file()
