"""Which runtime runs which format: what runs, and what the table says."""

import sys
import types

import pytest

from benchmarks import harness, runtime_support, runtime_table
from benchmarks.runtimes import environments, networks
from benchmarks.runtimes.environments import BROWSER, Runtime
from benchmarks.worker import Cannot


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
        ({"detail": "tensor type F32[-1, 64]"}, "open batch refused"),
        (
            {"detail": "Node 3 (TRANSPOSE_CONV) failed to prepare"},
            "TRANSPOSE_CONV cannot prepare",
        ),
        (
            {"fails": "raises TypeError here", "detail": "new"},
            "raises TypeError here",
        ),
    ],
)
def test_a_cell_says_works_or_wrong_or_the_error(found, expected):
    assert runtime_table.cell([row(**found)]) == expected


def test_a_cell_says_where_xnnpack_makes_a_difference():
    wrong = {"error": 1.0, "finite": True}
    assert runtime_table.cell([row(), row(xnnpack=False)]) == "works"
    rows = [row(), row("dense"), row(xnnpack=False, **wrong)]
    rows.append(row("dense", xnnpack=False))
    text = "works; without XNNPACK 1 of 2; **wrong**: conv"
    assert runtime_table.cell(rows) == text


def test_each_runtime_gets_the_files_that_say_something():
    browser = Runtime(BROWSER, "2.5.3")
    assert "lstm" not in {case["network"] for case in browser.cases()}
    assert {case["xnnpack"] for case in browser.cases()} == {True}
    found = Runtime("tensorflow-cpu", "2.21.0").cases()
    assert len(found) == 2 * len(networks.NETWORKS) * len(networks.FORMATS)


def test_messages_lose_the_folders_of_this_machine():
    text = "cannot open /home/me/.cache/x==1/a.so in /usr/lib/b.py"
    assert runtime_support.without_folders(text) == "cannot open a.so in b.py"


class FakeWorker:
    """A runtime in which everything works but what `fails` says."""

    process = types.SimpleNamespace()

    def __init__(self, fails):
        self.fails = fails

    def call(self, function, path, **_):
        for part, detail in self.fails.items():
            if part in path:
                code = 1 if detail.startswith("signal") else None
                self.process.poll = lambda: code
                raise Cannot("raises RuntimeError here", detail)
        return {"error": 1e-7, "finite": True}

    def close(self):
        pass


def test_a_crash_or_an_error_is_a_result_and_the_others_run(
    monkeypatch, tmp_path
):
    missing = "Didn't find op for builtin opcode 'FULLY_CONNECTED' version '12'"
    fails = {
        "dense.fast.": missing,
        "lstm.packed.": "signal SIGSEGV\n/a/b/python",
    }
    runtime, started = Runtime("ai-edge-litert", "2.3.0"), []

    def start(runtime, versions):
        started.append(runtime.name)
        return FakeWorker(fails)

    monkeypatch.setattr(environments, "start", start)
    rows = runtime_support.run_files(runtime, tmp_path, {})
    content = {"rows": [{"runtime": runtime.name, **row} for row in rows]}
    assert runtime_table.table(content).splitlines()[2] == (
        "| ai-edge-litert 2.3.0 | works | works | 6 of 7; ends by SIGSEGV | "
        "6 of 7; no FULLY_CONNECTED 12 | works | works |"
    )
    # Twice for the crash, with XNNPACK and without.
    assert len(started) == 3


@pytest.mark.slow
def test_the_files_run_in_this_environment(monkeypatch, tmp_path):
    monkeypatch.setattr(environments, "create", lambda *_: sys.executable)
    for module in (environments, networks):
        monkeypatch.setattr(module, "NETWORKS", ("dense",))
    monkeypatch.setenv("KERAS_LAB_RUNTIMES", str(tmp_path))
    runtime = Runtime("ai-edge-litert", "2.3.0")
    monkeypatch.setattr(environments, "RUNTIMES", (runtime,))
    path = tmp_path / "runtimes.json"
    harness.measure("runtime_support", runtime_support, path, {})
    text = runtime_table.table(harness.read_result(path))
    assert f"| {runtime.name} | works | works | works | works |" in text
