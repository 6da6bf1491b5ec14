"""Peers that cannot be set up, and the networks they are given."""

import json
import subprocess

import keras
import pytest

from benchmarks import harness, networks, peer_tables, train_step
from benchmarks.journal import JournalError
from benchmarks.peers import accuracy, environments, files
from benchmarks.peers import train_step as program
from benchmarks.workers import Cannot
from keras_lab.binary_weight import weights_of


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


class Ready:
    """A worker that does whatever it is told, at once."""

    versions = {}

    def call(self, function, **_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture
def ours_alone(no_peer, monkeypatch):
    """Nobody else can be set up."""
    start = environments.start
    monkeypatch.setattr(
        environments,
        "start",
        lambda name, folder: (
            Ready() if name == "keras_lab" else start(name, folder)
        ),
    )
    monkeypatch.setattr(networks, "describe", lambda *_, **__: [])


def test_the_table_says_why_a_peer_is_missing(ours_alone, tmp_path, capsys):
    path = tmp_path / "steps.json"
    options = ["--environments", str(tmp_path), "--output", str(path)]
    assert program.main([*options, "--rounds", "2"]) == 1
    assert "larq (no matching wheel)" in capsys.readouterr().err
    rows = json.loads(path.read_text())["rows"]
    (line,) = [
        line
        for line in peer_tables.train_step(rows).splitlines()
        if line.startswith("| larq, `ste_sign` weights |")
    ]
    assert line.split("|")[2:-1] == [" no matching wheel "] * 4


def test_a_peer_that_was_not_set_up_is_tried_again(
    ours_alone, tmp_path, monkeypatch
):
    path = tmp_path / "steps.json"
    options = ["--environments", str(tmp_path), "--output", str(path)]
    assert program.main([*options, "--rounds", "2"]) == 1
    assert not json.loads(path.read_text())["finished"]

    monkeypatch.setattr(environments, "start", lambda *_: Ready())
    assert program.main([*options, "--rounds", "2"]) == 0
    content = json.loads(path.read_text())
    assert content["finished"]
    assert not [row for row in content["rows"] if "cannot" in row]

    began = []
    monkeypatch.setattr(program, "measure", lambda *_: began.append(1))
    assert program.main([*options, "--rounds", "2"]) == 0
    assert not began


def test_without_a_network_pip_finds_no_wheel_and_the_network_is_named(
    tmp_path, monkeypatch
):
    errors = """\
WARNING: Retrying (Retry(total=0)) after connection broken by \
'NewConnectionError('Temporary failure in name resolution')': /simple/larq/
ERROR: Could not find a version that satisfies the requirement larq==0.14.0
ERROR: No matching distribution found for larq==0.14.0
"""
    monkeypatch.setattr(environments.venv, "create", lambda *_, **__: None)
    monkeypatch.setattr(
        environments.subprocess,
        "run",
        lambda line, **_: subprocess.CompletedProcess(line, 1, "", errors),
    )
    with pytest.raises(Cannot, match="no network here") as caught:
        environments.start("larq", tmp_path)
    assert "name resolution" in caught.value.detail


def test_a_folder_that_is_no_environment_is_not_cleared(no_peer, tmp_path):
    thesis = tmp_path / "larq" / "thesis.tex"
    thesis.parent.mkdir()
    thesis.write_text("42")
    with pytest.raises(Cannot, match="folder is taken") as caught:
        environments.install("larq", tmp_path)
    assert str(thesis.parent) in caught.value.detail
    thesis.unlink()
    (tmp_path / "tfmot").write_text("a file")
    with pytest.raises(Cannot, match="folder is taken"):
        environments.install("tfmot", tmp_path)
    with pytest.raises(Cannot, match="no matching wheel"):
        environments.install("larq", tmp_path)  # an empty one is


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """larq's environment; and how often one was made."""
    place = tmp_path / "larq"
    python = place / "bin" / "python"

    def create(*_, **__):
        made.append(place)
        python.parent.mkdir(parents=True, exist_ok=True)
        python.touch(mode=0o755)
        (place / "pyvenv.cfg").touch()

    made = []
    monkeypatch.setattr(environments.venv, "create", create)
    monkeypatch.setattr(environments, "_pip_install", lambda *_: None)
    assert environments.install("larq", tmp_path) == python
    environments.install("larq", tmp_path)
    assert len(made) == 1
    return made


@pytest.mark.parametrize("damage", ["", "[", "\xff", '["larq==0.1"]', None])
def test_a_broken_environment_is_made_anew(installed, tmp_path, damage):
    place = tmp_path / "larq"
    if damage is None:
        (place / "bin" / "python").unlink()
    else:
        (place / environments.DONE).write_text(damage, "latin-1")
    environments.install("larq", tmp_path)
    environments.install("larq", tmp_path)
    assert len(installed) == 2


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
    with pytest.raises(JournalError, match="tfmot"):
        journal.finish()
    assert journal.misses(method="clusters", seed=1)
    assert "no matching wheel" in peer_tables.accuracy([row])


class Clock:
    """Stands still, but for what is said to take time."""

    def __init__(self):
        self.seconds = 0.0

    def perf_counter(self):
        return self.seconds

    def takes(self, seconds):
        def run():
            self.seconds += seconds

        return run


def test_what_is_far_too_slow_is_said_to_be_and_not_measured(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(harness, "time", clock)
    candidates = {
        program.BASELINE: clock.takes(0.01),
        ("tfmot", "clusters"): clock.takes(0.21),
        ("larq", "weights"): clock.takes(0.19),
    }
    refused = {}
    program.drop_slow(candidates, refused)
    assert list(candidates) == [program.BASELINE, ("larq", "weights")]
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
        tuple(weight.latent.shape) for weight in weights_of(paper.weights)
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
