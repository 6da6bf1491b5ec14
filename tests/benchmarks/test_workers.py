"""Calls to other processes, and what becomes of their failures."""

import pytest

from benchmarks.workers import Cannot, Worker

MODULE = "tests.benchmarks.echo"


@pytest.fixture
def worker():
    with Worker(MODULE) as worker:
        yield worker


def test_a_call_is_answered_whatever_else_is_printed(worker):
    assert worker.call("double", x=3) == 6
    assert worker.call("double", x=[1]) == [1, 1]


def test_a_refusal_arrives_with_its_three_words(worker):
    with pytest.raises(Cannot, match="has no wings") as caught:
        worker.call("refuse")
    assert caught.value.detail == "It was built without."
    assert worker.call("double", x=1) == 2


def test_an_error_becomes_three_words_and_a_detail(worker):
    with pytest.raises(Cannot) as caught:
        worker.call("fail")
    assert caught.value.to_json() == {
        "cannot": "raises TypeError here",
        "detail": "wrong",
    }


def test_a_process_that_ends_is_a_refusal(worker):
    with pytest.raises(Cannot, match="worker process ended") as caught:
        worker.call("die")
    assert caught.value.detail == "exit code 3"
    with pytest.raises(Cannot, match="worker process ended"):
        worker.call("double", x=1)


def test_a_signal_that_ended_a_process_is_named(worker):
    with pytest.raises(Cannot, match="worker process ended") as caught:
        worker.call("kill")
    assert caught.value.detail == "signal SIGKILL"


def test_a_worker_that_does_not_start_is_a_refusal():
    with Worker("tests.benchmarks.no_such_module") as worker:
        with pytest.raises(Cannot) as caught:
            worker.call("double", x=1)
    assert "no_such_module" in caught.value.detail


@pytest.mark.parametrize("words", ["too few", "four words are many", ""])
def test_reasons_are_three_words(words):
    with pytest.raises(ValueError, match="three"):
        Cannot(words)
