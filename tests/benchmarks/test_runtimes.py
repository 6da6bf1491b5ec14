"""Which runtime runs which format: what runs, and what the table says."""

import sys
import types

import pytest

from benchmarks import harness
from benchmarks.parts import runtime_support
from benchmarks.runtimes import environments, networks
from benchmarks.runtimes.environments import BROWSER, Runtime
from benchmarks.worker import Cannot

RIGHT, WRONG = ({"error": e, "finite": True} for e in (0.01, 1.0))


def row(found, network="conv", xnnpack=True):
    key = {"network": network, "format": "fast", "xnnpack": xnnpack}
    return key | found


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (RIGHT, "works"),
        (WRONG, "**wrong**: conv"),
        ({"error": 0.0, "finite": False}, "**wrong**: conv"),
        ({"detail": "tensor type F32[-1, 64]"}, "open batch refused"),
        ({"detail": "Node 3 (RELU) failed to prepare"}, "RELU cannot prepare"),
        ({"fails": "raises Error here", "detail": ""}, "raises Error here"),
    ],
)
def test_a_cell_says_works_or_wrong_or_the_error(found, expected):
    assert runtime_support.support([row(found)]) == expected


def test_a_cell_says_where_xnnpack_makes_a_difference():
    rows = [row(RIGHT), row(RIGHT, xnnpack=False)]
    assert runtime_support.support(rows) == "works"
    rows += [row(RIGHT, "dense"), row(WRONG, "dense", xnnpack=False)]
    text = "works; without XNNPACK 1 of 2; **wrong**: dense"
    assert runtime_support.support(rows) == text


def test_each_runtime_gets_the_files_that_say_something():
    browser = Runtime(BROWSER, "2.5.3")
    assert "lstm" not in {case["network"] for case in browser.cases()}
    assert {case["xnnpack"] for case in browser.cases()} == {True}
    found = Runtime("tensorflow-cpu", "2.21.0").cases()
    assert len(found) == 2 * len(networks.NETWORKS) * len(networks.FORMATS)


def test_a_crash_or_an_error_is_a_result_and_the_others_run(
    monkeypatch, tmp_path
):
    fails = {
        "dense.fast.": "no op for builtin opcode 'ADD' version '12'",
        "lstm.packed.": "signal SIGSEGV\n/a/b/python",
    }
    runtime, started = Runtime("ai-edge-litert", "2.3.0"), []

    def call(function, path, **_):
        for part, detail in fails.items():
            if part in path:
                code = 1 if detail.startswith("signal") else None
                worker.process.poll = lambda: code
                raise Cannot("raises RuntimeError here", detail)
        return {"error": 0.0, "finite": True}

    worker = types.SimpleNamespace(
        call=call, close=lambda: None, process=types.SimpleNamespace()
    )

    def start(runtime, versions):
        started.append(runtime.name)
        return worker

    monkeypatch.setattr(environments, "start", start)
    rows = runtime_support.run_files(runtime, tmp_path, {})
    assert any(row.get("detail") == "signal SIGSEGV\npython" for row in rows)
    content = {"rows": [{"runtime": runtime.name, **row} for row in rows]}
    assert runtime_support.table(content).splitlines()[2] == (
        "| ai-edge-litert 2.3.0 | works | works | 6 of 7; ends by SIGSEGV | "
        "6 of 7; no ADD 12 | works | works |"
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
    text = runtime_support.table(harness.read_result(path))
    assert f"| {runtime.name} | works | works | works | works |" in text
