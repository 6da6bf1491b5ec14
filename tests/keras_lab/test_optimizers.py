"""LABAdam: the update, the curvature and what its options do to α."""

import functools

import keras
import numpy as np
import pytest

import keras_lab
from tests.keras_lab.engine import can_compile, slow_on_tensorflow
from tests.keras_lab.networks import (
    check_alpha_is_mean,
    check_alpha_is_true,
    check_alphas,
    check_same,
    data,
    network,
    train,
)
from tests.keras_lab.support import sequential

slow_param = functools.partial(pytest.param, marks=slow_on_tensorflow)


def test_curvature_is_that_of_the_paper():
    model, optimizer = network(), keras_lab.LABAdam(0.01, beta_2=0.99)
    train(model, optimizer)
    steps = int(optimizer.iterations)
    # On JAX the scales are among the trainable variables.
    for variable in [v for v in model.trainable_variables if v.shape]:
        v_hat = optimizer.velocity(variable).numpy() / (1 - 0.99**steps)
        d = (1e-8 + np.sqrt(v_hat.astype("float64"))) / 0.01
        np.testing.assert_allclose(optimizer.curvature(variable), d, rtol=1e-5)


def test_before_the_first_step_the_curvature_is_uniform():
    model, optimizer = network(), keras_lab.LABAdam(0.01)
    optimizer.build(model.trainable_variables)
    d = optimizer.curvature(model.layers[0].kernel)
    np.testing.assert_allclose(d, 1e-8 / 0.01, rtol=1e-6)


def test_the_curvature_of_what_the_optimizer_does_not_train_is_refused():
    model, optimizer = network(), keras_lab.LABAdam()
    with pytest.raises(ValueError, match="build"):
        optimizer.curvature(model.layers[0].kernel)
    optimizer.build(model.trainable_variables)
    with pytest.raises(ValueError, match="does not train"):
        optimizer.velocity(keras.Variable([1.0]))


def test_a_float_network_trains_as_with_keras_adam():
    ours, theirs = network(None), network(None)
    train(ours, keras_lab.LABAdam(0.01, epsilon=1e-30), epochs=5)
    train(theirs, keras.optimizers.Adam(0.01, epsilon=1e-30), epochs=5)
    check_same(ours, theirs, rtol=1e-3, atol=1e-4)


def test_it_has_no_more_variables_than_adam():
    ours, theirs = keras_lab.LABAdam(), keras.optimizers.Adam()
    model = network()
    ours.build(model.trainable_variables)
    theirs.build(
        [v for v in model.trainable_variables if "alpha" not in v.path]
    )
    shapes = [[v.shape for v in o.variables] for o in (ours, theirs)]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize(
    "options",
    [
        {"clipnorm": 0.1},
        {"weight_decay": 0.1},
        {"amsgrad": True},
        {"gradient_accumulation_steps": 2},
        {"use_ema": True, "ema_overwrite_frequency": 3},
        {"loss_scale_factor": 128.0},
        slow_param({"clipvalue": 0.01}),
        slow_param({"global_clipnorm": 0.1}),
        {"use_ema": True, "ema_momentum": 0.5},
        slow_param(
            {"learning_rate": keras.optimizers.schedules.CosineDecay(0.01, 20)}
        ),
        slow_param({"beta_1": 0.0, "beta_2": 0.9}),
    ],
    ids=lambda options: "-".join(options),
)
def test_alpha_is_true_with_every_option(options):
    model = network()
    optimizer = keras_lab.LABAdam(**{"learning_rate": 0.01, **options})
    train(model, optimizer, run_eagerly=False)
    check_alpha_is_true(model, optimizer)
    again = keras_lab.LABAdam.from_config(optimizer.get_config())
    assert again.get_config() == optimizer.get_config()


def test_amsgrad_uses_the_largest_second_moment():
    w = keras.Variable([1.0, -2.0])
    optimizer = keras_lab.LABAdam(0.1, beta_2=0.5, amsgrad=True)
    expected, m, v, v_max = np.array([1.0, -2.0]), 0.0, 0.0, 0.0
    gradients = np.array([[4.0, 1.0], [0.1, 1.0], [-0.1, 3.0]])
    for t, g in enumerate(gradients, start=1):
        optimizer.apply([keras.ops.convert_to_tensor(g.astype("float32"))], [w])
        m, v = 0.9 * m + 0.1 * g, 0.5 * v + 0.5 * g**2
        v_max = np.maximum(v_max, v)
        d = (1e-8 + np.sqrt(v_max / (1 - 0.5**t))) / 0.1
        expected = expected - m / (1 - 0.9**t) / d
        np.testing.assert_allclose(w, expected, rtol=1e-5)
        np.testing.assert_allclose(optimizer.curvature(w), d, rtol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "amsgrad"),
    [("bfloat16", True), slow_param("float64", False)],
)
def test_it_trains_variables_of_every_dtype_with_xla(dtype, amsgrad):
    model = network(dtype=dtype)
    optimizer = keras_lab.LABAdam(0.01, amsgrad=amsgrad)
    history = train(model, optimizer, epochs=10, jit_compile=True)
    losses = history.history["loss"]
    assert model.layers[0].kernel.dtype == dtype
    assert losses[-1] < losses[0]


