"""FlipRatio counts the signs that a step flips."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_lab
from keras_lab.metrics import FlipRatio


def network(name="dense"):
    layer = keras_lab.BinaryDense(10, name=name)
    return keras.Sequential([keras.Input((20,)), layer])


def data():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(64, 20)).astype("float32")
    return x, np.sign(rng.normal(size=(64, 10))).astype("float32")


def compiled(model, **options):
    model.compile(
        keras_lab.LABAdam(0.05),
        "squared_hinge",
        metrics=[FlipRatio(model)],
        **options,
    )
    return model


def expected_ratios(model, epochs, batch=16):
    """By hand: the flips of each step, a mean over the steps of an epoch."""
    (x, y), (kernel, *_) = data(), model.trainable_variables
    ratios, before = [], None
    for _ in range(epochs):
        flips = []
        for start in range(0, len(x), batch):
            model.train_on_batch(
                x[start : start + batch], y[start : start + batch]
            )
            signs = kernel.numpy() >= 0
            if before is not None:
                flips.append(np.mean(signs != before))
            before = signs
        ratios.append(np.mean(flips))
    return ratios


@pytest.mark.parametrize("jit_compile", [True, False])
def test_it_is_the_mean_share_of_signs_that_the_steps_of_an_epoch_flip(
    jit_compile,
):
    model = network()
    weights = model.get_weights()
    model.compile(keras_lab.LABAdam(0.05), "squared_hinge", jit_compile=False)
    expected = expected_ratios(model, 2)
    assert min(expected) > 0
    model.set_weights(weights)
    compiled(model, jit_compile=jit_compile)
    history = model.fit(
        *data(), batch_size=16, epochs=2, shuffle=False, verbose=0
    ).history
    np.testing.assert_allclose(history["flip_ratio"], expected, rtol=1e-5)


def test_an_evaluation_moves_nothing_and_is_zero():
    model = compiled(network(), jit_compile=False)
    model.fit(*data(), verbose=0)
    logs = model.evaluate(*data(), verbose=0, return_dict=True)
    assert logs["flip_ratio"] == 0


def test_an_evaluation_counts_the_signs_that_somebody_assigned():
    model = compiled(network(), jit_compile=False)
    model.fit(*data(), verbose=0)
    kernel = model.trainable_variables[0]
    kernel.assign(-kernel)
    logs = model.evaluate(*data(), verbose=0, return_dict=True)
    assert logs["flip_ratio"] == pytest.approx(0.5)  # All, in one of two steps.


def test_a_first_epoch_of_one_step_is_unknown_and_says_zero():
    model = compiled(network(), jit_compile=False)
    logs = model.fit(*data(), batch_size=64, epochs=2, verbose=0).history
    assert logs["flip_ratio"][0] == 0 < logs["flip_ratio"][1]


def test_a_convolution_counts_all_of_its_signs():
    layer = keras_lab.BinaryConv2D(5, 3)
    layer.build((None, 8, 8, 4))
    metric = FlipRatio(layer)
    metric.update_state()
    w = layer.kernel.numpy()
    w[1, 2, :3] *= -1
    layer.kernel.assign(w)
    metric.update_state()
    assert float(metric.result()) == pytest.approx(3 * 5 / w.size)


def test_a_loaded_model_watches_its_own_weights(tmp_path):
    model = compiled(network(), jit_compile=False)
    model.fit(*data(), verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    history = [
        m.fit(*data(), epochs=2, shuffle=False, verbose=0).history
        for m in (model, loaded)
    ]
    assert history[1]["loss"] == history[0]["loss"]
    # The first model still knew the signs before its first step.
    assert history[1]["flip_ratio"][1] == history[0]["flip_ratio"][1] > 0


def test_replicas_count_the_same_flips(strategy):
    histories = []
    weights = network().get_weights()
    for scope in (strategy.scope(), tf.device("CPU:0")):
        with scope:
            model = compiled(network(), jit_compile=False)
        model.set_weights(weights)
        histories.append(
            model.fit(*data(), epochs=2, shuffle=False, verbose=0).history
        )
    np.testing.assert_allclose(
        histories[0]["flip_ratio"], histories[1]["flip_ratio"], atol=0.01
    )


def test_bad_targets_are_named():
    with pytest.raises(TypeError, match="target=3"):
        FlipRatio(3)
    with pytest.raises(ValueError, match="no weights yet"):
        FlipRatio(keras_lab.BinaryDense(3))
    plain = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    with pytest.raises(ValueError, match="no binary weights"):
        FlipRatio(plain)
