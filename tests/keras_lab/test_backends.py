"""What holds on every backend of Keras. `.ci/run` runs it on all three."""

import warnings

import keras
import numpy as np
import pytest

import keras_lab
from keras_lab.binary_weight import weights_of
from tests.keras_lab.engine import compiled
from tests.keras_lab.layers.cases import make
from tests.keras_lab.networks import (
    alpha_of,
    check_alpha_is_mean,
    check_alphas,
    data,
    network,
    train,
)
from tests.keras_lab.support import random

K = keras_lab


@pytest.mark.parametrize("case", ["dense", "conv2d", "separable", "lstm"])
@pytest.mark.parametrize(
    "quantizer", ["lab", "binary_connect", K.LAB(scale="channel")], ids=str
)
def test_a_layer_can_be_built_inside_a_compiled_function(case, quantizer):
    layer, shape = make(case, kernel_quantizer=quantizer)
    x, run = random(shape), compiled(layer)
    first, second = (keras.ops.convert_to_numpy(run(x)) for _ in range(2))
    eager = keras.ops.convert_to_numpy(layer(x))
    np.testing.assert_allclose(first, eager, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(first, second)
    check_alphas(layer)


def test_weights_loaded_into_a_trained_model_are_no_false_alarm(tmp_path):
    old, new = network(), network(seed=2)
    train(old, K.LABAdam(0.01))
    old.save_weights(tmp_path / "a.weights.h5")
    train(new, K.LABAdam(0.02))
    new.load_weights(tmp_path / "a.weights.h5")
    check_alphas(new)
    train(new)
    check_alphas(new)


def test_a_file_saved_while_averages_are_swapped_in_has_their_alpha(tmp_path):
    model = network()
    optimizer = K.LABAdam(0.05, use_ema=True, ema_momentum=0.9)
    model.compile(optimizer, "squared_hinge")
    x, y = data()
    swap = keras.callbacks.SwapEMAWeights(swap_on_epoch=True)
    path = tmp_path / "swapped.weights.h5"
    save = keras.callbacks.ModelCheckpoint(path, save_weights_only=True)
    model.fit(x, y, batch_size=16, epochs=2, callbacks=[swap, save], verbose=0)
    loaded = network()
    loaded.load_weights(path)
    for weight in weights_of(loaded.variables):
        (own,) = (
            w
            for w in weights_of(model.variables)
            if w.latent.shape == weight.latent.shape
        )
        d = keras.ops.convert_to_numpy(optimizer.curvature(own.latent))
        expected = alpha_of(weight, d)
        np.testing.assert_allclose(weight.alpha, expected, rtol=1e-4)


def test_averages_of_another_optimizer_have_their_own_alpha():
    """On JAX the optimizer averages α itself, which is not mean|average|."""
    model = network()
    adam = keras.optimizers.Adam(0.05, use_ema=True, ema_momentum=0.5)
    with pytest.warns(UserWarning, match="uniform"):
        train(model, adam)
    if keras.config.backend() != "jax":
        K.refresh(model)
    check_alpha_is_mean(model, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:The optimizer does not provide")
def test_a_layer_that_two_models_train_has_the_alpha_of_the_last_one():
    shared, (x, y) = K.BinaryDense(12), data()
    models = {}
    for kind in (K.LABAdam, keras.optimizers.Adam):
        model = keras.Sequential([keras.Input(x.shape[1:]), shared])
        model.add(keras.layers.Dense(y.shape[-1]))
        model.compile(kind(0.01), "mse")
        models[kind] = model
    for kind in (K.LABAdam, keras.optimizers.Adam, K.LABAdam, K.LABAdam):
        models[kind].fit(x, y, verbose=0)
    # Compiled steps know nothing of each other.
    curvature = models[K.LABAdam].optimizer.curvature(shared.kernel)
    (weight,) = shared.binary_weights.values()
    d = keras.ops.convert_to_numpy(curvature)
    np.testing.assert_allclose(weight.alpha, alpha_of(weight, d), rtol=1e-5)


@pytest.mark.filterwarnings("ignore:The optimizer does not provide")
def test_weights_set_in_a_model_that_adam_trained_keep_their_alpha():
    source, target = network(), network(seed=2)
    train(source, K.LABAdam(0.01))
    train(target, keras.optimizers.Adam(0.01))
    target.set_weights(source.get_weights())
    for one, other in zip(source.get_weights(), target.get_weights()):
        np.testing.assert_array_equal(one, other)


def test_nothing_to_train_is_no_error():
    K.LABAdam().apply([], [])


def test_labadam_under_a_multi_optimizer_gives_its_curvature():
    model = network()
    chosen = keras.optimizers.OptimizerMap(
        keras.optimizers.SGD(0.01), {".*kernel": K.LABAdam(0.01)}
    )
    monitor = K.callbacks.BinaryMonitor()
    model.compile(keras.optimizers.MultiOptimizer(chosen), "squared_hinge")
    x, y = data()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", ".*(donated|__array__).*")
        model.fit(x, y, callbacks=[monitor], verbose=0)
    assert all(row["d_median"] > 0 for row in monitor.history)
    check_alphas(model)


def test_a_scale_of_another_shape_is_refused_by_name(tmp_path):
    old, new = network(), network(K.LAB(scale="channel"))
    old.save_weights(tmp_path / "a.weights.h5")
    with pytest.raises(ValueError, match="'tensor' or 'channel'"):
        new.load_weights(tmp_path / "a.weights.h5")
