"""The page of results: committed, and from results that never ran."""

import base64
import json
import math
import re

import matplotlib.image
import numpy as np
import pytest

from examples.environment import write_json
from examples.paper import comparisons, figures, report, tables
from examples.paper import data as datasets
from examples.paper.recipes import RATES, RECIPES, WHY, Plan
from examples.paper.results import load, select
from examples.paper.tables import TABLES

PAGE = report.ROOT / "results" / "paper" / "README.md"


def test_the_committed_page_is_that_of_the_committed_results():
    page, runs = PAGE.read_text(), load(PAGE.parent)
    assert report.make_page(page, runs) == page
    names = set(re.findall(r"<!-- table: (\w+)", page))
    assert names == {*report.TABLES, "end"}
    linked = re.findall(r"\(figures/(\w+)\.png\)", page)
    assert set(linked) <= set(figures.DRAWINGS)
    drawn = {path.stem for path in PAGE.parent.glob("figures/*.png")}
    assert set(linked) == drawn


def test_the_findings_have_the_numbers_of_the_tables():
    """Cross-entropies in nats and errors in percent, as the tables show."""
    page = PAGE.read_text()
    tables = re.findall(r"^\|.*", page, re.MULTILINE)
    known = set(re.findall(r"\d+\.\d+", "".join(tables)))
    findings = page.split("## Findings")[1].split("\n## ")[0]
    numbers = re.findall(r"\d\.\d{3}\b|\d+\.\d\d(?=%)", findings)
    assert len(numbers) > 40
    assert [number for number in numbers if number not in known] == []


@pytest.mark.parametrize(
    ("folder", "scheme", "title", "measure", "decimals"),
    [
        ("mnist", "lab", "LAB", "error", 2),
        ("mnist", "xnor", "XNOR", "error", 2),
        ("war_and_peace", "bwn", "BWN", "loss", 3),
        ("linux_kernel-cells128", "binary_connect", "BinaryConnect", "loss", 3),
    ],
)
def test_cells_have_the_numbers_of_their_files(
    folder, scheme, title, measure, decimals
):
    """Independently of the code that makes the page."""
    paths = (PAGE.parent / folder).glob(f"{scheme}-*.json")
    contents = [json.loads(path.read_text()) for path in paths]
    longest = max(content["epochs_done"] for content in contents)
    values = []
    for content in contents:
        if content["epochs_done"] == longest:
            validation = content["history"][f"validation_{measure}"]
            best = np.flatnonzero(np.equal(validation, min(validation)))[-1]
            values.append(content["history"][f"test_{measure}"][best])
    spread = r" ± [\d.]+" if len(values) > 1 else ""
    runs = f"{len(values)} run{'s' * (len(values) > 1)}"
    number = f"{sum(values) / len(values):.{decimals}f}"
    cell = rf"\*\*{number}{spread}\*\*; {runs}, {longest} of \d+ epochs"
    assert re.search(rf"\| {title} \|.*{cell}", PAGE.read_text()), number


def test_baselines_count_bytes_and_pairs_in_the_training_part(tmp_path):
    (tmp_path / "text").write_bytes(b"ab" * 21)
    text = datasets.text_file(tmp_path / "text", 4, 1)
    # "abababab…": 16 targets of each byte, and as many pairs.
    likely = 16.1 / 16.2
    assert report.baseline_losses(text) == {
        "byte frequencies": pytest.approx(math.log(2)),
        "bigrams": pytest.approx(-math.log(likely)),
    }


def write_result(folder, name, scheme, seed, values, extra=None, **options):
    """A result whose epochs have the given (validation, test) numbers."""
    recipe = RECIPES[name].following(options.pop("follow", "paper"))
    plan = Plan(recipe, scheme, seed, **options)
    measure, count = recipe.task.measure, len(values)
    history = {
        f"train_{measure}": [1.0] * count,
        f"validation_{measure}": [validation for validation, _ in values],
        f"test_{measure}": [test for _, test in values],
    }
    gradient = {"log10_range": [-4, 4], "counts": [0] * 4, "rms": 1}
    content = {
        **plan.configuration(),
        "epochs_planned": recipe.epochs,
        "epochs_done": count,
        "data": {"train": 50_000, "validation": 10_000, "test": 10_000},
        "history": history,
        "selected": select(history, measure),
        "recurrent_gradient": gradient
        | {"below": 0, "above": 1, "not_finite": 0},
        **(extra or {}),
    }
    write_json(plan.path(folder), content)
    return plan.path(folder)