def test_with_accumulation_alpha_changes_when_the_weights_do():
    model = network()
    optimizer = keras_lab.LABAdam(0.01, gradient_accumulation_steps=2)
    model.compile(optimizer, "squared_hinge")
    x, y = data()
    alphas = [float(model.layers[0].alpha)]
    for _ in range(4):
        model.train_on_batch(x, y)
        alphas.append(float(model.layers[0].alpha))
    changes = np.abs(np.diff(alphas)) > 1e-6
    np.testing.assert_array_equal(changes, [False, True, False, True])


def test_a_learning_rate_of_zero_keeps_alpha_finite():
    model, optimizer = network(), keras_lab.LABAdam(0.0)
    train(model, optimizer)
    assert np.isfinite(model.layers[0].alpha)


BAD_PAIRS = [
    (np.nan, 1.0),
    (np.inf, 1.0),
    (1e25, 1.0),
    (np.inf, -np.inf),
    (1e30, -1e30),
    (np.nan, np.inf),
]


@pytest.mark.parametrize("jit_compile", can_compile)
@pytest.mark.parametrize(
    "options", [{}, {"amsgrad": True}, {"clipnorm": 1.0}], ids=str
)
def test_only_the_entries_that_are_not_finite_count_as_zero(
    options, jit_compile
):
    """And they harm neither weights nor α."""
    kernels = []
    for change in (lambda g: g, lambda g: np.where(np.abs(g) < 1e19, g, 0)):
        keras.utils.set_random_seed(1)
        optimizer = keras_lab.LABAdam(0.1, **options)
        layer = keras_lab.BinaryDense(1, use_bias=False)
        model = sequential((4,), layer)
        # With this loss the gradient at ŵ is the input.
        model.compile(
            optimizer, lambda y, y_pred: y_pred, jit_compile=jit_compile
        )
        for pair in ((1.0, 3.0), *BAD_PAIRS):
            gradient = np.array([[0.5, -2.0, *pair]], "float32")
            model.train_on_batch(change(gradient), np.zeros((1, 1)))
            check_alpha_is_true(model, optimizer)
        kernels.append(layer.kernel.numpy())
        assert np.all(np.isfinite(kernels))
    if "clipnorm" not in options:
        np.testing.assert_array_equal(*kernels)


@pytest.mark.filterwarnings("ignore:.*nan")
def test_after_a_batch_of_nans_the_loss_shows_it_and_training_goes_on():
    model, optimizer = network(), keras_lab.LABAdam(0.01)
    model.compile(optimizer, "squared_hinge")
    model.layers[1].trainable = False  # Its running statistics would be NaN.
    x, y = data()
    assert np.isnan(model.train_on_batch(np.full_like(x, np.nan), y))
    assert np.isfinite(model.train_on_batch(x, y))
    check_alpha_is_true(model, optimizer)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0}, "epsilon=0"),
        ({"epsilon": -1e-8}, "epsilon=-1e-08"),
        ({"beta_1": 1.0}, "beta_1=1.0"),
        ({"beta_2": "0.9"}, "beta_2='0.9'"),
        ({"momentum": 0.9}, "momentum"),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_received(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        keras_lab.LABAdam(**options)


def test_float16_variables_are_refused_with_the_way_out():
    model = sequential((4,), keras_lab.BinaryDense(2, dtype="float16"))
    with pytest.raises(ValueError, match="mixed_float16"):
        keras_lab.LABAdam().build(model.trainable_variables)


@pytest.mark.parametrize("loss_scaling", [False, True])
def test_refresh_uses_the_curvature_of_the_compiled_optimizer(loss_scaling):
    model, optimizer = network(), keras_lab.LABAdam(0.01)
    outer = optimizer
    if loss_scaling:
        outer = keras.optimizers.LossScaleOptimizer(optimizer)
    train(model, outer)
    check_alphas(model)
    kernel = model.layers[0].kernel
    # A change within the bounds of α.
    kernel.assign(kernel.numpy() * np.linspace(0.2, 1, kernel.shape[1]))
    with pytest.raises(ValueError, match=r"keras_lab\.refresh\(model\)"):
        check_alphas(model)
    keras_lab.refresh(model)
    check_alphas(model)
    check_alpha_is_true(model, optimizer)


def test_refresh_without_labadam_gives_the_mean(rng):
    for optimizer in (None, keras.optimizers.SGD(), keras_lab.LABAdam()):
        model = network()
        if optimizer is not None:
            model.compile(optimizer, "mse")
        kernel = model.layers[0].kernel
        kernel.assign(rng.normal(size=kernel.shape))
        keras_lab.refresh(model)
        check_alpha_is_mean(model)
    with pytest.raises(TypeError, match="of type str"):
        keras_lab.refresh("model")
