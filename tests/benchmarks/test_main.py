"""`python -m benchmarks`: which parts run, and what the documents show."""

import json
import re

import filelock
import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import harness, report
from benchmarks.headline import headline
from benchmarks.parts import peers_files, peers_train_step
from benchmarks.tables import find


@pytest.fixture
def programs(monkeypatch, tmp_path):
    """Parts that write the published result at once."""
    published = report.load(harness.RESULTS)

    def run(name, output, quick):
        programs.started.append(name)
        if name in programs.fails:
            return False
        content = {**published[name], "run": len(programs.started)}
        output.write_text(json.dumps(content))
        return True

    def programs(*options):
        return command.main([*options, "--results", str(tmp_path)])

    monkeypatch.setattr(command, "run_in_process", run)
    programs.started, programs.fails = [], set()
    return programs


def test_all_parts_run_once(programs, tmp_path):
    for _ in range(2):
        assert programs() == 0
        assert programs.started == command.DEFAULT
    assert set(command.ALL) - set(command.DEFAULT) == {
        "backend_step",
        "runtime_support",
    }


def test_the_other_parts_run_if_one_fails(programs, tmp_path):
    programs.fails.add("resnet8")
    assert programs("resnet8", "open_batch") == 1
    assert [path.stem for path in tmp_path.glob("*.json")] == ["open_batch"]
    assert "packed, open" in (tmp_path / "tables.md").read_text()


def test_a_part_that_runs_again_replaces_its_file_only_if_it_succeeds(
    programs, tmp_path
):
    path = tmp_path / "resnet8.json"
    programs("resnet8")
    programs.fails.add("resnet8")
    assert programs("resnet8", "--again") == 1
    assert json.loads(path.read_text())["run"] == 1
    programs.fails.clear()
    assert programs("resnet8", "--again") == 0
    assert json.loads(path.read_text())["run"] == 3


def test_two_benchmarks_do_not_run_in_one_folder(programs, tmp_path, capsys):
    with filelock.FileLock(tmp_path / ".benchmarks.lock"):
        assert programs("resnet8") == 1
    assert ".benchmarks.lock" in capsys.readouterr().err
    assert not programs.started


def test_a_damaged_file_is_named_and_stays(programs, tmp_path, capsys):
    path = tmp_path / "resnet8.json"
    path.write_text("<<<<<<< HEAD")
    assert programs("open_batch") == 1
    assert "resnet8.json is damaged" in capsys.readouterr().err
    assert path.read_text() == "<<<<<<< HEAD"


@pytest.mark.parametrize("options", [["--quick"], ["latency"]])
def test_a_wrong_command_line_is_an_error(options):
    with pytest.raises(SystemExit, match="2"):
        command.main(options)


@pytest.fixture(scope="module")
def results():
    return report.load(harness.RESULTS)


@pytest.fixture(scope="module")
def tables(results):
    return report.make_tables(results)


@pytest.mark.parametrize("path", report.documents(), ids=lambda path: path.name)
def test_the_committed_tables_are_made_of_the_committed_files(path, tables):
    text = path.read_text()
    assert text == report.insert(text, tables)


def test_the_documents_have_every_table(tables):
    text = "".join(path.read_text() for path in report.documents())
    names = re.findall(r"<!-- benchmarks: (\w+) -->", text)
    assert set(names) == {*tables, "end"}


def numbers(text, line):
    """The first number of each cell of a table's line."""
    (found,) = [n for n in text.split("\n") if n.startswith(f"| {line} |")]
    texts = (re.search(r"[\d.]+", cell) for cell in found.split("|")[2:-1])
    return [float(text[0]) for text in texts if text]


def test_a_table_of_ratios_shows_the_medians_of_the_raw_times(results):
    part, key = "peers_train_step", {"network": "mlp", "jit_compile": False}
    rows = results[part]["rows"]
    lab, keras = (find(rows, method=m, **key) for m in ("lab", "keras"))
    ratio = np.median(np.divide(lab["seconds"], keras["seconds"]))
    shown = numbers(peers_train_step.table(results[part]), "**LAB**")[1]
    assert shown == pytest.approx(ratio, abs=0.0051)


def test_files_and_the_headline_show_the_raw_numbers(results):
    rows = results["peers_files"]["rows"]
    row = find(rows, network="svhn", format="packed")
    limit = row["binary_weights"] / 8 + 4 * row["float_parameters"]
    expected = [row["file_bytes"] / 1e6, row["file_bytes"] / limit]
    expected += [1000 * np.median(row["seconds"][n]) for n in "12"]
    text = peers_files.table(results["peers_files"])
    text = text.partition("SVHN network:")[2].partition("LSTM:")[0]
    shown = numbers(text, "**packed**")
    assert shown[:2] + shown[-2:] == pytest.approx(expected, abs=0.0051)
    line = "inference, SVHN network (ours: `fast`)"
    shown = numbers(text, "**fast**")
    assert numbers(headline(results), line)[0] == shown[-2]


def test_a_reason_stands_in_the_table_once():
    row = {"network": "lstm", "format": "int2", "cannot": "outputs are wrong"}
    *_, text = peers_files.table({"rows": [row]}).split("LSTM:")
    assert "| ai-edge-quantizer int2 | outputs are wrong | – |" in text
    assert "| **packed** | not run | – |" in text