def column(text, title):
    """A column of a table in Markdown."""
    rows = [line.split(" | ") for line in text.splitlines() if "|" in line]
    index = [head.strip("| ") for head in rows[0]].index(title)
    return [row[index].strip("| ") for row in rows[2:]]


def test_a_cell_is_the_mean_over_seeds_at_the_best_epochs(tmp_path):
    finished = [(2.0, 2.5)] * 49
    write_result(tmp_path, "mnist", "lab", 1, [(1.1, 1.25), *finished])
    write_result(tmp_path, "mnist", "lab", 2, [*finished, (1.2, 1.15)])
    write_result(tmp_path, "mnist", "lab", 3, [(0.1, 0.1)] * 3)
    write_result(tmp_path, "mnist", "bwn", 1, [(None, None)] * 50)
    losses = [(5.0, 4.0)] * 15
    write_result(tmp_path, "svhn", "bwn", 1, losses, sizes={"width": 32})
    text = report.format_table("table1", load(tmp_path))
    ours = column(text, "MNIST, ours")
    assert ours[2:4] == [
        "diverged; 1 run, 50 of 50 epochs",
        "**1.20 ± 0.07**; 2 runs, 50 of 50 epochs",
    ]
    assert ours[0] == "not run"
    assert column(text, "MNIST, paper")[3] == "1.180"
    svhn = column(text, "SVHN, ours (width 32)")
    assert svhn[2] == "**4.00**; 1 run, 15 of 50 epochs"


def test_columns_that_are_compared_show_equal_epochs(tmp_path):
    losses = [(3.0 - i / 10, 3.0 - i / 10) for i in range(20)]
    for steps, count in ((10, 5), (50, 5), (100, 20)):
        write_result(
            tmp_path,
            "war_and_peace",
            "lab",
            1,
            losses[:count],
            {"epochs_planned": 5} if count == 5 else {},
            sizes={"cells": 128, "steps": steps},
        )
    runs = load(tmp_path)
    cells = [c[-1]["lab"] for c in tables.shown(runs, TABLES["table4"])]
    assert [cell and cell.epochs for cell in cells] == [5, 5, 5, None]
    assert cells[2].values == pytest.approx([2.6])
    # Table 3 does not compare columns: it shows all epochs.
    cell = tables.shown(runs, TABLES["table3"])[0][-1]["lab"]
    assert (cell.epochs, *cell.values) == (20, pytest.approx(1.1))


def test_coverage_counts_full_and_reduced_cells(tmp_path):
    # BWN has one run at the full protocol, and one with fewer epochs.
    for scheme, seed, count in (
        ("lab", 1, 50),
        ("bwn", 1, 49),
        ("bwn", 2, 50),
        ("bnn", 1, 49),
    ):
        write_result(tmp_path, "mnist", scheme, seed, [(1.0, 1.0)] * count)
    write_result(tmp_path, "cifar10_20", "lab", 1, [(3.0, 3.0)] * 20)
    runs = load(tmp_path)
    text = report.format_table("coverage", runs)
    assert "| Table 1 | 21 | 2 | 2 | 17 | 1 |" in text


def test_the_command_fills_the_page_and_draws_figures(tmp_path, capsys):
    losses = [(2.0, 2.0), (1.5, 1.5)]
    for scheme in ("lab", "full_precision"):
        for steps in (10, 100):
            sizes = {"cells": 128, "steps": steps}
            write_result(
                tmp_path, "war_and_peace", scheme, 1, losses, sizes=sizes
            )
    for seed in (1, 2):
        write_result(tmp_path, "mnist", "lab", seed, [(1.0, seed)] * 3)
    page = tmp_path / "README.md"
    page.write_text(
        "# Mine\n<!-- table: runs -->\nold\n<!-- table: end -->\nText.\n"
    )
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
    "text",
    ["<!-- table: table9 -->\n<!-- table: end -->", "<!-- table: table1 -->\n"],
)
def test_a_wrong_marker_is_an_error(text):
    with pytest.raises(ValueError, match="Received: "):
        report.make_page(text, [])


@pytest.mark.parametrize("change", [{"batch": 5}, {"seed": 2}])
def test_a_file_that_is_not_a_result_is_named(tmp_path, change, capsys):
    write_result(tmp_path, "mnist", "lab", 1, [(1.0, 1.0)] * 2, change)
    assert report.main(["--results-dir", str(tmp_path)]) == 1
    assert "lab-1.json is not a result" in capsys.readouterr().err


# Comparisons, seed by seed.


