"""The page shows the numbers of the files, and nothing else.

One number of each table is computed here from the raw rows, by NumPy, without
the code of the report; for made-up results, and for those that are published.
"""

import ast
import copy
import json
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks import (
    claims,
    harness,
    headline,
    parts,
    peer_tables,
    report,
    tables,
)
from benchmarks.parts import PARTS
from tests.benchmarks import sample


def published():
    """The files as they are, read without the code of the benchmarks."""
    return {
        path.stem: json.loads(path.read_text())
        for path in harness.RESULTS.glob("*.json")
        if not path.name.endswith(".again.json")
    }


@pytest.fixture(params=["made up", "published"])
def results(request):
    return sample.results() if request.param == "made up" else published()


def section(page, title):
    """The lines below a heading, up to the next of its kind."""
    lines = page.split("\n")
    start = lines.index(title)
    level = title.split()[0]
    end = next(
        (
            number
            for number in range(start + 1, len(lines))
            if lines[number].startswith("#")
            and len(lines[number].split()[0]) <= len(level)
        ),
        len(lines),
    )
    return lines[start + 1 : end]


def cell(lines, first, column):
    """The cell of the line that begins with these cells."""
    tables = [
        [text.strip() for text in line.strip("|").split("|")]
        for line in (line.replace("\\|", "¦") for line in lines)
        if line.startswith("|")
    ]
    heads = next(line for line in tables if column in line)
    (found,) = [line for line in tables if line[: len(first)] == list(first)]
    return found[heads.index(column)]


def rows_of(results, part, **key):
    """The raw rows with some values; none is a reason to skip."""
    if part not in results:
        pytest.skip(f"{part}: not run")
    rows = results[part]["rows"]
    return [row for row in rows if key.items() <= row.items()]


def lines_of(results, part):
    return section(report.build_page(results), f"## {PARTS[part].title}")


def test_training_step_against_peers(results):
    cells = {"network": "mlp", "jit_compile": False}
    (lab,) = rows_of(results, "peers_train_step", method="lab", **cells)
    (plain,) = rows_of(results, "peers_train_step", method="keras", **cells)
    ratio = np.median(np.divide(lab["seconds"], plain["seconds"]))
    lines = lines_of(results, "peers_train_step")
    shown = cell(lines, ["**LAB**"], "mlp, no XLA")
    assert shown.startswith(f"{ratio:.2f} (")


def test_accuracy(results):
    rows = rows_of(results, "peers_accuracy", method="lab")
    errors = [row["test_error"] for row in rows]
    lines = lines_of(results, "peers_accuracy")
    if len(errors) > 1:
        deviation = np.std(errors, ddof=1)
        expected = f"{np.mean(errors):.2f} ± {deviation:.2f}%"
        assert cell(lines, ["**LAB**"], "test error") == expected


def test_size_and_latency_of_a_file(results):
    (row,) = rows_of(results, "peers_files", network="mnist", format="packed")
    page = report.build_page(results)
    lines = section(page, "### MNIST, 784-2048-2048-2048-10")
    limit = row["binary_weights"] / 8 + 4 * row["float_parameters"]
    first = ["**packed**"]
    assert cell(lines, first, "file") == f"{row['file_bytes'] / 1e6:.2f} MB"
    over = f"{row['file_bytes'] / limit:.2f}"
    assert cell(lines, first, "of the limit") == over
    milliseconds = 1000 * np.median(row["seconds"]["1"])
    shown = cell(lines, first, "1 thread, ms")
    assert shown.startswith(f"{milliseconds:.2f} (")


def test_growth(results):
    weights = 10**7
    (row,) = rows_of(results, "growth", task="lab", weights=weights)
    lines = lines_of(results, "growth")
    shown = cell(lines, [f"{weights:,}"], "step of LAB, s")
    assert shown.startswith(f"{np.median(row['seconds']):.3f} (")


def test_own_training_step(results):
    row = rows_of(
        results, "train_step", network="mlp", jit_compile=False, scheme="lab"
    )[-1]
    ratios = np.divide(row["seconds"]["lab"], row["seconds"]["keras"])
    shown = cell(
        lines_of(results, "train_step"),
        ["mlp", "False", row["allocator"], "lab"],
        "step / Keras float",
    )
    assert shown == f"{np.median(ratios):.2f}"


def test_recurrent_step(results):
    key = {"what": "train", "jit_compile": False}
    (lab,) = rows_of(results, "recurrent_step", layer="lab", **key)
    (plain,) = rows_of(results, "recurrent_step", layer="keras", **key)
    ratio = np.median(np.divide(lab["seconds"], plain["seconds"]))
    shown = cell(
        lines_of(results, "recurrent_step"),
        ["train", "lab", "False"],
        "time / keras.layers.LSTM",
    )
    assert shown == f"{ratio:.2f}"


def test_inference(results):
    (row,) = rows_of(
        results, "inference", network="mlp", format="fast", threads=1
    )
    shown = cell(lines_of(results, "inference"), ["mlp", "fast"], "1 thread")
    assert shown == f"{np.median(row['ratios']):.2f}"


