"""A binary weight keeps its scale up to date, or says that it is not."""

import itertools
import warnings

import keras
import numpy as np
import pytest

import keras_lab
from keras_lab._backend import backend
from keras_lab.binary_weight import full_precision, weights_of
from keras_lab.quantizers import LAB
from tests.keras_lab.networks import (
    alpha_of,
    check_alpha_is_mean,
    check_alphas,
    check_same,
    data,
    network,
    train,
)
from tests.keras_lab.support import random, sequential

QUANTIZERS = ("lab", "bwn", "binary_connect")


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_foreign_optimizer_makes_lab_bwn_and_says_so_once(optimizer):
    networks = network("lab"), network("bwn")
    for model, expected in zip(networks, (1, 0)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            train(model, optimizer, epochs=1, run_eagerly=True)
        messages = [str(w.message) for w in caught]
        assert sum("BWN" in message for message in messages) == expected
        check_alpha_is_mean(model)
    check_same(*networks)


def test_a_foreign_optimizer_gets_the_alpha_of_the_clipped_weight():
    model = network("bwn")
    train(model, keras.optimizers.SGD(100.0))
    for weight in weights_of(model.variables):
        assert np.mean(np.abs(weight.latent.numpy()) == 1) > 0.1
    check_alpha_is_mean(model, rtol=1e-5)


@pytest.mark.parametrize("quantizer", QUANTIZERS)
@pytest.mark.filterwarnings("ignore:.*BWN")
def test_with_a_foreign_optimizer_a_nan_among_the_weights_shows(quantizer):
    model = network(quantizer)
    model.compile(keras.optimizers.SGD(0.1), "squared_hinge")
    model.layers[1].trainable = False
    x, y = data()
    model.train_on_batch(np.full_like(x, np.nan), y)
    assert np.isnan(model.train_on_batch(x, y))


def test_another_optimizer_after_labadam_takes_over():
    model = network()
    train(model, keras_lab.LABAdam(0.01))
    with pytest.warns(UserWarning, match="BWN"):
        train(model, keras.optimizers.SGD(0.1))
    check_alpha_is_mean(model)


def test_alpha_stays_until_a_new_optimizer_takes_its_first_step():
    model = network()
    train(model, keras_lab.LABAdam(0.01))
    before = [w.alpha.numpy() for w in weights_of(model.variables)]
    optimizer = keras_lab.LABAdam(0.001)
    optimizer.build(model.trainable_variables)
    check_alphas(model)
    for weight, alpha in zip(weights_of(model.variables), before):
        np.testing.assert_array_equal(weight.scale_to_save(), alpha)


def test_a_step_that_keras_refuses_changes_nothing():
    model = network()
    model.layers[0].trainable = False
    train(model, keras_lab.LABAdam(0.01))
    model.layers[0].trainable = True
    before = [w.alpha.numpy() for w in weights_of(model.variables)]
    variables = model.trainable_variables
    gradients = [keras.ops.ones(v.shape) for v in variables]
    with pytest.raises(ValueError, match=r"[Uu]nknown variable"):
        model.optimizer.apply(gradients, variables)
    keras_lab.refresh(model)
    after = [w.alpha.numpy() for w in weights_of(model.variables)]
    np.testing.assert_allclose(after, before, rtol=1e-5)


def test_gradients_of_the_scales_may_be_left_out(rng):
    model, optimizer = network(), keras_lab.LABAdam(0.01)
    optimizer.build(model.trainable_variables)
    weights = weights_of(model.variables)
    scales = {id(weight.alpha) for weight in weights}
    variables = [v for v in model.trainable_variables if id(v) not in scales]
    gradients = [rng.normal(size=v.shape).astype("float32") for v in variables]
    optimizer.apply(list(map(keras.ops.convert_to_tensor, gradients)))
    for weight in weights:
        d = optimizer.curvature(weight.latent)
        alpha = alpha_of(weight, keras.ops.convert_to_numpy(d))
        np.testing.assert_allclose(weight.alpha, alpha, rtol=1e-5)
        assert abs(alpha / alpha_of(weight) - 1) > 1e-4


def test_a_foreign_optimizer_on_two_replicas_keeps_alpha_true(strategy):
    with strategy.scope():
        model = network("bwn")
        model.compile(keras.optimizers.SGD(0.1), "squared_hinge")
    train(model)
    check_alpha_is_mean(model)


def dense_model(quantizer, **options):
    layer = keras_lab.BinaryDense(5, kernel_quantizer=quantizer, **options)
    return sequential((6,), layer)


def lstm_model(quantizer):
    return sequential(
        (3, 6), keras_lab.BinaryLSTM(5, kernel_quantizer=quantizer)
    )


def stack_model(quantizer):
    cells = [
        keras_lab.BinaryLSTMCell(5, kernel_quantizer=quantizer),
        keras_lab.BinaryGRUCell(4, kernel_quantizer=quantizer),
    ]
    return sequential((3, 6), keras_lab.BinaryRNN(cells))


each_model = pytest.mark.parametrize(
    "make", [dense_model, lstm_model, stack_model]
)


def trained(make, quantizer):
    """A model with clipped weights and the α of an uneven curvature."""
    model, rng = make(quantizer), np.random.default_rng(1)
    for weight in weights_of(model.weights):
        shape = weight.latent.shape
        weight.latent.assign(np.clip(rng.normal(size=shape), -1, 1))
        weight.refresh(rng.gamma(0.5, size=shape) + 1e-3)
    return model


@each_model
@pytest.mark.parametrize(
    "how", ["load_weights", "layer.set_weights", "set_weights"]
)
@pytest.mark.parametrize(
    ("source", "target"), [*itertools.permutations(QUANTIZERS, 2)]
)
@pytest.mark.filterwarnings("ignore:The scale that was loaded")
def test_values_of_another_quantizer_give_a_true_alpha(
    make, how, source, target, tmp_path
):
    old, new = trained(make, source), make(target)
    if how == "load_weights":
        old.save_weights(tmp_path / "model.weights.h5")
        new.load_weights(tmp_path / "model.weights.h5")
    elif how == "layer.set_weights":
        new.layers[0].set_weights(old.layers[0].get_weights())
    else:
        new.set_weights(old.get_weights())
    for a, b in zip(weights_of(old.weights), weights_of(new.weights)):
        np.testing.assert_array_equal(a.latent, b.latent)
    check_alpha_is_mean(new, rtol=1e-5)
    check_alphas(new)


@pytest.mark.parametrize("quantizer", QUANTIZERS)
def test_values_of_the_same_quantizer_come_back_to_the_bit(quantizer, tmp_path):
    old, new = trained(dense_model, quantizer), dense_model(quantizer)
    old.save_weights(tmp_path / "model.weights.h5")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        new.load_weights(tmp_path / "model.weights.h5")
    check_same(old, new)


def test_lab_says_that_it_cannot_use_the_alpha_of_binary_connect():
    old, new = trained(dense_model, "binary_connect"), dense_model("lab")
    assert np.abs(old.layers[0].kernel.numpy()).max() == 1
    with pytest.warns(UserWarning, match="does not belong"):
        new.layers[0].set_weights(old.layers[0].get_weights())


@each_model
@pytest.mark.parametrize("quantizer", [*QUANTIZERS, LAB(scale="channel")])
def test_a_scale_that_is_out_of_date_is_an_error_until_refreshed(
    make, quantizer
):
    model = make(quantizer)
    weights = weights_of(model.weights)
    for weight in weights:
        weight.check_alpha()
        if quantizer == "binary_connect":
            weight.alpha.assign_unchecked(0.187 * weight.alpha)
        else:
            weight.latent.assign(0.01 * weight.latent)
        with pytest.raises(ValueError, match=r"keras_lab\.refresh\(model\)"):
            weight.check_alpha()
    keras_lab.refresh(model)
    check_alphas(model)


def test_a_scale_that_is_nan_is_an_error_and_is_not_loaded():
    model = dense_model("lab")
    (weight,) = weights_of(model.weights)
    weight.alpha.assign_unchecked(np.nan)
    with pytest.raises(ValueError, match="alpha=nan"):
        weight.check_alpha()
    with pytest.warns(UserWarning, match="does not belong"):
        weight.alpha.assign(np.nan)
    check_alpha_is_mean(model)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
@pytest.mark.parametrize("quantizer", QUANTIZERS)
def test_a_true_scale_of_any_dtype_is_accepted(dtype, quantizer):
    check_alphas(dense_model(quantizer, dtype=dtype))


def test_the_scale_of_a_half_that_labadam_has_trained_is_accepted():
    model = network(dtype="bfloat16")
    train(model, keras_lab.LABAdam(0.01), run_eagerly=False)
    check_alphas(model)


def test_in_full_precision_the_latent_weight_is_used_and_gets_the_gradient():
    layer = keras_lab.BinaryDense(5, use_bias=False)
    layer.build((None, 7))
    x, upstream = random((3, 7)), random((3, 5), 1)

    def product():
        return keras.ops.sum(keras.ops.multiply(layer(x), upstream))

    with full_precision(weights_of(layer.weights)):
        outputs = layer(x)
        (gradient,) = backend.gradients(product, [layer.kernel])
    np.testing.assert_allclose(outputs, x @ layer.kernel.numpy(), rtol=1e-5)
    np.testing.assert_allclose(gradient, x.T @ upstream, rtol=1e-5)
    assert np.unique(np.abs(np.asarray(layer.binary_kernel))).size == 1