def why_result(folder, scheme, seed, rate, start, final, worse=0):
    """A straight line in 30 epochs, and what only these runs have."""
    values = np.linspace(start, final, 30) + worse
    pairs = np.stack([values, values], axis=1).tolist()
    rows = {"count": [1, 3, 0, 4], "weight": [0.5] * 4, "curvature": [1, 2] * 2}
    path = write_result(
        folder, WHY, scheme, seed, pairs, {"rows": rows}, rate=rate
    )
    content = json.loads(path.read_text())
    for kind in ("", "recurrent_"):
        for gate in "ifco":
            content["history"][f"lstm/{kind}ratio_{gate}"] = [1.0, 2.0]
    write_json(path, content)


def test_why_compares_each_scheme_at_its_own_rate(tmp_path):
    for scheme, best, final in (("bwn", 0.002, 2.0), ("lab", 0.004, 1.9)):
        for rate in RATES:
            worse = 10 * abs(rate - best)
            why_result(tmp_path, scheme, 1, rate, 3, final, worse)
        worse = 0.02 * (scheme == "lab")
        why_result(tmp_path, scheme, 2, best, 3, final + 0.02, worse)
    runs = load(tmp_path)
    bwn, lab = (list(row.values()) for row in comparisons.why(runs))
    assert bwn[:4] == ["BWN", 0.002, 2, "2.010 ± 0.014"]
    assert lab[:3] == ["LAB", 0.004, 2] and lab[4] == "BWN"
    # The interval of the paired t test, with one degree of freedom.
    half = 12.706 * np.std([0.1, 0.08], ddof=1) / math.sqrt(2)
    assert lab[5] == f"−0.090 [−{0.09 + half:.3f}, +{half - 0.09:.3f}]"
    # On a straight line from 3 to 1.9 and from 3.02 to 1.94, in 30 epochs.
    first = 1 + math.ceil(29 * (3 - 2.0) / 1.1)
    second = 1 + math.ceil(29 * (3.02 - 2.02) / 1.08)
    assert lab[6] == f"{(first + second) / 2:.1f}"
    assert figures.why(runs) is not None
    kernel, _ = comparisons.ratios(runs)
    assert list(kernel.values()) == ["LAB", "input kernel", *["1.500"] * 4]
    # The most frequent byte is first; the rarest has half of its curvature.
    frequent, *_, rare = (
        list(row.values()) for row in comparisons.byte_rows(runs)
    )
    assert frequent == ["1 to 1", "50.00", "0.500", "0.500", "1.333"]
    assert rare == ["4 to 4", "0.00", "0.500", "0.500", "0.667"]


def test_leads_are_at_equal_seeds_and_epochs(tmp_path):
    sizes = {"cells": 128}
    for scheme, gain in (("bwn", 0), ("lab", 0.1)):
        for seed, epochs in ((1, 20), (2, 5)):
            losses = [(3 - i / 50 - gain * seed,) * 2 for i in range(epochs)]
            args = (tmp_path, "war_and_peace", scheme, seed, losses)
            write_result(*args, sizes=sizes)
    rows = [list(row.values()) for row in comparisons.leads(load(tmp_path))]
    name, text = "war_and_peace-cells128", "LAB − BWN"
    assert rows[0][:4] == [name, text, 5, 2]
    assert rows[0][4].startswith("−0.150 [")
    assert rows[1] == [name, text, 20, 1, "−0.100"]


def test_the_authors_code_stands_beside_ours_at_equal_epochs(tmp_path):
    losses = [(2.0, 2.5), (1.0, 1.5)]
    write_result(tmp_path, "mnist", "lab", 1, losses)
    path = write_result(tmp_path, "mnist", "lab", 1, losses[:1], follow="code")
    assert path.parent.name == "mnist-code"
    (row,) = comparisons.code(load(tmp_path))
    assert list(row.values()) == ["mnist", "LAB", 1, 1, "2.500", "2.500"]


def test_mcnemar_counts_the_images_that_only_one_network_has_wrong(tmp_path):
    right = np.ones((2, 10_000), bool)
    right[0, :12] = False
    right[1, 9:30] = False
    for scheme, hits in zip(("lab", "bwn"), right):
        extra = {"hits": base64.b64encode(np.packbits(hits)).decode()}
        write_result(tmp_path, "mnist", scheme, 1, [(1.0, 1.0)], extra)
    (row,) = comparisons.paired_errors(load(tmp_path))
    # 9 and 18 of 27: the probability of at most 9 heads, twice.
    p = 2 * sum(math.comb(27, k) for k in range(10)) / 2**27
    expected = ["LAB and BWN", "1.00 and 1.00", 9, 18, f"{p:.2f}"]
    assert list(row.values()) == ["mnist", 1, *expected]
