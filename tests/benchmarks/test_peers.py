"""Peers that cannot be set up, and the networks they are given."""

import json
import subprocess
import time

import keras
import pytest

from benchmarks import networks, peer_tables, train_step
from benchmarks.peers import accuracy, environments, files
from benchmarks.peers import train_step as program
from benchmarks.workers import Cannot
from keras_lab.binary_weight import binary_weights


@pytest.fixture
def no_peer(monkeypatch):
    """pip finds nothing, and no environment is made."""

    def pip(command, **_):
        error = "ERROR: No matching distribution found for larq==0.14.0"
        return subprocess.CompletedProcess(command, 1, "", error)

    monkeypatch.setattr(environments.venv, "create", lambda *_, **__: None)
    monkeypatch.setattr(environments.subprocess, "run", pip)


def test_a_peer_that_cannot_be_installed_says_so_in_three_words(
    no_peer, tmp_path
):
    with pytest.raises(Cannot, match="no matching wheel") as caught:
        environments.start("larq", tmp_path)
    assert "larq==0.14.0" in caught.value.detail
    assert not list(tmp_path.rglob(environments.DONE))


def test_the_table_says_why_a_peer_is_missing(no_peer, tmp_path, monkeypatch):
    class Ours:
        versions = {}

        def call(self, function, **_):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    start = environments.start
    monkeypatch.setattr(
        environments,
        "start",
        lambda name, folder: (
            Ours() if name == "keras_lab" else start(name, folder)
        ),
    )
    monkeypatch.setattr(networks, "describe", lambda *_, **__: [])
    path = tmp_path / "steps.json"
    options = ["--environments", str(tmp_path), "--output", str(path)]
    assert program.main([*options, "--rounds", "2"]) == 0
    rows = json.loads(path.read_text())["rows"]
    (line,) = [
        line
        for line in peer_tables.train_step(rows).splitlines()
        if line.startswith("| larq, `ste_sign` weights |")
    ]
    assert line.split("|")[2:-1] == [" no matching wheel "] * 4


def test_an_accuracy_that_no_peer_gives_is_kept_with_its_reason(
    no_peer, tmp_path
):
    journal = accuracy.Journal(
        tmp_path / "a.json", "peers_accuracy", {}, ("method", "seed")
    )
    arguments = accuracy.parse(["--environments", str(tmp_path)])
    accuracy._run_one(journal, "clusters", 1, tmp_path, arguments)
    (row,) = journal.content["rows"]
    assert row["cannot"] == "no matching wheel"
    assert "no matching wheel" in peer_tables.accuracy([row])


def test_what_is_far_too_slow_is_said_to_be_and_not_measured():
    candidates = {
        program.BASELINE: lambda: time.sleep(0.001),
        ("tfmot", "clusters"): lambda: time.sleep(0.2),
    }
    refused = {}
    program.drop_slow(candidates, refused)
    assert list(candidates) == [program.BASELINE]
    assert refused["tfmot", "clusters"].words == "over 20 times"


def test_a_quantized_file_with_unrelated_outputs_is_refused(tmp_path):
    made = files.Files(tmp_path, tmp_path, journal=None)
    made.paths = dict.fromkeys(("tflite_float32", "int4", "int2"), "x")
    made.more = {format: {} for format in made.paths}
    outputs = {"tflite_float32": [1, 2], "int4": [1, 1], "int2": [0, 0]}
    files.check_quantized(made, outputs)
    assert list(made.refused) == ["int2"]
    assert made.refused["int2"].words == "outputs are wrong"
    assert made.more["int4"]["cosine_with_float32"] == pytest.approx(
        3 / 10**0.5
    )
    assert "int2" not in made.paths


@pytest.mark.parametrize("name", ["mnist", "svhn"])
def test_a_described_network_is_the_papers(name):
    paper = networks.paper_network(name, "lab", width=8)
    built = networks.build(
        networks.describe(name, width=8), train_step.kit("lab")
    )
    shapes = [
        [tuple(weight.shape) for weight in model.weights]
        for model in (paper, built)
    ]
    assert shapes[0] == shapes[1]
    assert json.loads(json.dumps(networks.describe(name, width=8)))


def test_binary_inputs_spare_the_first_layer_and_take_the_place_of_relu():
    layers = networks.describe("mnist", width=8)
    model = networks.build(layers, train_step.kit("lab2"))
    quantizers = [
        layer.input_quantizer
        for layer in model.layers
        if hasattr(layer, "input_quantizer")
    ]
    assert [quantizer is None for quantizer in quantizers] == [
        *[True, False, False, False]
    ]
    kinds = {type(layer) for layer in model.layers}
    assert keras.layers.ReLU not in kinds


def test_the_lstm_of_the_peers_has_the_papers_kernels():
    paper = networks.paper_network("lstm", "lab", cells=8)
    built = networks.build(
        networks.describe("lstm", cells=8), networks.Kit(keras)
    )
    binary = {
        tuple(weight.latent.shape) for weight in binary_weights(paper.weights)
    }
    assert binary == {
        tuple(weight.shape)
        for weight in built.layers[0].weights
        if len(weight.shape) == 2
    }


def test_the_same_budget_for_all():
    rates = [accuracy.learning_rates(m, 10) for m in accuracy.METHODS]
    assert {len(rate) for rate in rates} == {10}
    assert accuracy.learning_rates("lab", 10) == pytest.approx(
        [0.01] * 5 + [0.001] * 3 + [0.0001] * 2
    )
    assert accuracy.learning_rates("lab2", 1) == [0.005]
