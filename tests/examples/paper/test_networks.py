"""The paper's networks and learning rates."""

import itertools
import math

import numpy as np
import pytest

from examples.paper.networks import StdBatchNormalization
from examples.paper.recipes import RECIPES
from examples.paper.schemes import SCHEMES
from keras_lab import binary_weights


def kernels_of(model):
    return [layer for layer in model.layers if hasattr(layer, "kernel")]


def vgg_sizes(k):
    """(2×K C3)-MP2-(2×2K C3)-MP2-(2×4K C3)-MP2-(2×1024FC)-10SVM."""
    filters = [3, k, k, 2 * k, 2 * k, 4 * k, 4 * k]
    conv = [9 * inputs * out for inputs, out in itertools.pairwise(filters)]
    return [*conv, 4 * 4 * 4 * k * 1024, 1024 * 1024, 1024 * 10]


MLP_SIZES = [784 * 2048, 2048**2, 2048**2, 2048 * 10]


@pytest.mark.parametrize(
    ("name", "kernels", "others"),
    [
        # Batch norm has four numbers per unit; without it there are biases.
        ("mnist", MLP_SIZES, 4 * (3 * 2048 + 10)),
        ("mnist_no_norm", MLP_SIZES, 3 * 2048 + 10),
        ("cifar10", vgg_sizes(128), 4 * (2 * 7 * 128 + 2 * 1024 + 10)),
        ("svhn", vgg_sizes(64), 4 * (2 * 7 * 64 + 2 * 1024 + 10)),
    ],
)
def test_a_recipe_builds_the_papers_network(name, kernels, others):
    model = RECIPES[name].build(SCHEMES["lab"], classes=10)
    sizes = [math.prod(layer.kernel.shape) for layer in kernels_of(model)]
    assert sizes == kernels
    assert len(binary_weights(model)) == len(kernels)
    # Each kernel has one α.
    assert model.count_params() == sum(kernels) + others + len(kernels)


def test_a_recipe_builds_the_papers_lstm():
    symbols, cells = 101, 512
    model = RECIPES["linux_kernel"].build(SCHEMES["lab"], classes=symbols)
    lstm = [4 * symbols * cells, 4 * cells**2, 4 * cells, 4, 4]
    sizes = [math.prod(weight.shape) for weight in model.weights]
    assert sorted(sizes) == sorted([*lstm, cells * symbols, symbols])
    # The softmax layer is not binary.
    names = ["lstm/kernel", "lstm/recurrent_kernel"]
    assert list(binary_weights(model)) == names
    assert model.optimizer.clipvalue == 5.0


@pytest.mark.parametrize("scheme", ["full_precision", "lab", "lab2"])
@pytest.mark.parametrize("follow", ["paper", "code"])
def test_the_lstm_binarizes_what_the_paper_or_the_code_says(scheme, follow):
    recipe = RECIPES["war_and_peace"].following(follow)
    cell = recipe.build(SCHEMES[scheme], 5, cells=4).get_layer("lstm").cell
    signs = scheme == "lab2"
    in_product = cell.input_quantizer is not None
    assert in_product == (signs and follow == "paper")
    at_output = type(cell.activation).__name__ == "SignActivation"
    assert at_output == (signs and follow == "code")
    assert (cell.kernel_quantizer is None) == (scheme == "full_precision")


def test_the_lstms_weights_start_uniform_in_the_papers_range():
    recipe = RECIPES["war_and_peace"]
    model = recipe.build(SCHEMES["lab"], 87)
    cell, softmax = model.get_layer("lstm").cell, model.get_layer("softmax")
    for weight in (cell.kernel, cell.recurrent_kernel, softmax.kernel):
        kernel = weight.numpy()
        assert 0.0799 < np.abs(kernel).max() <= 0.08
        assert kernel.std() == pytest.approx(0.08 / math.sqrt(3), rel=0.02)
    # Forget gates start open.
    bias = cell.bias.numpy().reshape(4, -1)
    np.testing.assert_array_equal(bias.mean(axis=1), [0, 1, 0, 0])
    # The authors' softmax layer starts from a narrow normal distribution.
    model = recipe.following("code").build(SCHEMES["lab"], 87)
    kernel = model.get_layer("softmax").kernel.numpy()
    assert kernel.std() == pytest.approx(0.01, rel=0.02)
    assert np.abs(kernel).max() > 0.03


@pytest.mark.parametrize(
    ("scheme", "follow", "clipped"),
    [("full_precision", "paper", [1, 1, 1]), ("lab", "code", [1, 1, 0])],
)
def test_of_the_lstm_the_paper_clips_all_weights(scheme, follow, clipped):
    recipe = RECIPES["war_and_peace"].following(follow)
    model = recipe.build(SCHEMES[scheme], 5, jit_compile=False, cells=4)
    cell, softmax = model.get_layer("lstm").cell, model.get_layer("softmax")
    kernels = (cell.kernel, cell.recurrent_kernel, softmax.kernel)
    for kernel in kernels:
        kernel.assign(2 * np.ones(kernel.shape))
    model.run_eagerly = True  # Faster than tracing for one step.
    model.train_on_batch(np.zeros((2, 3)), np.zeros((2, 3)))
    largest = [np.abs(kernel.numpy()).max() for kernel in kernels]
    assert [value == 1 for value in largest] == clipped


