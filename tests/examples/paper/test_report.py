"""The page of results: committed, and from results that never ran."""

import json
import re

import matplotlib.image
import pytest

from examples.paper import figures, report
from examples.paper.recipes import RECIPES, Plan, select
from examples.paper.tables import TABLES, find, load, shown

PAGE = report.ROOT / "results" / "paper" / "README.md"


def test_the_committed_page_is_that_of_the_committed_results():
    page = PAGE.read_text()
    assert report.fill(page, load(PAGE.parent)) == page
    assert set(re.findall(r"<!-- table: (\w+)", page)) == set(report.BLOCKS)
    linked = re.findall(r"\(figures/(\w+)\.png\)", page)
    assert sorted(linked) == sorted(figures.DRAWINGS)
    assert all((PAGE.parent / "figures" / f"{n}.png").exists() for n in linked)


def test_cells_have_the_numbers_of_their_files():
    """Independently of the code that makes the page."""
    page = PAGE.read_text()
    for folder, scheme, title in (
        ("mnist", "lab", "LAB"),
        ("war_and_peace", "bwn", "BWN"),
    ):
        path = PAGE.parent / folder / f"{scheme}-1.json"
        content = json.loads(path.read_text())
        history, epochs = content["history"], content["epochs_done"]
        measure = "error" if folder == "mnist" else "loss"
        validation = history[f"validation_{measure}"]
        best = max(i for i, v in enumerate(validation) if v == min(validation))
        test = history[f"test_{measure}"][best]
        number = f"{test:.2f}" if measure == "error" else f"{test:.3f}"
        row = rf"\| {title} \|.*\*\*{number}\*\* \(1 run, {epochs} epochs\)"
        assert re.search(row, page), (folder, number)


def write_result(folder, name, scheme, seed, values, extra=None, sizes=None):
    """A result whose epochs have the given (validation, test) numbers."""
    plan = Plan(name, RECIPES[name], scheme, seed, sizes or {})
    measure, count = plan.recipe.task.measure, len(values)
    history = {
        f"train_{measure}": [1.0] * count,
        f"validation_{measure}": [validation for validation, _ in values],
        f"test_{measure}": [test for _, test in values],
        "seconds": [36.0] * count,
    }
    outside = {"below": 0, "above": 1, "not_finite": 0}
    content = {
        **plan.configuration(),
        "epochs_planned": plan.recipe.epochs,
        "epochs_done": count,
        "data": {"train": 50_000, "validation": 10_000, "test": 10_000},
        "history": history,
        "selected": select(history, measure),
        "recurrent_gradient": {
            **{"log10_range": [-4, 4], "counts": [0] * 4, **outside}
        },
        "sessions": [{"commit": "abc"}],
        **(extra or {}),
    }
    path = plan.path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def column(text, title):
    """A column of a table in Markdown, without its footnotes."""
    rows = [line.split(" | ") for line in text.splitlines() if "|" in line]
    index = [head.strip("| ") for head in rows[0]].index(title)
    return [row[index].partition(" <sup>")[0].strip("| ") for row in rows[2:]]


def test_a_cell_is_the_mean_over_seeds_at_the_best_epochs(tmp_path):
    finished = [(2.0, 2.5)] * 49
    write_result(tmp_path, "mnist", "lab", 1, [(1.1, 1.25), *finished])
    write_result(tmp_path, "mnist", "lab", 2, [*finished, (1.2, 1.15)])
    write_result(tmp_path, "mnist", "lab", 3, [(0.1, 0.1)] * 3)
    write_result(tmp_path, "mnist", "bwn", 1, [(None, None)] * 50)
    arguments = ("svhn", "bwn", 1, [(5.0, 4.0)] * 15, {}, {"width": 32})
    write_result(tmp_path, *arguments)
    text = report.format_table(load(tmp_path), TABLES["table1"])
    ours = column(text, "MNIST, ours")
    assert ours[2:4] == [
        "diverged (1 run, 50 epochs)",
        "**1.20** ± 0.07 (2 runs, 50 epochs)",
    ]
    assert ours[0] == "not run"
    assert column(text, "MNIST, paper")[3] == "1.180"
    assert "1 run with fewer epochs left out" in text
    svhn = column(text, "SVHN, ours (width 32)")
    assert svhn[2] == "**4.00** (1 run, 15 epochs)"
    assert "15 of the paper's 50 epochs; not finished" in text
    assert "50,000 train examples instead of 598,388" in text


