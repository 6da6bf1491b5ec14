"""The paper's recipes, runs and report, on networks that train in seconds."""

import dataclasses
import json
import math
import shutil

import keras
import matplotlib.image
import numpy as np
import pytest

from examples.paper import checkpoints, claims, figures, report, results
from examples.paper import run as command
from examples.paper.gradients import histogram, recurrent_gradient
from examples.paper.networks import Parts, StdBatchNormalization
from examples.paper.recipes import RECIPES
from examples.paper.schemes import SCHEMES, WEIGHT_ONLY
from examples.paper.selection import select
from examples.paper.tables import TABLES, jobs
from examples.paper.training import Plan, epoch_order, run
from keras_lab.binary_weight import binary_weights
from keras_lab.datasets import Dataset, Part, text_file

# Networks.


def kernel_sizes(model):
    return [
        math.prod(layer.kernel.shape)
        for layer in model.layers
        if hasattr(layer, "kernel")
    ]


def vgg_sizes(k):
    """(2×K C3)-MP2-(2×2K C3)-MP2-(2×4K C3)-MP2-(2×1024FC)-10SVM."""
    conv = [
        9 * inputs * outputs
        for inputs, outputs in (
            *((3, k), (k, k), (k, 2 * k)),
            *((2 * k, 2 * k), (2 * k, 4 * k), (4 * k, 4 * k)),
        )
    ]
    return [*conv, 4 * 4 * 4 * k * 1024, 1024 * 1024, 1024 * 10]


