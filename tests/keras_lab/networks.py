"""A small network, its data, and checks that several tests share."""

import keras
import numpy as np

import keras_lab
from keras_lab.binary_weight import weights_of
from tests.keras_lab.engine import FEW_STEPS, MANY_STEPS
from tests.keras_lab.support import sequential


def data():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(64, 12)).astype("float32")
    y = np.where(rng.integers(0, 4, (64, 1)) == np.arange(4), 1.0, -1.0)
    return x, y.astype("float32")


def network(quantizer="lab", seed=1, **options):
    keras.utils.set_random_seed(seed)
    options["kernel_quantizer"] = quantizer
    return sequential(
        (12,),
        # No bias: batch norm would leave it a gradient of rounding errors.
        keras_lab.BinaryDense(16, use_bias=False, **options),
        keras.layers.BatchNormalization(),
        keras.layers.ReLU(),
        keras_lab.BinaryDense(4, **options),
    )


def train(model, optimizer=None, epochs=2, batch_size=16, **compile_options):
    if optimizer is not None:
        # So few steps take less time than tracing one, but not on JAX.
        quick = FEW_STEPS
        if compile_options or keras.config.backend() != "tensorflow":
            quick = MANY_STEPS
        compile_options = {**quick, **compile_options}
        model.compile(optimizer, "squared_hinge", **compile_options)
    x, y = data()
    return model.fit(
        x, y, batch_size=batch_size, epochs=epochs, shuffle=False, verbose=0
    )


def check_alphas(model):
    """No scale is out of date."""
    weights = weights_of(model.variables)
    assert weights
    for weight in weights:
        weight.check_alpha()


def alpha_of(weight, d=None):
    """The α of the paper's formula in float64; without d that of BWN."""
    if isinstance(weight.quantizer, keras_lab.BinaryConnect):
        return np.ones(weight.alpha.shape)
    w = np.reshape(weight.latent.numpy().astype("float64"), weight.shape)
    if d is None or not weight.quantizer.needs_curvature:
        d = np.ones(w.shape)
    d = np.reshape(np.asarray(d, "float64"), w.shape)
    axes = tuple(axis for axis in range(w.ndim) if axis not in weight.keep)
    return np.sum(d * np.abs(w), axis=axes) / np.sum(d, axis=axes)


def check_alpha_is_true(model, optimizer, rtol=1e-5):
    weights = weights_of(model.variables)
    assert weights
    for weight in weights:
        d = np.asarray(optimizer.curvature(weight.latent))
        assert np.ptp(d) > 0
        np.testing.assert_allclose(weight.alpha, alpha_of(weight, d), rtol)


def check_alpha_is_mean(model, rtol=1e-6):
    weights = weights_of(model.variables)
    assert weights
    for weight in weights:
        np.testing.assert_allclose(weight.alpha, alpha_of(weight), rtol)


def check_same(one, other, rtol=0.0, atol=0.0):
    for a, b in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