def test_columns_that_are_compared_show_equal_epochs(tmp_path):
    done = {"epochs_planned": 5}
    losses = [(3.0 - i / 10, 3.0 - i / 10) for i in range(20)]
    for steps, count in ((10, 5), (50, 5), (100, 20)):
        write_result(
            *(tmp_path, "war_and_peace", "lab", 1, losses[:count]),
            done if count == 5 else {},
            sizes={"cells": 128, "steps": steps},
        )
    runs = load(tmp_path)
    table = TABLES["table4"]
    cells = [cells["lab"] for *_, cells in shown(runs, table)]
    assert [cell and cell.epochs for cell in cells] == [5, 5, 5, None]
    assert cells[2].mean == pytest.approx(2.6)
    # Table 3 does not compare columns: it shows all epochs.
    cell = find(runs, TABLES["table3"].columns[0], "lab", {"cells": 128})
    assert (cell.epochs, cell.mean) == (20, pytest.approx(1.1))


def test_coverage_counts_full_and_reduced_cells(tmp_path):
    write_result(tmp_path, "mnist", "lab", 1, [(1.0, 1.0)] * 50)
    write_result(tmp_path, "mnist", "bwn", 1, [(1.0, 1.0)] * 49)
    write_result(tmp_path, "mnist", "bwn", 2, [(1.0, 1.0)] * 50)
    write_result(tmp_path, "mnist", "bnn", 1, [(1.0, 1.0)] * 49)
    text = report.format_coverage(load(tmp_path))
    assert "| Table 1 | 21 | 2 | 1 | 18 | 2 |" in text
    assert "| all | 67 | 2 | 1 | 64 |" in text


def test_the_command_fills_the_page_and_draws_figures(tmp_path, capsys):
    for scheme in ("lab", "full_precision"):
        for steps in (10, 100):
            sizes = {"cells": 128, "steps": steps}
            losses = [(2.0, 2.0), (1.5, 1.5)]
            write_result(
                tmp_path, "war_and_peace", scheme, 1, losses, sizes=sizes
            )
    for seed in (1, 2):
        write_result(tmp_path, "mnist", "lab", seed, [(1.0, seed)] * 3)
    page = tmp_path / "README.md"
    page.write_text("# Mine\n<!-- table: runs -->\nold\n<!-- end -->\nText.\n")
    assert report.main(["--results-dir", str(tmp_path)]) == 0
    assert "6 results" in capsys.readouterr().out
    text = page.read_text()
    assert text.startswith("# Mine\n") and text.endswith("\nText.\n")
    assert "| mnist | LAB | 2 | 3 of 50 | 3 | 1.00 | 1.00 | 2.00 |" in text
    assert "old" not in text
    for name in ("convergence", "texts", "time_steps", "gradients"):
        picture = matplotlib.image.imread(tmp_path / f"figures/{name}.png")
        assert picture.std() > 0.05


@pytest.mark.parametrize(
    "text", ["<!-- table: table9 -->\n<!-- end -->", "<!-- table: table1 -->\n"]
)
def test_a_wrong_marker_is_an_error(text):
    with pytest.raises(ValueError, match="Received: "):
        report.fill(text, [])


@pytest.mark.parametrize(
    "change", [{"learning_rate": 0.5}, {"seed": 2}, {"epochs_done": 3}]
)
def test_a_file_that_is_not_a_result_is_named(tmp_path, change, capsys):
    write_result(tmp_path, "mnist", "lab", 1, [(1.0, 1.0)] * 2, change)
    assert report.main(["--results-dir", str(tmp_path)]) == 1
    assert "lab-1.json is not a result" in capsys.readouterr().err