@pytest.mark.parametrize(
    ("scheme", "quantizer", "binary"),
    [
        ("full_precision", "NoneType", False),
        ("binary_connect", "BinaryConnect", False),
        ("bwn", "BWN", False),
        ("lab", "LAB", False),
        ("bnn", "BinaryConnect", True),
        ("xnor", "BWN", True),
        ("lab2", "LAB", True),
    ],
)
def test_a_scheme_binarizes_what_the_paper_says(scheme, quantizer, binary):
    model = RECIPES["svhn"].build(SCHEMES[scheme], 10, width=4)
    layers = kernels_of(model)
    kinds = {type(layer.kernel_quantizer).__name__ for layer in layers}
    assert kinds == {quantizer}
    signs = [layer.input_quantizer is not None for layer in layers]
    assert signs == [False] + [binary] * (len(layers) - 1)
    # Pooling comes before batch norm, and a sign needs no ReLU before it.
    relu = [] if binary else ["ReLU"]
    block = ["BinaryConv2D", "BatchNormalization", *relu, "BinaryConv2D"]
    block += ["MaxPooling2D", "BatchNormalization", *relu]
    dense = ["BinaryDense", "BatchNormalization"]
    names = [type(layer).__name__ for layer in model.layers]
    assert names == [*3 * block, "Flatten", *2 * (dense + relu), *dense]


@pytest.mark.parametrize(
    ("scheme", "follow", "share"),
    [
        ("lab", "paper", 1),
        ("lab", "code", 0.5),
        ("full_precision", "code", 1),
    ],
)
def test_weights_start_uniform_within_glorots_limit(scheme, follow, share):
    recipe = RECIPES["svhn"].following(follow)
    model = recipe.build(SCHEMES[scheme], 10, width=32)
    for name, fans in (("dense_2", 1024 + 1024), ("conv_1b", 9 * (32 + 32))):
        kernel = model.get_layer(name).kernel.numpy()
        limit = share * math.sqrt(6 / fans)
        assert 0.99 * limit < np.abs(kernel).max() <= limit
        assert kernel.std() == pytest.approx(limit / math.sqrt(3), rel=0.02)
    norm = [type(layer) for layer in model.layers].count(StdBatchNormalization)
    assert norm == (9 if follow == "code" else 0)


def test_the_authors_batch_norm_divides_by_deviation_plus_epsilon(rng):
    layer = StdBatchNormalization()
    x = rng.normal(3, 2, (50, 4, 4, 6))
    layer.build(x.shape)
    gamma, beta = rng.normal(size=(2, 6))
    layer.gamma.assign(gamma)
    layer.beta.assign(beta)
    mean, std = x.mean(axis=(0, 1, 2)), x.std(axis=(0, 1, 2))
    got = layer(x.astype("float32"), training=True)
    expected = gamma * (x - mean) / (std + 1e-4) + beta
    np.testing.assert_allclose(got, expected, atol=1e-4)
    # The running averages start at 0 and 1.
    mean, std = 0.1 * mean, 0.9 + 0.1 * std
    expected = gamma * (x - mean) / (std + 1e-4) + beta
    np.testing.assert_allclose(layer(x.astype("float32")), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "epochs", "rate", "sign_rate", "factors"),
    [
        ("mnist", 50, 0.01, 0.005, {15: 1, 16: 0.1, 25: 0.1, 26: 0.01}),
        ("cifar10", 200, 0.03, 0.02, {15: 1, 16: 0.5, 31: 0.25, 46: 0.125}),
        ("svhn", 50, 0.001, 0.0005, {15: 1, 16: 0.1, 26: 0.01}),
        ("war_and_peace_short", 10, 0.002, 0.002, {2: 0.65, 10: 0.65**9}),
        # ×0.98 after each epoch beyond the tenth: 12 is the first reduced one.
        ("war_and_peace", 200, 0.002, 0.002, {11: 1, 12: 0.98, 13: 0.98**2}),
    ],
)
def test_epochs_have_the_papers_learning_rate(
    name, epochs, rate, sign_rate, factors
):
    recipe = RECIPES[name]
    assert recipe.epochs == epochs
    for scheme in SCHEMES.values():
        first = sign_rate if scheme.input_quantizer else rate
        assert recipe.first_rate(scheme) == first
    for epoch, factor in {1: 1, **factors}.items():
        assert recipe.decay(epoch) == pytest.approx(factor, rel=1e-12)


def test_the_authors_code_has_another_rate_and_normalization():
    theirs = RECIPES["svhn"].following("code").data
    assert theirs.keywords == {"first_channel_only": True}
    recipe = RECIPES["cifar10"].following("code")
    assert recipe.first_rate(SCHEMES["lab"]) == 0.02