NETWORKS = {
    "mnist": ([784 * 2048, 2048**2, 2048**2, 2048 * 10], 3 * 2048 + 10),
    "cifar10": (vgg_sizes(128), 2 * (128 + 256 + 512) + 2 * 1024 + 10),
    "svhn": (vgg_sizes(64), 2 * (64 + 128 + 256) + 2 * 1024 + 10),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_recipe_builds_the_papers_network(name):
    kernels, units = NETWORKS[name]
    model = RECIPES[name].build(SCHEMES["lab"], classes=10)
    assert kernel_sizes(model) == kernels
    assert len(binary_weights(model.weights)) == len(kernels)
    # Batch norm has four numbers a unit, each kernel one α; no biases.
    assert model.count_params() == sum(kernels) + 4 * units + len(kernels)


def test_without_batch_norm_there_are_biases_instead():
    model = RECIPES["mnist_no_norm"].build(SCHEMES["lab"], 10, width=32)
    kernels = [784 * 32, 32 * 32, 32 * 32, 32 * 10]
    assert kernel_sizes(model) == kernels
    assert model.count_params() == sum(kernels) + 3 * 32 + 10 + 4


@pytest.mark.parametrize(
    ("name", "symbols"), [("war_and_peace", 87), ("linux_kernel", 101)]
)
def test_a_recipe_builds_the_papers_lstm(name, symbols):
    model = RECIPES[name].build(SCHEMES["lab"], classes=symbols)
    cells = 512
    sizes = {weight.path: math.prod(weight.shape) for weight in model.weights}
    assert sizes == {
        "character_lstm/lstm/lstm_cell/kernel": 4 * symbols * cells,
        "character_lstm/lstm/lstm_cell/recurrent_kernel": 4 * cells**2,
        "character_lstm/lstm/lstm_cell/bias": 4 * cells,
        "character_lstm/lstm/lstm_cell/alpha": 4,
        "character_lstm/lstm/lstm_cell/recurrent_alpha": 4,
        "character_lstm/softmax/kernel": cells * symbols,
        "character_lstm/softmax/bias": symbols,
    }
    # Only the LSTM's two kernels are binary, the softmax layer is not.
    assert len(binary_weights(model.weights)) == 2


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("follow", ["paper", "code"])
def test_the_lstm_binarizes_what_the_paper_or_the_code_says(scheme, follow):
    model = RECIPES["war_and_peace"].build(SCHEMES[scheme], 5, follow, cells=4)
    cell = model.get_layer("lstm").cell
    signs = SCHEMES[scheme].input_quantizer is not None
    in_product = cell.input_quantizer is not None
    assert in_product == (signs and follow == "paper")
    at_output = type(cell.activation).__name__ == "SignActivation"
    assert at_output == (signs and follow == "code")
    assert (cell.kernel_quantizer is None) == (scheme == "full_precision")


def test_the_lstms_weights_start_uniform_in_the_papers_range():
    model = RECIPES["war_and_peace"].build(SCHEMES["lab"], 87)
    cell = model.get_layer("lstm").cell
    softmax = model.get_layer("softmax")
    kernels = (cell.kernel, cell.recurrent_kernel, softmax.kernel)
    kernels = [kernel.numpy() for kernel in kernels]
    for kernel in kernels:
        assert 0.0799 < np.abs(kernel).max() <= 0.08
        assert kernel.std() == pytest.approx(0.08 / math.sqrt(3), rel=0.02)
    first = [kernel.ravel()[:1000] for kernel in kernels]
    assert np.abs(np.corrcoef(first) - np.eye(3)).max() < 0.2
    bias = cell.bias.numpy().reshape(4, -1)
    np.testing.assert_array_equal(
        bias, [[0] * 512, [1] * 512] + 2 * [[0] * 512]
    )


def test_the_authors_softmax_starts_from_a_narrow_normal():
    model = RECIPES["war_and_peace"].build(SCHEMES["lab"], 87, "code")
    kernel = model.get_layer("softmax").kernel.numpy()
    assert kernel.std() == pytest.approx(0.01, rel=0.02)
    assert np.abs(kernel).max() > 0.03


def test_the_lstms_gradients_are_clipped_entry_by_entry():
    model = RECIPES["war_and_peace"].build(SCHEMES["lab"], 5, cells=4)
    assert model.optimizer.clipvalue == 5.0


@pytest.mark.parametrize("name", ["mnist", "svhn"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_scheme_binarizes_what_the_paper_says(name, scheme):
    scheme = SCHEMES[scheme]
    model = RECIPES[name].build(scheme, 10, width=4)
    layers = [layer for layer in model.layers if hasattr(layer, "kernel")]
    for layer in layers:
        kind = layer.kernel_quantizer and type(layer.kernel_quantizer).__name__
        expected = {"lab": "LAB", "bwn": "BWN", None: None}
        expected["binary_connect"] = "BinaryConnect"
        assert kind == expected[scheme.kernel_quantizer]
    signs = [layer.input_quantizer is not None for layer in layers]
    binary = scheme.input_quantizer is not None
    assert signs == [False] + [binary] * (len(layers) - 1)
    relus = [isinstance(la, keras.layers.ReLU) for la in model.layers]
    assert sum(relus) == (0 if binary else len(layers) - 1)


def test_pooling_comes_before_batch_norm_and_activation():
    model = RECIPES["svhn"].build(SCHEMES["lab"], 10, width=4)
    names = [type(layer).__name__ for layer in model.layers]
    block = ["BinaryConv2D", "BatchNormalization", "ReLU", "BinaryConv2D"]
    block += ["MaxPooling2D", "BatchNormalization", "ReLU"]
    assert names[:21] == 3 * block
    tail = ["Flatten"] + 2 * ["BinaryDense", "BatchNormalization", "ReLU"]
    assert names[21:] == [*tail, "BinaryDense", "BatchNormalization"]


@pytest.mark.parametrize(
    ("scheme", "follow", "share"),
    [
        ("lab", "paper", 1.0),
        ("lab", "code", 0.5),
        ("full_precision", "paper", 1.0),
        ("full_precision", "code", 1.0),
    ],
)
def test_weights_start_uniform_within_glorots_limit(scheme, follow, share):
    model = RECIPES["svhn"].build(SCHEMES[scheme], 10, follow, width=32)
    for name, fans in (("dense_2", 1024 + 1024), ("conv_1b", 9 * (32 + 32))):
        kernel = model.get_layer(name).kernel.numpy()
        limit = share * math.sqrt(6 / fans)
        assert 0.99 * limit < np.abs(kernel).max() <= limit
        assert kernel.std() == pytest.approx(limit / math.sqrt(3), rel=0.02)


def test_the_authors_batch_norm_divides_by_deviation_plus_epsilon(rng):
    layer = StdBatchNormalization()
    x = rng.normal(3, 2, (50, 4, 4, 6))
    layer.build(x.shape)
    gamma, beta = rng.normal(size=(2, 6))
    layer.gamma.assign(gamma)
    layer.beta.assign(beta)
    mean, std = x.mean(axis=(0, 1, 2)), x.std(axis=(0, 1, 2))
    moving_mean, moving_std = np.zeros(6), np.ones(6)
    for _ in range(3):
        got = layer(x.astype("float32"), training=True)
        expected = gamma * (x - mean) / (std + 1e-4) + beta
        np.testing.assert_allclose(got, expected, atol=1e-4)
        moving_mean = 0.9 * moving_mean + 0.1 * mean
        moving_std = 0.9 * moving_std + 0.1 * std
    got = layer(x.astype("float32"))
    expected = gamma * (x - moving_mean) / (moving_std + 1e-4) + beta
    np.testing.assert_allclose(got, expected, atol=1e-4)


def test_the_authors_batch_norm_is_an_option():
    parts = Parts(SCHEMES["lab"], follow="code")
    assert isinstance(parts.normalize()[0], StdBatchNormalization)
    parts = Parts(SCHEMES["lab"])
    assert type(parts.normalize()[0]) is keras.layers.BatchNormalization


# Learning rates.


def steps_of_ten(epoch, rate):
    """×0.1 at epochs 15 and 25."""
    return rate * (1 if epoch <= 15 else 0.1 if epoch <= 25 else 0.01)


def halves(epoch, rate):
    """×0.5 after every 15 epochs."""
    for _ in range(15, epoch, 15):
        rate /= 2
    return rate


def slow(epoch, rate):
    """After 10 epochs, ×0.98 after each: epoch 12 is the first reduced one."""
    for finished in range(1, epoch):
        if finished > 10:
            rate *= 0.98
    return rate


@pytest.mark.parametrize(
    ("name", "rate", "sign_rate", "schedule"),
    [
        ("mnist", 0.01, 0.005, steps_of_ten),
        ("cifar10", 0.03, 0.02, halves),
        ("svhn", 0.001, 0.0005, steps_of_ten),
        ("war_and_peace", 0.002, 0.002, slow),
        ("linux_kernel", 0.002, 0.002, slow),
    ],
)
def test_every_epoch_has_the_papers_learning_rate(
    name, rate, sign_rate, schedule
):
    recipe = RECIPES[name]
    paper_epochs = {"cifar10": 200, "war_and_peace": 200, "linux_kernel": 200}
    assert recipe.epochs == paper_epochs.get(name, 50)
    for scheme in SCHEMES.values():
        first = sign_rate if scheme.input_quantizer else rate
        for epoch in range(1, recipe.epochs + 1):
            assert recipe.learning_rate(scheme, epoch) == pytest.approx(
                schedule(epoch, first), rel=1e-12
            )


def test_cifar10_has_the_authors_learning_rate_as_an_option():
    recipe = RECIPES["cifar10"].following("code")
    assert recipe.learning_rate(SCHEMES["lab"], 1) == 0.02


# Runs.


def tiny_data(_folder=None):
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(10, 784))
    parts = []
    for count in (60, 20, 20):
        y = rng.integers(0, 10, count).astype(np.uint8)
        x = centres[y] + rng.normal(size=(count, 784))
        parts.append(Part(x.astype(np.float32), y))
    return Dataset(*parts, classes=10, files={"none": "0" * 64})


TINY = dataclasses.replace(
    RECIPES["mnist"],
    data=tiny_data,
    sizes={"width": 16},
    batch=10,
    epochs=4,
    decay=dataclasses.replace(RECIPES["mnist"].decay, after=(1, 3)),
)


def tiny_run(folder, **options):
    plan = Plan("mnist", TINY, **{"scheme": "lab2", "seed": 3, **options})
    return run(plan, None, folder, jit_compile=False, log=lambda line: None)


def without_times(result):
    history = {k: v for k, v in result["history"].items() if "second" not in k}
    return {**result, "history": history, "sessions": None}


def checkpoint_arrays(folder):
    with np.load(folder / "mnist" / "lab2-3.checkpoint.npz") as file:
        return {k: file[k] for k in file.files if k != "result"}


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """A folder with a run of four epochs, and its result."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, tiny_run(folder)


@pytest.fixture(scope="module")
def first_epoch(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first")
    tiny_run(folder, epochs=1)
    return folder


@pytest.fixture
def begun(first_epoch, tmp_path):
    """A folder with a run that has one epoch."""
    return shutil.copytree(first_epoch, tmp_path / "begun")


def test_an_interrupted_run_resumes_to_the_same_result(whole_run, begun):
    """Bit for bit, when it was first meant to be shorter and then killed."""
    lines = []

    def interrupt(line):
        lines.append(line)
        if len(lines) == 2:
            raise KeyboardInterrupt

    plan = Plan("mnist", TINY, "lab2", seed=3)
    with pytest.raises(KeyboardInterrupt):
        run(plan, None, begun, jit_compile=False, log=interrupt)
    path = begun / "mnist" / "lab2-3.json"
    half = json.loads(path.read_text())
    assert (half["epochs_done"], half["epochs_planned"]) == (3, 4)
    assert "epoch 3/4" in lines[1] and "left" in lines[1]
    path.unlink()  # As if killed between the checkpoint and the result.
    resumed = tiny_run(begun)
    folder, whole = whole_run
    assert without_times(resumed) == without_times(whole)
    assert [s["first_epoch"] for s in resumed["sessions"]] == [1, 2, 4]
    expected = checkpoint_arrays(folder)
    for key, array in checkpoint_arrays(begun).items():
        np.testing.assert_array_equal(array, expected[key])


def test_a_run_from_before_alpha_was_recorded_goes_on(begun, whole_run):
    checkpoint = begun / "mnist" / "lab2-3.checkpoint.npz"
    with np.load(checkpoint) as file:
        arrays = dict(file)
    result = json.loads(arrays["result"].item())
    for name in [n for n in result["history"] if n.endswith("alpha")]:
        del result["history"][name]
    np.savez(checkpoint, **{**arrays, "result": json.dumps(result)})
    history, whole = tiny_run(begun)["history"], whole_run[1]["history"]
    names = [name for name in whole if name.endswith("alpha")]
    assert len(names) == 4
    for name in names:
        assert history[name] == [None, *whole[name][1:]]


def test_a_result_says_all_there_is_to_know(whole_run):
    folder, result = whole_run
    written = json.loads((folder / "mnist" / "lab2-3.json").read_text())
    assert written == json.loads(json.dumps(result))
    assert (written["scheme"], written["seed"]) == ("lab2", 3)
    assert written["sizes"] == {"width": 16}
    assert (written["epochs_planned"], written["epochs_done"]) == (4, 4)
    assert written["data"]["train"] == 60
    for part in ("train", "validation", "test"):
        assert len(written["history"][f"{part}_error"]) == 4
        assert len(written["history"][f"{part}_loss"]) == 4
    assert written["history"]["learning_rate"] == pytest.approx(
        [0.005, 0.0005, 0.0005, 0.00005]
    )
    assert len(written["history"]["seconds"]) == 4
    assert len(written["alpha"]) == 4
    assert all(0 < alpha < 1 for alpha in written["alpha"].values())
    for path, alpha in written["alpha"].items():
        # A line that `keras_lab.plots.trajectories` draws.
        by_epoch = written["history"][path.partition("/")[2]]
        assert len(by_epoch) == 4 and by_epoch[-1] == pytest.approx(alpha)
    session = written["sessions"][0]
    assert session["keras"] == keras.version()
    assert {"commit", "machine", "cores", "tensorflow"} <= set(session)


def test_a_text_gives_cross_entropy_eight_alphas_and_gradients(tmp_path):
    text = b"the cat sat on the mat and the dog sat on the log. " * 40
    (tmp_path / "text").write_bytes(text)
    recipe = dataclasses.replace(
        RECIPES["war_and_peace"],
        data=lambda folder, steps: text_file(tmp_path / "text", steps, 10),
        sizes={"cells": 8},
        batch=10,
        epochs=3,
    )
    plan = Plan("war_and_peace", recipe, "lab", sizes={"steps": 5})
    lines = []
    result = run(plan, None, tmp_path, jit_compile=False, log=lines.append)
    folder = tmp_path / "war_and_peace-steps5"
    assert json.loads((folder / "lab-1.json").read_text()) == result
    assert result["sizes"] == {"cells": 8, "steps": 5}
    losses = result["history"]["test_loss"]
    # Better than knowing nothing, and better from epoch to epoch.
    assert math.log(len(set(text))) > losses[0] > losses[1] > losses[2] > 0
    assert result["selected"]["test_loss"] == losses[2]
    assert "test_error" not in result["history"] and "nats" in lines[0]
    assert [len(alpha) for alpha in result["alpha"].values()] == [4, 4]
    gradient = result["recurrent_gradient"]
    outside = gradient["below"] + gradient["above"] + gradient["not_finite"]
    assert sum(gradient["counts"]) + outside == 4 * 8 * 8


def test_a_finished_result_is_not_overwritten(whole_run):
    folder, _ = whole_run
    before = (folder / "mnist" / "lab2-3.json").read_bytes()
    for epochs in (4, 2):
        with pytest.raises(checkpoints.Finished, match=r"lab2-3\.json"):
            tiny_run(folder, epochs=epochs)
    assert (folder / "mnist" / "lab2-3.json").read_bytes() == before


def test_a_result_without_its_checkpoint_is_not_overwritten(begun):
    (begun / "mnist" / "lab2-3.checkpoint.npz").unlink()
    with pytest.raises(checkpoints.Finished):
        tiny_run(begun, epochs=1)
    with pytest.raises(checkpoints.RunError, match="1 of 4 epochs"):
        tiny_run(begun)


def test_a_result_of_another_recipe_is_not_continued(begun):
    other = dataclasses.replace(TINY, batch=20)
    with pytest.raises(checkpoints.RunError, match="batch=10, not 20"):
        run(Plan("mnist", other, "lab2", 3), None, begun)


def test_a_run_is_not_continued_with_other_data(begun):
    def more_data(folder):
        return dataclasses.replace(tiny_data(), files={"other": "1" * 64})

    other = dataclasses.replace(TINY, data=more_data)
    with pytest.raises(checkpoints.RunError, match="other"):
        run(Plan("mnist", other, "lab2", 3), None, begun)


def test_a_broken_checkpoint_is_named(begun):
    path = begun / "mnist" / "lab2-3.checkpoint.npz"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(checkpoints.RunError, match=r"checkpoint\.npz cannot"):
        tiny_run(begun)


def test_the_order_of_an_epoch_is_a_function_of_seed_and_epoch():
    order = epoch_order(1000, seed=1, epoch=2)
    np.testing.assert_array_equal(np.sort(order), np.arange(1000))
    np.testing.assert_array_equal(order, epoch_order(1000, 1, 2))
    for other in (epoch_order(1000, 1, 3), epoch_order(1000, 2, 2)):
        assert (order != other).mean() > 0.9


def test_schemes_start_from_the_same_weights_and_seeds_do_not(tmp_path):
    def kernel(scheme, seed):
        keras.utils.set_random_seed(seed)
        model = TINY.build(SCHEMES[scheme], 10)
        return model.layers[0].kernel.numpy()

    np.testing.assert_array_equal(kernel("lab", 1), kernel("bnn", 1))
    assert (kernel("lab", 1) != kernel("lab", 2)).all()


def test_selection_takes_the_later_of_equal_epochs():
    history = {
        "validation_error": [3.0, 2.0, None, 2.0, 2.5],
        "test_error": [3.1, 2.1, None, 2.2, 1.0],
    }
    assert select(history, "error") == {
        "epoch": 4,
        "validation_error": 2.0,
        "test_error": 2.2,
    }
    assert select({"validation_loss": [None]}, "loss") is None


def test_recurrent_gradients_are_counted_by_magnitude(rng):
    sizes = [1e-20, 0.0, 3e-5, -3e-5, 0.2, 1e30, np.inf, np.nan]
    counted = histogram(np.array(sizes))
    low, high = counted["log10_range"]
    width = (high - low) / len(counted["counts"])
    bins = {
        low + width * n: count
        for n, count in enumerate(counted["counts"])
        if count
    }
    assert list(bins.values()) == [2, 1]
    for start, size in zip(bins, (3e-5, 0.2)):
        assert start <= math.log10(size) < start + width
    assert (counted["below"], counted["above"]) == (2, 1)
    assert counted["not_finite"] == 2


def test_the_gradient_is_that_of_the_recurrent_weights(rng):
    model = keras.Sequential(
        [keras.Input((3, 2)), keras.layers.SimpleRNN(1, "linear")]
    )
    model.compile(loss="mse")
    kernel, recurrent, bias = np.array([[0.3], [0.2]]), 0.5, 0.1
    model.set_weights([kernel, np.array([[recurrent]]), np.array([bias])])
    x, y = rng.normal(size=(1, 3, 2)), np.array([[2.0]])
    inputs = (x @ kernel)[0, :, 0] + bias
    h1 = inputs[0]
    h2 = inputs[1] + recurrent * h1
    h3 = inputs[2] + recurrent * h2
    expected = 2 * (h3 - 2.0) * (h2 + recurrent * h1)
    got = recurrent_gradient(model, Part(x.astype("float32"), y))
    assert got["rms"] == pytest.approx(abs(expected), rel=1e-4)
    assert sum(got["counts"]) == 1


def test_a_network_without_recurrent_weights_has_no_such_gradient():
    model = TINY.build(SCHEMES["lab"], 10)
    assert recurrent_gradient(model, tiny_data().validation) is None


# The command line.


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["mnits"], "mnits"),
        (["mnist", "--scheme", "lba"], "lba"),
        (["mnist", "--epochs", "0"], "at least 1. Received: '0'"),
        (["mnist", "--seed", "-1"], "Received: '-1'"),
        (["mnist", "--width", "many"], "Received: 'many'"),
        (["mnist", "--cells", "5"], "no --cells, but --width"),
        (["war_and_peace", "--width", "5"], "but --cells, --steps"),
        (["mnist", "--budget", "small"], "for tables"),
        (["table1", "--epochs", "3"], "--epochs 3"),
    ],
)
def test_bad_options_are_named_before_any_work(arguments, complaint, capsys):
    with pytest.raises(SystemExit) as stopped:
        command.main(arguments)
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_missing_data_folder_is_an_error(tmp_path, capsys):
    absent = str(tmp_path / "absent")
    options = ["--data-dir", absent, "--results-dir", str(tmp_path)]
    assert command.main(["mnist", "--scheme", "lab", *options]) == 1
    assert absent in capsys.readouterr().err


def test_the_command_runs_and_then_refuses(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(command.RECIPES, "mnist", TINY)
    options = ["mnist", "--scheme", "lab", "bwn", "--epochs", "1", "--no-jit"]
    options += ["--results-dir", str(tmp_path), "--note", "made up"]
    assert command.main(options) == 0
    for scheme in ("lab", "bwn"):
        path = tmp_path / "mnist" / f"{scheme}-1.json"
        assert json.loads(path.read_text())["note"] == "made up"
    assert "epoch 1/1" in capsys.readouterr().err
    assert command.main(options) == 0  # Of several, finished ones are skipped.
    assert command.main([*options, "--scheme", "lab"]) == 1
    assert "not overwritten" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "budget", "count", "example"),
    [
        ("table1", "full", 21, ("cifar10", "bnn", {}, None)),
        ("table1", "small", 21, ("cifar10", "lab", {"width": 32}, 15)),
        ("table2", "full", 16, ("svhn", "bwn", {"width": 128}, None)),
        ("table2", "small", 8, ("svhn", "lab", {"width": 16}, 15)),
        ("table3", "full", 14, ("linux_kernel", "lab2", {"steps": 100}, None)),
        ("table4", "full", 16, ("war_and_peace", "lab", {"steps": 50}, None)),
        ("no_norm", "full", 7, ("mnist_no_norm", "lab", {}, None)),
    ],
)
def test_a_table_is_a_list_of_runs(table, budget, count, example):
    todo = [
        (job.recipe, job.scheme, job.sizes, job.epochs)
        for job in jobs(TABLES[table], budget)
    ]
    assert len(todo) == count
    assert example in todo
    for name, _, sizes, _ in todo:
        assert set(sizes) <= set(RECIPES[name].all_sizes)


# The report.


def write_result(folder, recipe, scheme, seed, values, **changes):
    """A result whose epochs have the given (validation, test) numbers."""
    plan = Plan(recipe, RECIPES[recipe], scheme, seed, **changes)
    measure = plan.recipe.task.measure
    content = {
        **plan.configuration(),
        "epochs_planned": plan.recipe.epochs,
        "epochs_done": len(values),
        "data": {"train": 20_000, "validation": 10_000, "test": 10_000},
        "history": {
            f"train_{measure}": [1.0] * len(values),
            f"validation_{measure}": [validation for validation, _ in values],
            f"test_{measure}": [test for _, test in values],
            "seconds": [2.0] * len(values),
        },
        "sessions": [
            {
                **{"commit": "abc", "machine": "M", "cores": 2, "python": "3"},
                **{"keras": "3", "tensorflow": "2", "numpy": "2"},
            }
        ],
    }
    content["selected"] = select(content["history"], measure)
    path = folder / plan.experiment / f"{scheme}-{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def row(page, title, first):
    """The cells of a row, in the section with that title."""
    section = page[page.index(f"## {title}") :].split("\n## ")[0]
    lines = [li for li in section.splitlines() if li.startswith(f"| {first} |")]
    return [cell.strip() for cell in lines[0].split("|")[2:-1]], section


def test_three_results_give_the_right_table(tmp_path, capsys):
    finished = [(2.0, 2.5)] * 49
    write_result(tmp_path, "mnist", "lab", 1, [(1.1, 1.25), *finished])
    write_result(tmp_path, "mnist", "lab", 2, [*finished, (1.2, 1.15)])
    write_result(
        tmp_path, "svhn", "bwn", 1, [(5.0, 4.0)] * 15, sizes={"width": 32}
    )
    assert report.main(["--results-dir", str(tmp_path)]) == 0
    assert "3 results" in capsys.readouterr().out
    page = (tmp_path / "README.md").read_text()

    cells, section = row(page, "Table 1", "LAB")
    mark = "<sup>2</sup>"
    assert cells[:2] == ["1.180", f"**1.20** ± 0.07 (2 runs, 50 epochs) {mark}"]
    assert cells[2:] == ["10.500", "not run", "2.354", "not run"]
    assert "2. 20,000 training examples instead of 50,000" in section
    cells, _ = row(page, "Table 1", "BWN")
    assert cells[:4] == ["1.310", "not run", "10.510", "not run"]
    assert cells[5] == "**4.00** (1 run, 15 epochs) <sup>1</sup>"
    assert (
        "1. width 32 instead of 64; 15 of the paper's 50 epochs; 20,000 "
        "training examples instead of 598,388"
    ) in section

    cells, section = row(page, "Table 2", "BWN")
    assert cells[:2] == ["3.119", "not run"]
    assert cells[2:4] == ["2.743", "**4.00** (1 run, 15 epochs) <sup>1</sup>"]
    assert "width 32 instead" not in section
    for scheme in WEIGHT_ONLY:
        cells, _ = row(page, "Table 4", SCHEMES[scheme].title)
        assert cells[1::2] == ["not run"] * 4
    assert "| mnist | LAB | 2 | 50 of 50 | 50 | 1.20 | 1.15 |" in page
    assert "![Figure 1: convergence of LAB](figures/convergence.png)" in page
    for figure in ("convergence", "width"):
        picture = matplotlib.image.imread(
            tmp_path / "figures" / f"{figure}.png"
        )
        assert picture.std() > 0.05


def test_a_study_shows_networks_of_one_size(tmp_path):
    """Not the 512 cells of Table 3 in one column and 128 in the others."""
    for scheme in ("lab", "bwn"):
        for steps in (10, 50, 100):
            sizes = {"cells": 128, "steps": steps}
            args = (tmp_path, "war_and_peace", scheme, 1, [(2.0, 2.0)])
            write_result(*args, sizes=sizes)
    runs = results.load(tmp_path)
    shown = results.shown_sizes(runs, TABLES["table3"])
    assert shown[0] == {"cells": 128, "steps": 100}
    for scheme in ("lab", "bwn"):
        write_result(tmp_path, "war_and_peace", scheme, 1, [(1.5, 1.4)])
    runs = results.load(tmp_path)
    shown = results.shown_sizes(runs, TABLES["table3"])
    assert shown[0] == {"cells": 512, "steps": 100}
    shown = results.shown_sizes(runs, TABLES["table4"])
    assert [size["cells"] for size in shown] == [128] * 4
    assert [size["steps"] for size in shown] == [10, 50, 100, 150]
    shown = results.shown_sizes(runs, TABLES["table3"])
    assert shown[1] == {"cells": 512, "steps": 100}


def test_an_unfinished_seed_is_left_out_of_the_mean(tmp_path):
    write_result(tmp_path, "mnist", "lab", 1, [(1.0, 1.0)] * 50)
    write_result(tmp_path, "mnist", "lab", 2, [(9.0, 9.0)] * 3)
    runs = results.load(tmp_path)
    cell = results.find(runs, "mnist", "lab", {"width": 2048})
    assert (cell.mean, cell.epochs, len(cell.runs)) == (1.0, 50, 1)


def test_a_run_that_diverged_is_called_so(tmp_path):
    write_result(tmp_path, "war_and_peace", "bnn", 1, [(None, None)] * 3)
    page = report.build_page(results.load(tmp_path), {})
    cells, _ = row(page, "Table 3", "BNN")
    assert cells[1].startswith("diverged")


@pytest.mark.parametrize("text", ["{", "{}", '{"recipe": "x"}'])
def test_a_file_that_is_no_result_is_named(tmp_path, text, capsys):
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "lab-1.json").write_text(text)
    assert report.main(["--results-dir", str(tmp_path)]) == 1
    assert "lab-1.json" in capsys.readouterr().err
    assert not (tmp_path / "README.md").exists()


def verdict(folder, start):
    (claim,) = [c for c in claims.CLAIMS if c.text.startswith(start)]
    return claim.check(results.load(folder))


def test_a_claim_is_decided_by_the_results(tmp_path):
    best = "MNIST: of the networks with binary weights LAB"
    assert verdict(tmp_path, best)[0] == "not run"
    for scheme in ("bwn", "binary_connect"):
        write_result(tmp_path, "mnist", scheme, 1, [(3.0, 3.0)] * 4)
    for error, expected in ((2.0, "agrees"), (2.9, "open"), (4.0, "does not")):
        # Two epochs more than the others had, which do not count.
        values = [(error, error)] * 4 + [(0.1, 0.1)] * 2
        write_result(tmp_path, "mnist", "lab", 1, values)
        assert verdict(tmp_path, best)[0] == expected
        assert (
            f"LAB {error:.2f} (4 epochs, 1 run each)"
            in verdict(tmp_path, best)[1]
        )


def test_claims_on_texts_compare_nats(tmp_path):
    for scheme, loss in (("full_precision", 1.6), ("bwn", 1.65), ("lab", 1.69)):
        write_result(tmp_path, "war_and_peace", scheme, 1, [(loss, loss)])
    close = "War and Peace, 100 steps: BWN and LAB"
    assert verdict(tmp_path, close)[0] == "agrees"
    write_result(tmp_path, "war_and_peace", "lab", 1, [(1.71, 1.71)])
    assert verdict(tmp_path, close)[0] == "does not"
    write_result(tmp_path, "war_and_peace", "binary_connect", 1, [(3.0, 2.9)])
    fails = "War and Peace, 100 steps: BinaryConnect"
    assert verdict(tmp_path, fails)[0] == "agrees"


def test_the_page_in_the_repository_is_that_of_its_results():
    folder = report.ROOT / "results" / "paper"
    if not folder.is_dir():
        pytest.skip("results/paper is not here")
    runs = results.load(folder)
    drawn = {
        drawing.name: f"figures/{drawing.name}.png"
        for drawings in figures.OF_TABLE.values()
        for drawing in drawings
        if drawing.draw(runs) is not None
    }
    assert (folder / "README.md").read_text() == report.build_page(runs, drawn)
    for file in drawn.values():
        assert (folder / file).is_file()
