"""Algorithm 1, step by step, against the float64 oracle."""

import keras
import numpy as np
import pytest

import keras_lab
from keras_lab._backend import backend
from keras_lab.binary_weight import weights_of
from tests.keras_lab import oracle
from tests.keras_lab.engine import NAME

STEPS = 50
# A power of two, so that Keras keeps it exactly in its float32 variable.
RATE = 2.0**-7


class HalvesEvery20Steps(keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step):
        return RATE * 0.5 ** keras.ops.floor(
            keras.ops.cast(step, "float64") / 20
        )


def dense_network(dtype, model=keras.Model):
    inputs = keras.Input((20,), dtype=dtype)
    x = inputs
    for units in (16, 12, 10):
        x = keras_lab.BinaryDense(units, use_bias=False, dtype=dtype)(x)
        x = keras.layers.ReLU(dtype=dtype)(x) if units > 10 else x
    layers = [oracle.Dense(), oracle.ReLU(), oracle.Dense(), oracle.ReLU()]
    return model(inputs, x), [*layers, oracle.Dense()]


def conv_network(dtype, model=keras.Model):
    inputs = keras.Input((6, 5, 2), dtype=dtype)
    options = {"use_bias": False, "dtype": dtype}
    x = keras_lab.BinaryConv2D(4, 3, padding="same", **options)(inputs)
    x = keras.layers.ReLU(dtype=dtype)(x)
    x = keras_lab.BinaryConv2D(3, (3, 1), padding="same", **options)(x)
    x = keras.layers.ReLU(dtype=dtype)(x)
    x = keras.layers.Flatten(dtype=dtype)(x)
    x = keras_lab.BinaryDense(10, **options)(x)
    layers = [oracle.Conv2D(), oracle.ReLU(), oracle.Conv2D(), oracle.ReLU()]
    return model(inputs, x), [*layers, oracle.Flatten(), oracle.Dense()]


def lstm_network(dtype, model=keras.Model):
    inputs = keras.Input((5, 4), dtype=dtype)
    options = {"use_bias": False, "dtype": dtype}
    x = keras_lab.BinaryLSTM(6, **options)(inputs)
    x = keras_lab.BinaryDense(10, **options)(x)
    return model(inputs, x), [oracle.LSTM(), oracle.Dense()]


NETWORKS = {"dense": dense_network, "conv": conv_network, "lstm": lstm_network}


def batches(rng, model):
    x = rng.normal(size=(STEPS, 8, *model.input_shape[1:]))
    labels = rng.integers(0, 10, (STEPS, 8, 1))
    return x, np.where(labels == np.arange(10), 1.0, -1.0)


def train_in_loop(model, x, y, after_step):
    variables = model.trainable_variables
    for batch_x, batch_y in zip(x, y):
        gradients = backend.gradients(
            lambda: model.loss(batch_y, model(batch_x, training=True)),
            variables,
        )
        model.optimizer.apply_gradients(zip(gradients, variables))
        after_step()


def train_with_fit(model, x, y, after_step):
    def on_train_batch_end(batch, logs):
        backend.sync(model)
        after_step()

    callback = keras.callbacks.LambdaCallback(
        on_train_batch_end=on_train_batch_end
    )
    # Of arrays, Keras would make float32.
    batches = (pair for pair in zip(x, y))
    model.fit(batches, steps_per_epoch=STEPS, callbacks=[callback], verbose=0)


def run(network, dtype, learning_rate, model, train, rng):
    one = keras.ops.ones((1, 1), dtype)
    product = keras.ops.matmul(one, one)
    if keras.backend.standardize_dtype(product.dtype) != dtype:
        pytest.skip("Keras multiplies float64 in float32 on this backend")
    if (network, dtype, NAME) == ("lstm", "float64", "jax"):
        pytest.skip("Keras' recurrent layers of float64 use float32 on JAX")
    model, layers = NETWORKS[network](dtype, model)
    optimizer = keras_lab.LABAdam(learning_rate)
    model.compile(optimizer, keras.losses.SquaredHinge(dtype=dtype))
    x, y = batches(rng, model)
    weights = weights_of(model.variables)
    reference = oracle.Algorithm1(layers, [w.latent for w in weights])
    seen = []

    def after_step():
        seen.append([(np.array(w.latent), np.array(w.alpha)) for w in weights])

    train(model, x.astype(dtype), y.astype(dtype), after_step)
    assert len(seen) == STEPS
    for step, state in enumerate(seen):
        rate = float(learning_rate(step)) if callable(learning_rate) else RATE
        reference.step(x[step], y[step], rate)
        yield state, reference


WAYS = {
    "fit": (keras.Model, train_with_fit),
    "LABModel": (keras_lab.LABModel, train_with_fit),
    "loop": (keras.Model, train_in_loop),
}


def setting(network, dtype, way, rate):
    """By default, what another one does not prove as well.

    On TensorFlow nearly all run in float64, and `fit` in float32, too. On JAX a
    loop compiles each of its operations by itself.
    """
    tolerance = {"float64": 1e-9, "float32": 1e-5}[dtype]
    again = (way != "fit") + callable(rate)
    slow = {
        "tensorflow": again == 2 or (again and dtype == "float32"),
        "jax": way == "loop" and (network != "dense" or callable(rate)),
    }
    return pytest.param(
        network,
        dtype,
        tolerance,
        *WAYS[way],
        rate,
        id=f"{dtype}-{way}-{'schedule' if callable(rate) else rate}-{network}",
        marks=pytest.mark.slow if slow.get(NAME) else (),
    )


@pytest.mark.parametrize(
    ("network", "dtype", "tolerance", "model", "train", "rate"),
    [
        setting(network, dtype, way, rate)
        for network in NETWORKS
        for dtype in ("float64", "float32")
        for way in WAYS
        for rate in (RATE, HalvesEvery20Steps())
    ],
)
def test_training_follows_algorithm_1_at_every_step(
    rng, network, rate, model, train, dtype, tolerance
):
    for state, reference in run(network, dtype, rate, model, train, rng):
        expected = zip(state, reference.w, reference.alphas())
        for (w, alpha), expected_w, expected_alpha in expected:
            error = np.linalg.norm(w - expected_w) / np.linalg.norm(expected_w)
            assert error <= tolerance
            np.testing.assert_allclose(alpha, expected_alpha, rtol=tolerance)
