"""`python -m benchmarks.runtimes`: what runs, what is kept, what it says."""

import sys

import pytest

from benchmarks import harness
from benchmarks.runtimes import __main__ as command
from benchmarks.runtimes import environments, networks, report
from benchmarks.runtimes.environments import BROWSER, RUNTIMES, Runtime
from benchmarks.worker import Cannot


class FakeWorker:
    """A runtime in which everything works but what `fails` says."""

    versions = {"numpy": "2.0"}

    def __init__(self, fails):
        self.fails, self.alive, self.process = fails, True, self

    def poll(self):
        return None if self.alive else 1

    def call(self, function, path, **_):
        for part, detail in self.fails.items():
            if part in path:
                self.alive = not detail.startswith("signal")
                raise Cannot("raises RuntimeError here", detail)
        return {"error": 1e-7, "finite": True}

    def close(self):
        pass


@pytest.fixture
def runtimes(monkeypatch, tmp_path):
    """The command on runtimes that are not installed."""

    def start(runtime):
        runtimes.started.append(runtime.name)
        if runtime.version in runtimes.missing:
            raise Cannot("pip install fails", "ERROR: /some/where/x.whl")
        return FakeWorker(runtimes.fails.get(runtime.version, {}))

    def runtimes(*arguments):
        return command.main([*arguments, "--results", str(tmp_path)])

    runtimes.started, runtimes.missing, runtimes.fails = [], set(), {}
    runtimes.page = tmp_path / "runtimes.md"
    monkeypatch.setattr(environments, "start", start)
    monkeypatch.setattr(command, "files", lambda: tmp_path)
    return runtimes


def lines(page):
    """The cells of each runtime in the table of a page."""
    rows = [n.split("|") for n in page.read_text().splitlines() if "|" in n]
    return {row[1].strip(): [c.strip() for c in row[2:-1]] for row in rows}


def test_only_what_has_not_run_is_run(runtimes, tmp_path):
    assert runtimes("tflite-runtime 2.14.0", "1.0.1") == 0
    assert runtimes.started == [
        "ai-edge-litert 1.0.1",
        "tflite-runtime 2.14.0",
        "tflite-runtime 2.14.0, cortex-a53",
    ]
    assert runtimes("1.0.1", "2.19") == 0
    assert runtimes.started[3:] == ["tensorflow-cpu 2.19.1"]
    assert runtimes("1.0.1", "--again") == 0
    assert runtimes.started[4:] == ["ai-edge-litert 1.0.1"]
    order = [runtime.name for runtime in RUNTIMES]
    found = list(lines(runtimes.page))[2:]
    assert found == sorted(found, key=order.index) and len(found) == 4
    content = harness.read_result(tmp_path / "runtimes.json")
    assert not content["finished"]
    assert runtimes() == 0
    assert len(runtimes.started) == len(RUNTIMES) + 1
    assert harness.read_result(tmp_path / "runtimes.json")["finished"]


def test_a_runtime_that_cannot_be_installed_has_a_reason(runtimes):
    runtimes.missing.add("2.16.2")
    assert runtimes("2.16", "2.17") == 0
    table = lines(runtimes.page)
    assert table["tensorflow-cpu 2.17.1"] == ["works"] * 4
    reason = ["not run: pip install fails", "–", "–", "–"]
    assert table["tensorflow-cpu 2.16.2"] == reason
    runtimes.missing.clear()
    assert runtimes("2.16", "2.17") == 0  # It is tried again.
    assert lines(runtimes.page)["tensorflow-cpu 2.16.2"] == ["works"] * 4


def test_a_crash_or_an_error_is_a_result_and_the_others_run(runtimes):
    missing = "Didn't find op for builtin opcode 'FULLY_CONNECTED' version '12'"
    runtimes.fails["2.3.0"] = {
        "dense.fast": missing,
        "lstm.packed.": "signal SIGSEGV\n/a/b/python",
    }
    assert runtimes("litert 2.3.0") == 0
    cells = lines(runtimes.page)["ai-edge-litert 2.3.0"]
    assert cells == [
        *("works", "works", "6 of 7; ends by SIGSEGV"),
        "6 of 7; no FULLY_CONNECTED 12",
    ]
    # Twice for the crash, with XNNPACK and without.
    assert runtimes.started.count("ai-edge-litert 2.3.0") == 3


def row(network="conv", format="fast", xnnpack=True, **found):
    found = found or {"error": 0.01, "finite": True}
    key = {"network": network, "format": format, "xnnpack": xnnpack}
    return key | found


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"error": 0.01, "finite": True}, "works"),
        ({"error": 1.0, "finite": True}, "**wrong**: conv"),
        ({"error": 0.0, "finite": False}, "**wrong**: conv"),
        (
            {"fails": "", "detail": "expected ranked tensor type F32[-1, 64]"},
            "open batch refused",
        ),
        (
            {
                "fails": "",
                "detail": "Node 3 (TRANSPOSE_CONV) failed to prepare",
            },
            "TRANSPOSE_CONV cannot prepare",
        ),
        (
            {"fails": "raises TypeError here", "detail": "new"},
            "raises TypeError here",
        ),
    ],
)
def test_a_cell_says_works_or_wrong_or_the_error(found, expected):
    assert report.cell([row(**found)]) == expected


def test_a_cell_says_where_xnnpack_makes_a_difference():
    wrong = {"error": 1.0, "finite": True}
    assert report.cell([row(), row(xnnpack=False)]) == "works"
    rows = [row(), row("dense"), row(xnnpack=False, **wrong)]
    rows.append(row("dense", xnnpack=False))
    text = "works; without XNNPACK 1 of 2; **wrong**: conv"
    assert report.cell(rows) == text


def test_each_runtime_gets_the_files_that_say_something():
    browser = Runtime(BROWSER, "2.5.3")
    assert "lstm" not in {case["network"] for case in browser.cases()}
    assert {case["xnnpack"] for case in browser.cases()} == {True}
    found = Runtime("tensorflow-cpu", "2.21.0").cases()
    assert len(found) == 2 * len(networks.NETWORKS) * len(networks.FORMATS)


def test_messages_lose_the_folders_of_this_machine():
    text = "cannot open /home/me/.cache/x==1/a.so in /usr/lib/b.py"
    assert command.without_folders(text) == "cannot open a.so in b.py"


def test_an_unknown_name_is_an_error(runtimes):
    with pytest.raises(SystemExit, match="2"):
        runtimes("onnx")


def test_the_committed_table_is_made_of_the_committed_file():
    content = harness.read_result(harness.RESULTS / "runtimes.json")
    text = report.DOCUMENT.read_text()
    assert text == report.insert(text, content)


@pytest.mark.slow
def test_the_files_run_in_this_environment(monkeypatch, tmp_path):
    monkeypatch.setattr(environments, "create", lambda *_: sys.executable)
    monkeypatch.setattr(environments, "NETWORKS", ("dense",))
    monkeypatch.setattr(networks, "NETWORKS", ("dense",))
    monkeypatch.setenv("KERAS_LAB_RUNTIMES", str(tmp_path))
    results = tmp_path / "results"
    runtime = Runtime("ai-edge-litert", "2.3.0")
    monkeypatch.setattr(environments, "RUNTIMES", (runtime,))
    assert command.main(["--results", str(results)]) == 0
    page = lines(results / "runtimes.md")
    assert page["ai-edge-litert 2.3.0"] == ["works"] * 4
