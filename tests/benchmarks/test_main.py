"""`python -m benchmarks`: which parts run, and what an interrupt leaves."""

import importlib
import json
import subprocess
import sys

import pytest

from benchmarks import __main__ as command
from benchmarks import growth, harness, inference, recurrent_step, train_step
from benchmarks.parts import PARTS
from benchmarks.peers import accuracy
from benchmarks.peers import train_step as peers_train_step
from tests.benchmarks import sample

NAMES = ["monitor", "growth", "train_step"]


@pytest.fixture
def programs(monkeypatch):
    """Programs that write a made-up result at once; and what was started."""
    started, contents = [], sample.results()

    def run(line):
        (name,) = [n for n, p in PARTS.items() if p.module == line[2]]
        started.append(name)
        if programs.interrupt == name:
            raise KeyboardInterrupt
        if programs.fail == name:
            return subprocess.CompletedProcess(line, 1)
        output = line[line.index("--output") + 1]
        with open(output, "w") as file:
            json.dump({**contents[name], "run": len(started)}, file)
        return subprocess.CompletedProcess(line, 0)

    def programs(folder, *options):
        return command.main([*options, "--results", str(folder)])

    monkeypatch.setattr(command.subprocess, "run", run)
    programs.started, programs.interrupt, programs.fail = started, None, None
    return programs


def run_number(folder, name):
    return json.loads((folder / f"{name}.json").read_text())["run"]


def test_all_parts_run_once(programs, tmp_path):
    assert programs(tmp_path) == 0
    assert programs.started == list(PARTS)
    assert programs(tmp_path) == 0
    assert programs.started == list(PARTS)
    assert "Not run." not in (tmp_path / "README.md").read_text()


def test_a_finished_part_runs_again_when_asked(programs, tmp_path):
    programs(tmp_path, "growth")
    programs(tmp_path, "growth", "--again")
    assert programs.started == ["growth", "growth"]
    assert run_number(tmp_path, "growth") == 2
    assert not list(tmp_path.glob("*.again.json"))


def test_an_unfinished_part_is_continued(programs, tmp_path):
    content = {**sample.results()["growth"], "finished": False}
    (tmp_path / "growth.json").write_text(json.dumps(content))
    programs(tmp_path, "growth")
    assert programs.started == ["growth"]


def test_an_interrupt_leaves_the_finished_parts_and_their_page(
    programs, tmp_path
):
    programs.interrupt = NAMES[1]
    assert programs(tmp_path, *NAMES) == 130
    assert programs.started == NAMES[:2]
    assert [p.stem for p in tmp_path.glob("*.json")] == NAMES[:1]
    page = (tmp_path / "README.md").read_text()
    assert "A measurement takes" in page

    programs.interrupt = None
    assert programs(tmp_path, *NAMES) == 0
    assert programs.started == NAMES[:2] + NAMES[1:]


def test_a_rerun_that_fails_keeps_the_old_numbers(programs, tmp_path):
    programs(tmp_path, "growth")
    programs.fail = "growth"
    assert programs(tmp_path, "growth", "monitor", "--again") == 1
    assert run_number(tmp_path, "growth") == 1
    assert programs.started == ["growth", "growth", "monitor"]


def test_quick_numbers_never_replace_the_published_ones(capsys):
    with pytest.raises(SystemExit):
        command.main(["--quick"])
    assert "--results" in capsys.readouterr().err


def test_an_unknown_part_is_an_error_that_names_the_parts(capsys):
    with pytest.raises(SystemExit):
        command.main(["latency"])
    assert "peers_files" in capsys.readouterr().err


@pytest.mark.parametrize("quick", [["--quick"], []])
def test_rounds_reach_the_parts_that_have_them(tmp_path, quick):
    options = ["--rounds", "3", "--results", str(tmp_path), *quick]
    arguments = command.parse(options)
    with_rounds = set()
    for part in PARTS.values():
        line = command.command(part, tmp_path / "x.json", arguments)
        if "--rounds" in line:
            with_rounds.add(part.name)
            # The last one counts.
            assert line[len(line) - line[::-1].index("--rounds")] == "3"
    assert with_rounds == {
        *("peers_train_step", "growth", "train_step"),
        *("recurrent_step", "monitor"),
    }


@pytest.mark.parametrize(
    ("parse", "options"),
    [
        (command.parse, "--rounds 0"),
        (command.parse, "--rounds 1"),
        (growth.parse, "--rounds 0"),
        (growth.parse, "--exports 0"),
        (growth.parse, "--most 10"),
        (peers_train_step.parse, "--width 0"),
        (peers_train_step.parse, "--rounds 0"),
        (peers_train_step.parse, "--steps 0"),
        (accuracy.parse, "--width 0"),
        (accuracy.parse, "--images 0"),
        (accuracy.parse, "--epochs 0"),
        (train_step.parse, "--rounds 0"),
        (recurrent_step.parse, "--cells 0"),
    ],
)
def test_a_number_that_is_too_small_is_an_error(parse, options, capsys):
    with pytest.raises(SystemExit):
        parse(options.split())
    error = capsys.readouterr().err
    assert f"{options.split()[0]}: must be at least" in error


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("peers_train_step", peers_train_step),
        ("train_step", train_step),
        ("recurrent_step", recurrent_step),
    ],
)
def test_the_default_is_what_was_published(name, program):
    path = PARTS[name].path(harness.RESULTS)
    published = json.loads(path.read_text())["configuration"]["rounds"]
    assert program.parse([]).rounds == published
    assert not PARTS[name].options


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_parts_that_keep_their_rows_have_a_journal(part):
    module = importlib.import_module(part.module)
    assert hasattr(module, "Journal") == part.keeps_rows


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            ["growth", "monitor"],
            "The same command does the rest; growth goes on from its last row.",
        ),
        (
            ["monitor", "growth", "train_step", "--again"],
            "The same command for growth train_step does the rest; growth",
        ),
    ],
)
def test_an_interrupt_says_what_the_same_command_does(
    programs, tmp_path, capsys, options, expected
):
    programs.interrupt = "growth"
    assert programs(tmp_path, *options) == 130
    assert expected in capsys.readouterr().out
    programs.interrupt = "monitor"
    assert programs(tmp_path, "monitor", "--again") == 130
    assert "monitor begins anew." in capsys.readouterr().out


def test_an_interrupt_of_a_part_is_no_traceback(capsys):
    def program():
        raise KeyboardInterrupt

    assert harness.report_errors(program) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("options", [[], ["--report"]])
def test_a_damaged_file_is_an_error_before_all_else(
    programs, tmp_path, capsys, options
):
    (tmp_path / "inference.json").write_text("{")
    assert programs(tmp_path, *options) == 1
    assert "inference.json" in capsys.readouterr().err
    assert not programs.started


def test_results_that_are_a_file_are_an_error_before_all_else(
    programs, tmp_path, capsys
):
    folder = tmp_path / "results"
    folder.write_text("")
    assert programs(folder) == 1
    assert f"{folder} is a file" in capsys.readouterr().err
    assert not programs.started


@pytest.mark.parametrize("program", [train_step, recurrent_step, inference])
def test_an_output_that_cannot_be_written_is_an_error_before_all_else(
    program, tmp_path, capsys
):
    assert program.main(["--output", str(tmp_path)]) == 1
    assert "is a folder" in capsys.readouterr().err


def test_help_does_not_import_tensorflow():
    code = (
        "import sys, benchmarks.__main__;"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    root = harness.RESULTS.parents[1]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)
