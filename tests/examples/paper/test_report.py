"""The page of results: committed, and from results that never ran."""

import base64
import collections
import json
import math
import os
import re

import matplotlib.image
import numpy as np
import pytest
from scipy import stats

from examples.paper import comparisons, figures, report
from examples.paper import data as datasets
from examples.paper.experiments import RATES, WHY
from examples.paper.recipes import RECIPES, Plan, select
from examples.paper.tables import TABLES, find, load, shown

PAGE = report.ROOT / "results" / "paper" / "README.md"


def test_the_committed_page_is_that_of_the_committed_results():
    page, runs = PAGE.read_text(), load(PAGE.parent)
    assert report.fill(page, runs) == page
    assert set(re.findall(r"<!-- table: (\w+)", page)) == set(report.BLOCKS)
    linked = re.findall(r"\(figures/(\w+)\.png\)", page)
    assert set(linked) <= set(figures.DRAWINGS)
    drawn = {path.stem for path in PAGE.parent.glob("figures/*.png")}
    assert set(linked) == drawn


def test_the_findings_have_the_numbers_of_the_tables():
    """Cross-entropies in nats and errors in percent, as the tables show."""
    page = PAGE.read_text()
    tables = "".join(re.findall(r"<!-- table:.*?<!-- end -->", page, re.DOTALL))
    known = set(re.findall(r"\d+\.\d+", tables))
    findings = page.split("## Findings")[1].split("\n## ")[0]
    numbers = re.findall(r"\d\.\d{3}\b|\d+\.\d\d(?=%)", findings)
    assert len(numbers) > 40
    assert [number for number in numbers if number not in known] == []


@pytest.mark.parametrize(
    ("folder", "scheme", "title", "measure"),
    [
        ("mnist", "lab", "LAB", "error"),
        ("mnist", "xnor", "XNOR", "error"),
        ("war_and_peace", "bwn", "BWN", "loss"),
        ("linux_kernel-cells128", "binary_connect", "BinaryConnect", "loss"),
    ],
)
def test_cells_have_the_numbers_of_their_files(folder, scheme, title, measure):
    """Independently of the code that makes the page."""
    values, epochs = [], set()
    contents = [
        json.loads(path.read_text())
        for path in (PAGE.parent / folder).glob(f"{scheme}-*.json")
    ]
    longest = max(content["epochs_done"] for content in contents)
    for content in contents:
        if content["epochs_done"] < longest:
            continue
        history = content["history"]
        validation = history[f"validation_{measure}"]
        best = max(i for i, v in enumerate(validation) if v == min(validation))
        values.append(history[f"test_{measure}"][best])
        epochs.add(content["epochs_done"])
    mean = sum(values) / len(values)
    number = f"{mean:.2f}" if measure == "error" else f"{mean:.3f}"
    spread = r" ± [\d.]+" if len(values) > 1 else ""
    runs = f"{len(values)} run{'s' * (len(values) > 1)}"
    cell = rf"\*\*{number}\*\*{spread}; {runs}, {epochs.pop()} epochs"
    assert re.search(rf"\| {title} \|.*{cell}", PAGE.read_text()), number


@pytest.mark.parametrize(
    ("load_text", "name"),
    [
        (datasets.war_and_peace, "war_and_peace"),
        (datasets.linux_kernel, "linux_kernel"),
    ],
)
def test_baselines_are_those_of_the_texts(load_text, name):
    """Independently of `write_baselines`: with dictionaries."""
    try:
        text = load_text(os.environ.get("KERAS_LAB_DATA"))
    except datasets.DataError as error:
        pytest.skip(str(error))
    pairs = collections.Counter(
        zip(text.train.x.ravel().tolist(), text.train.y.ravel().tolist())
    )
    before, after = collections.Counter(), collections.Counter()
    for (x, y), count in pairs.items():
        before[x] += count
        after[y] += count
    total, losses = sum(after.values()), [0.0, 0.0]
    tested = collections.Counter(
        zip(text.test.x.ravel().tolist(), text.test.y.ravel().tolist())
    )
    for (x, y), count in tested.items():
        n = text.classes
        share = (pairs[x, y] + 0.1) / (before[x] + 0.1 * n)
        losses[0] -= count * math.log(after[y] / total)
        losses[1] -= count * math.log(share)
    expected = [loss / sum(tested.values()) for loss in losses]
    found = list(report.read_baselines()[name].values())
    np.testing.assert_allclose(found, expected, atol=2e-4)