def test_monitor(results):
    if "monitor" not in results:
        pytest.skip("monitor: not run")
    content = results["monitor"]
    train = np.array(content["seconds"]["train"])
    steps = content["configuration"]["steps_a_round"]
    share = np.median(np.divide(content["seconds"]["measure"], train))
    share *= steps / content["configuration"]["steps_an_epoch"]
    text = f"A measurement takes {share:.2%} of an epoch"
    assert text in "\n".join(lines_of(results, "monitor"))


def test_the_headline_shows_the_size_of_the_file(results):
    (row,) = rows_of(results, "peers_files", network="mnist", format="packed")
    table = headline.table(results).split("\n")
    shown = cell(table, ["file (`packed`), MNIST network"], "keras_lab")
    assert shown == f"{row['file_bytes'] / 1e6:.2f} MB"


@pytest.mark.parametrize("name", PARTS)
def test_a_part_that_did_not_run_says_so(name):
    results = sample.results()
    del results[name]
    assert "Not run." in lines_of(results, name)
    for part, claim, _ in claims.CLAIMS:
        if part == name:
            assert f"| {claim} | not run |  |" in claims.table(results)
    headline.table(results)


def test_nothing_ran_at_all():
    page = report.build_page({})
    assert page.count("Not run.") == len(PARTS)
    assert headline.table({}) == "Nothing of it has run yet."


def test_a_cell_that_did_not_run_says_so():
    results = sample.results()
    rows = results["peers_accuracy"]["rows"]
    results["peers_accuracy"] |= {
        "rows": [row for row in rows if row["method"] != "clusters"],
        "finished": False,
    }
    lines = lines_of(results, "peers_accuracy")
    assert cell(lines, ["tfmot, 2 clusters"], "test error") == "not run"
    assert "Not finished: what is missing says so." in lines


def test_a_refusal_stands_in_the_table():
    results = sample.results()
    for row in results["peers_files"]["rows"]:
        if row["network"] == "lstm" and row["format"] == "compute_engine":
            row |= {"cannot": "no recurrent layer"}
    lines = section(
        report.build_page(results), "### LSTM, 512 cells, 100 steps"
    )
    assert cell(lines, ["larq-compute-engine"], "file") == "no recurrent layer"


def verdict(results, words):
    """Whether the page says that a claim holds."""
    (line,) = [
        line for line in claims.table(results).split("\n") if words in line
    ]
    return {"yes": True, "**no**": False}[line.split(" | ")[1]]


def test_claims_follow_the_numbers():
    results = sample.results()
    better, worse = copy.deepcopy(results), copy.deepcopy(results)
    for changed, size, error in ((better, 1, 0.1), (worse, 10**9, 50)):
        for row in changed["peers_files"]["rows"]:
            if row["format"] == "packed":
                row["file_bytes"] = size
        for row in changed["peers_accuracy"]["rows"]:
            if row["method"] == "lab":
                row["test_error"] = error
    for words in ("smaller than every peer", "at most 12%", "LAB errs"):
        assert verdict(better, words)
        assert not verdict(worse, words)


def test_the_page_names_machine_versions_and_dates():
    content = sample.results()["growth"]
    content["rows"][0]["date"] = "2026-01-01"
    content["rows"][1]["date"] = "2026-01-05"
    content["versions"] = {"larq": {"larq": "0.14.0", "numpy": "1.26.4"}}
    text = report.describe_machine(content)
    assert "2 cores, Linux x86_64, 2026-01-01 to 2026-01-05" in text
    assert "keras 3.15.1" in text
    assert "larq 0.14.0" in text


def test_the_published_page_is_made_of_the_published_files():
    results = report.load_all(harness.RESULTS)
    page = harness.RESULTS / "README.md"
    assert page.read_text() == report.build_page(results)
    for path, names in zip(report.DOCUMENTS, PUBLISHED_TABLES):
        text = path.read_text()
        assert re.findall(r"<!-- benchmarks: (\w+) -->", text)[::2] == names
        assert text == report.insert_blocks(text, results)


# In the README, and in that of the exporter.
PUBLISHED_TABLES = (
    ["headline", "train_step", "recurrent_step", "monitor"],
    ["inference"],
)


@pytest.mark.parametrize("module", [tables, peer_tables])
def test_what_others_use_of_the_tables_is_public(module):
    name, used = module.__name__.split(".")[1], set()
    for path in Path(module.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == (
                module.__name__
            ):
                used |= {alias.name for alias in node.names}
            if isinstance(node, ast.Attribute) and (
                isinstance(node.value, ast.Name) and node.value.id == name
            ):
                used.add(node.attr)
    assert used <= set(module.__all__)


def test_every_part_has_a_place_on_the_page():
    assert set(report.BODIES) == set(PARTS)
    assert {part.name for part in parts.PARTS.values()} == set(PARTS)


def test_the_figure_is_drawn_from_the_rows(tmp_path):
    content = sample.results()["growth"]
    harness.write_json(tmp_path / "growth.json", content)
    written = report.write(tmp_path)
    assert written == [tmp_path / "README.md", tmp_path / "growth.png"]
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
