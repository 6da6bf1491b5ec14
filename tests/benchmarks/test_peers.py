"""Workers in other processes, and the networks that the peers are given."""

import subprocess

import keras
import numpy as np
import pytest

from benchmarks import networks
from benchmarks.parts import peers_files
from benchmarks.peers import environments
from benchmarks.peers import keras_lab as ours
from benchmarks.worker import Cannot, Worker


@pytest.fixture
def worker():
    with Worker("tests.benchmarks.echo") as worker:
        yield worker


def test_a_worker_answers_whatever_else_it_prints(worker):
    assert worker.call("double", x=[1]) == [1, 1]
    assert worker.call("versions")["numpy"] == np.__version__


def test_a_refusal_or_an_error_is_a_cannot_of_three_words(worker):
    with pytest.raises(Cannot, match="has no wings") as caught:
        worker.call("refuse")
    assert caught.value.detail == "It was built without."
    with pytest.raises(Cannot) as caught:
        worker.call("fail")
    assert caught.value.to_json() == {
        "cannot": "raises TypeError here",
        "detail": "wrong",
    }
    assert worker.call("double", x=1) == 2


def test_a_process_that_ends_is_a_cannot(worker):
    with pytest.raises(Cannot, match="worker process ended") as caught:
        worker.call("die")
    assert caught.value.detail == "signal SIGKILL"
    with pytest.raises(Cannot, match="worker process ended"):
        worker.call("double", x=1)


def test_a_module_that_cannot_be_imported_is_a_cannot():
    with Worker("tests.benchmarks.absent") as worker:
        with pytest.raises(Cannot, match="raises ModuleNotFoundError here"):
            worker.call("versions")


def test_a_peer_that_cannot_be_installed_has_a_reason(monkeypatch, tmp_path):
    def run(command, **_):
        if "pip" in command:
            message = "no larq==0.14.0"
            raise subprocess.CalledProcessError(1, command, stderr=message)

    monkeypatch.setenv("KERAS_LAB_PEERS", str(tmp_path))
    monkeypatch.setattr(environments.subprocess, "run", run)
    with pytest.raises(Cannot, match="pip install fails") as caught:
        environments.start("larq", {})
    assert caught.value.detail == "no larq==0.14.0"


def test_a_quantized_file_with_unrelated_outputs_is_refused():
    cosine = peers_files.check_outputs([1, 1], [1, 2])
    assert cosine == pytest.approx(3 / 10**0.5)
    with pytest.raises(Cannot, match="outputs are wrong"):
        peers_files.check_outputs([0, 0], [1, 2])


@pytest.mark.parametrize(
    ("name", "size"), [("mnist", "width"), ("svhn", "width"), ("lstm", "cells")]
)
def test_a_network_has_the_weights_of_the_paper(name, size):
    from examples.paper.recipes import RECIPES
    from examples.paper.schemes import SCHEMES

    recipe = RECIPES["war_and_peace" if name == "lstm" else name]
    classes = networks.CHARACTERS if name == "lstm" else 10
    paper = recipe.build(SCHEMES["lab"], classes, **{size: 8})
    built = ours.paper_network(name, 8)
    assert [w.shape for w in built.weights] == [w.shape for w in paper.weights]


def test_binary_inputs_replace_relu_and_spare_the_first_layer():
    layers = networks.describe("mnist", 8)
    model = networks.build(layers, **ours.KITS["lab2"])
    kernels = [n for n in model.layers if hasattr(n, "input_quantizer")]
    found = [layer.input_quantizer is None for layer in kernels]
    assert found == [True, False, False, False]
    assert keras.layers.ReLU not in {type(layer) for layer in model.layers}