def write_result(
    folder,
    name,
    scheme,
    seed,
    values,
    extra=None,
    sizes=None,
    rate=None,
    recipe=None,
):
    """A result whose epochs have the given (validation, test) numbers."""
    recipe = recipe or RECIPES[name]
    plan = Plan(name, recipe, scheme, seed, sizes or {}, None, rate)
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
            **{"log10_range": [-4, 4], "counts": [0] * 4, "rms": 1, **outside}
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
        "diverged; 1 run, 50 epochs",
        "**1.20** ± 0.07; 2 runs, 50 epochs",
    ]
    assert ours[0] == "not run"
    assert column(text, "MNIST, paper")[3] == "1.180"
    assert "1 run with fewer epochs left out" in text
    svhn = column(text, "SVHN, ours (width 32)")
    assert svhn[2] == "**4.00**; 1 run, 15 epochs"
    assert "15 of the paper's 50 epochs; not finished" in text
    assert "50,000 training images instead of 598,388" in text


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
    losses = [(3.0, 3.0)] * 20
    write_result(tmp_path, "cifar10_20", "lab", 1, losses)
    text = report.format_coverage(load(tmp_path))
    # BWN has one run at the full protocol, and one with fewer epochs.
    assert "| Table 1 | 21 | 2 | 2 | 17 | 1 |" in text
    assert report.format_first_line(load(tmp_path)) == (
        "Of the 67 cells of the paper's tables, 2 ran at the full protocol "
        "(1 seed each), 2 ran smaller or shorter (1 seed each), and 63 did "
        "not run."
    )
    table = report.format_table(load(tmp_path), TABLES["table1"])
    assert column(table, "CIFAR-10, ours")[3] == "**3.00**; 1 run, 20 epochs"
    assert "the schedule compressed in proportion; 20 of the paper's" in table


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
    assert "| mnist | LAB | 2 | 3 of 50 | 3 | 1.00 | 1.00 | 2.00 | – |" in text
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


# Comparisons, seed by seed.


def test_the_interval_is_that_of_the_paired_t_test(rng):
    a, b = rng.normal(size=(2, 5))
    mean, half = comparisons.interval((a - b).tolist())
    expected = stats.ttest_rel(a, b).confidence_interval(0.95)
    np.testing.assert_allclose([mean - half, mean + half], expected)
    assert comparisons.format_interval([-0.04]) == "−0.040"


def test_why_compares_each_scheme_at_its_own_rate(tmp_path):
    for scheme, best, final in (("bwn", 0.002, 2.0), ("lab", 0.004, 1.9)):
        for rate in RATES:
            values = np.linspace(3, final, 30) + 10 * abs(rate - best)
            pairs = [(float(x), float(x)) for x in values]
            write_result(tmp_path, WHY, scheme, 1, pairs, rate=rate)
        values = np.linspace(3, final + 0.02, 30) + 0.02 * (scheme == "lab")
        pairs = [(float(x), float(x)) for x in values]
        write_result(tmp_path, WHY, scheme, 2, pairs, rate=best)
    _, (bwn, lab) = comparisons.why(load(tmp_path))
    assert bwn[:4] == ["BWN", 0.002, 2, "**2.010** ± 0.014"]
    assert lab[:3] == ["LAB", 0.004, 2] and lab[4] == "BWN"
    low, high = stats.ttest_1samp([-0.1, -0.08], 0).confidence_interval(0.95)
    assert lab[5] == f"−0.090 [{low:+.3f}, {high:+.3f}]".replace("-", "−")
    # On a straight line from 3 to 1.9 and from 3.02 to 1.94, in 30 epochs.
    first = 1 + math.ceil(29 * (3 - 2.0) / 1.1)
    second = 1 + math.ceil(29 * (3.02 - 2.02) / 1.08)
    assert lab[6] == f"{(first + second) / 2:.1f}"
    text = report.format_comparison(load(tmp_path), "why")
    assert "(figures/why.png)" in text
    assert figures.why(load(tmp_path)) is not None


def test_leads_are_at_equal_seeds_and_epochs(tmp_path):
    sizes = {"cells": 128}
    for scheme, gain in (("bwn", 0), ("lab", 0.1)):
        for seed, epochs in ((1, 20), (2, 5)):
            losses = [(3 - i / 50 - gain * seed,) * 2 for i in range(epochs)]
            args = (tmp_path, "war_and_peace", scheme, seed, losses)
            write_result(*args, sizes=sizes)
    _, rows = comparisons.leads(load(tmp_path))
    name, text = "war_and_peace-cells128", "LAB − BWN"
    assert rows[0][:4] == [name, text, 5, 2]
    assert rows[0][4].startswith("−0.150 [")
    assert rows[1] == [name, text, 20, 1, "−0.100"]


def test_the_authors_code_stands_beside_ours_at_equal_epochs(tmp_path):
    losses = [(2.0, 2.5), (1.0, 1.5)]
    write_result(tmp_path, "mnist", "lab", 1, losses)
    recipe = RECIPES["mnist"].following("code")
    path = write_result(tmp_path, "mnist", "lab", 1, losses[:1], recipe=recipe)
    assert path.parent.name == "mnist-code"
    _, rows = comparisons.code(load(tmp_path))
    assert rows == [["mnist", "LAB", 1, 1, "2.500", "2.500"]]


def test_mcnemar_counts_the_images_that_only_one_network_has_wrong(tmp_path):
    right = np.ones((2, 10_000), bool)
    right[0, :12] = False
    right[1, 9:30] = False
    for scheme, hits in zip(("lab", "bwn"), right):
        bits = base64.b64encode(np.packbits(hits)).decode()
        extra = {"hits": bits}
        write_result(tmp_path, "mnist", scheme, 1, [(1.0, 1.0)], extra)
    _, (row,) = comparisons.paired_errors(load(tmp_path))
    # 9 and 18 of 27: the probability of at most 9 heads, twice.
    p = 2 * sum(math.comb(27, k) for k in range(10)) / 2**27
    titles = "LAB and BWN"
    assert row == ["mnist", 1, titles, "1.00 and 1.00", 9, 18, f"{p:.2f}"]
