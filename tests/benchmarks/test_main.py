"""`python -m benchmarks`: which parts run, and what an interrupt leaves."""

import json
import subprocess

import pytest

from benchmarks import __main__ as command
from benchmarks.parts import PARTS
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


def test_rounds_reach_the_parts_that_have_them(tmp_path):
    options = ["--rounds", "3", "--results", str(tmp_path)]
    arguments = command.parse(options)
    for part in PARTS.values():
        line = command.command(part, tmp_path / "x.json", arguments)
        assert ("--rounds" not in line) or line[
            line.index("--rounds") + 1
        ] == "3"
