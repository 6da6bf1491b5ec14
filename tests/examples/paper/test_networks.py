"""The paper's networks and learning rates."""

import math

import keras
import numpy as np
import pytest

from examples.paper.networks import Parts, StdBatchNormalization
from examples.paper.recipes import RECIPES
from examples.paper.schemes import SCHEMES
from keras_lab import binary_weights


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
    assert len(binary_weights(model)) == len(kernels)
    # Batch norm has four numbers per unit, each kernel one α; no biases.
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
    # The softmax layer is not binary.
    names = ["lstm/kernel", "lstm/recurrent_kernel"]
    assert list(binary_weights(model)) == names
    assert model.optimizer.clipvalue == 5.0


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
    # The authors' softmax layer starts from a narrow normal distribution.
    model = RECIPES["war_and_peace"].build(SCHEMES["lab"], 87, "code")
    kernel = model.get_layer("softmax").kernel.numpy()
    assert kernel.std() == pytest.approx(0.01, rel=0.02)
    assert np.abs(kernel).max() > 0.03


@pytest.mark.parametrize(
    ("scheme", "follow", "clipped"),
    [
        ("full_precision", "paper", [True, True, True]),
        ("lab", "code", [True, True, False]),
        pytest.param(
            *("lab", "paper", [True, True, True]), marks=pytest.mark.slow
        ),
        pytest.param(
            *("full_precision", "code", [False, False, False]),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_of_the_lstm_the_paper_clips_all_weights(scheme, follow, clipped):
    model = RECIPES["war_and_peace"].build(
        SCHEMES[scheme], 5, follow, jit_compile=False, cells=4
    )
    cell = model.get_layer("lstm").cell
    softmax = model.get_layer("softmax")
    kernels = (cell.kernel, cell.recurrent_kernel, softmax.kernel)
    for kernel in kernels:
        kernel.assign(2 * np.ones(kernel.shape))
    model.train_on_batch(np.zeros((2, 3)), np.zeros((2, 3)))
    largest = [np.abs(kernel.numpy()).max() for kernel in kernels]
    assert [value == 1 for value in largest] == clipped


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


@pytest.mark.parametrize(
    ("name", "epochs", "rate", "sign_rate", "factors"),
    [
        ("mnist", 50, 0.01, 0.005, {15: 1, 16: 0.1, 25: 0.1, 26: 0.01}),
        ("cifar10", 200, 0.03, 0.02, {15: 1, 16: 0.5, 31: 0.25, 46: 0.125}),
        ("svhn", 50, 0.001, 0.0005, {15: 1, 16: 0.1, 25: 0.1, 26: 0.01}),
        # ×0.98 after each epoch beyond the tenth: 12 is the first reduced one.
        ("war_and_peace", 200, 0.002, 0.002, {11: 1, 12: 0.98, 13: 0.98**2}),
        ("linux_kernel", 200, 0.002, 0.002, {11: 1, 12: 0.98, 200: 0.98**189}),
    ],
)
def test_epochs_have_the_papers_learning_rate(
    name, epochs, rate, sign_rate, factors
):
    recipe = RECIPES[name]
    assert recipe.epochs == epochs
    for scheme in SCHEMES.values():
        first = sign_rate if scheme.input_quantizer else rate
        for epoch, factor in {1: 1, **factors}.items():
            assert recipe.learning_rate(scheme, epoch) == pytest.approx(
                first * factor, rel=1e-12
            )


def test_the_short_schedule_falls_as_far_as_the_papers():
    paper, short = RECIPES["war_and_peace"], RECIPES["war_and_peace_short"]
    for recipe in (paper, short):
        rate = recipe.learning_rate(SCHEMES["lab"], recipe.epochs)
        assert rate == pytest.approx(0.02 * 0.002, rel=0.1)
        assert recipe.learning_rate(SCHEMES["lab"], 1) == 0.002
    assert short.epochs == paper.epochs / 20


def test_the_authors_code_is_an_option():
    theirs = RECIPES["svhn"].following("code").data
    assert theirs.keywords == {"first_channel_only": True}
    recipe = RECIPES["cifar10"].following("code")
    assert recipe.learning_rate(SCHEMES["lab"], 1) == 0.02
    parts = Parts(SCHEMES["lab"], follow="code")
    assert isinstance(parts.normalize()[0], StdBatchNormalization)
