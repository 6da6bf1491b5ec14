"""LABAdam: the curvature, the scales, and every way of training with it."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_lab
from keras_lab.binary_weight import weights_of


def data(samples=64):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(samples, 12)).astype("float32")
    y = np.where(rng.integers(0, 4, (samples, 1)) == np.arange(4), 1.0, -1.0)
    return x, y.astype("float32")


def network(quantizer="lab", seed=1, **options):
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((12,)),
            # No bias: batch norm would leave it a gradient of rounding errors.
            keras_lab.BinaryDense(
                16, use_bias=False, kernel_quantizer=quantizer, **options
            ),
            keras.layers.BatchNormalization(),
            keras.layers.ReLU(),
            keras_lab.BinaryDense(4, kernel_quantizer=quantizer, **options),
        ]
    )


def train(model, optimizer=None, epochs=2, batch_size=16, **compile_options):
    if optimizer is not None:
        model.compile(optimizer, "squared_hinge", **compile_options)
    x, y = data()
    return model.fit(
        x, y, batch_size=batch_size, epochs=epochs, shuffle=False, verbose=0
    )


def check_alpha_is_true(model, optimizer, rtol=1e-5):
    weights = weights_of(model.variables)
    assert weights
    for weight in weights:
        d = np.asarray(optimizer.curvature(weight.latent), "float64")
        w = np.abs(weight.latent.numpy().astype("float64"))
        assert np.ptp(d) > 0
        np.testing.assert_allclose(
            weight.alpha, np.sum(d * w) / np.sum(d), rtol=rtol
        )


def check_same(one, other, rtol=0.0, atol=0.0):
    for a, b in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def test_curvature_is_that_of_the_paper():
    model, optimizer = network(), keras_lab.LABAdam(0.01, beta_2=0.99)
    train(model, optimizer)
    steps = int(optimizer.iterations)
    for variable in model.trainable_variables:
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
    with pytest.raises(ValueError, match="Unknown variable"):
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
    theirs.build(model.trainable_variables)
    shapes = [[v.shape for v in o.variables] for o in (ours, theirs)]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize(
    "options",
    [
        {"clipnorm": 0.1},
        {"clipvalue": 0.01},
        {"global_clipnorm": 0.1},
        {"weight_decay": 0.1},
        {"amsgrad": True},
        {"gradient_accumulation_steps": 2},
        {"use_ema": True, "ema_momentum": 0.5},
        {"use_ema": True, "ema_overwrite_frequency": 3},
        {"loss_scale_factor": 128.0},
        {"learning_rate": keras.optimizers.schedules.CosineDecay(0.01, 20)},
        {"beta_1": 0.0, "beta_2": 0.9},
    ],
    ids=lambda options: "-".join(options),
)
def test_alpha_is_true_with_every_option(options):
    model = network()
    optimizer = keras_lab.LABAdam(**{"learning_rate": 0.01, **options})
    train(model, optimizer)
    check_alpha_is_true(model, optimizer)
    again = keras_lab.LABAdam.from_config(optimizer.get_config())
    assert again.get_config() == optimizer.get_config()


def test_amsgrad_uses_the_largest_second_moment():
    w = keras.Variable([1.0, -2.0])
    optimizer = keras_lab.LABAdam(0.1, beta_2=0.5, amsgrad=True)
    expected, m, v, v_max = np.array([1.0, -2.0]), 0.0, 0.0, 0.0
    gradients = np.array([[4.0, 1.0], [0.1, 1.0], [-0.1, 3.0]])
    for t, g in enumerate(gradients, start=1):
        optimizer.apply([tf.constant(g, "float32")], [w])
        m, v = 0.9 * m + 0.1 * g, 0.5 * v + 0.5 * g**2
        v_max = np.maximum(v_max, v)
        d = (1e-8 + np.sqrt(v_max / (1 - 0.5**t))) / 0.1
        expected = expected - m / (1 - 0.9**t) / d
        np.testing.assert_allclose(w, expected, rtol=1e-5)
        np.testing.assert_allclose(optimizer.curvature(w), d, rtol=1e-5)


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_it_trains_variables_of_every_dtype_with_xla(dtype, amsgrad):
    model = network(dtype=dtype)
    losses = train(
        model,
        keras_lab.LABAdam(0.01, amsgrad=amsgrad),
        epochs=10,
        jit_compile=True,
    ).history["loss"]
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


@pytest.mark.parametrize("clipnorm", [None, 1.0])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_gradient_that_is_not_finite_harms_neither_weight_nor_alpha(
    clipnorm, compiled
):
    model, optimizer = network(), keras_lab.LABAdam(0.01, clipnorm=clipnorm)
    train(model, optimizer)
    variables = model.trainable_variables
    apply = tf.function(
        lambda gradients: optimizer.apply(gradients, variables),
        jit_compile=compiled,
    )
    for bad in (np.nan, np.inf, -np.inf, 1e25):
        gradients = [np.ones(v.shape, "float32") for v in variables]
        for gradient in gradients:
            gradient.flat[0] = bad
        apply([tf.constant(g) for g in gradients])
        for weight in model.get_weights():
            assert np.all(np.isfinite(weight)), bad
        check_alpha_is_true(model, optimizer)


@pytest.mark.filterwarnings("ignore:.*nan")
def test_after_a_batch_of_nans_the_loss_shows_it_and_training_goes_on():
    model, optimizer = network(), keras_lab.LABAdam(0.01)
    model.compile(optimizer, "squared_hinge")
    model.layers[1].trainable = False  # Its running statistics would be NaN.
    x, y = data()
    assert np.isnan(model.train_on_batch(np.full_like(x, np.nan), y))
    assert np.isfinite(model.train_on_batch(x, y))
    check_alpha_is_true(model, optimizer)


def test_foreign_optimizers_make_lab_bwn_and_say_so_once():
    lab, bwn = network("lab"), network("bwn")
    for make in (keras.optimizers.Adam, lambda: keras.optimizers.SGD(0.1)):
        lab, bwn = network("lab"), network("bwn")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            train(lab, make(), run_eagerly=True)
        messages = [str(w.message) for w in caught if "BWN" in str(w.message)]
        assert len(messages) == 1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            train(bwn, make(), run_eagerly=True)
        assert not [w for w in caught if "BWN" in str(w.message)]
        check_same(lab, bwn)
        for weight in weights_of(lab.variables):
            np.testing.assert_allclose(
                weight.alpha, np.abs(weight.latent.numpy()).mean(), rtol=1e-6
            )


def test_a_foreign_optimizer_gets_the_alpha_of_the_clipped_weight():
    model = network("bwn")
    train(model, keras.optimizers.SGD(100.0))
    for weight in weights_of(model.variables):
        w = np.abs(weight.latent.numpy())
        assert np.mean(w == 1) > 0.1
        np.testing.assert_allclose(weight.alpha, w.mean(), rtol=1e-5)


@pytest.mark.parametrize("quantizer", ["lab", "bwn", "binary_connect"])
@pytest.mark.filterwarnings("ignore:.*BWN")
def test_with_a_foreign_optimizer_a_nan_among_the_weights_shows(quantizer):
    model = network(quantizer)
    model.compile(keras.optimizers.SGD(0.1), "squared_hinge")
    model.layers[1].trainable = False
    x, y = data()
    model.train_on_batch(np.full_like(x, np.nan), y)
    assert np.isnan(model.train_on_batch(x, y))


def test_a_loop_over_bare_tensorflow_variables_keeps_alpha_true():
    model, optimizer = network(), keras_lab.LABAdam(0.5)
    x, y = data()
    for _ in range(5):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        variables = tape.watched_variables()
        assert not any(isinstance(v, keras.Variable) for v in variables)
        optimizer.apply_gradients(
            zip(tape.gradient(loss, variables), variables)
        )
    check_alpha_is_true(model, optimizer)
    assert np.abs(model.layers[0].kernel.numpy()).max() <= 1


def test_a_weight_without_a_gradient_keeps_its_alpha():
    model, optimizer = network(), keras_lab.LABAdam(0.01)
    train(model, optimizer)
    first, last = model.layers[0], model.layers[-1]
    first.alpha.assign(0.123)
    variables = [first.kernel, last.kernel]
    optimizer = keras_lab.LABAdam(0.01)
    optimizer.build(variables)
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        optimizer.apply([None, tf.ones(last.kernel.shape)], variables)
    assert float(first.alpha) == np.float32(0.123)


def test_another_optimizer_after_labadam_takes_over():
    model = network()
    train(model, keras_lab.LABAdam(0.01))
    with pytest.warns(UserWarning, match="BWN"):
        train(model, keras.optimizers.SGD(0.1))
    for weight in weights_of(model.variables):
        np.testing.assert_allclose(
            weight.alpha, np.abs(weight.latent.numpy()).mean(), rtol=1e-6
        )


def test_no_warning_under_labadam():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(network(), keras_lab.LABAdam(0.01))
    assert not [w for w in caught if "BWN" in str(w.message)]


@pytest.mark.parametrize(
    "options",
    [
        {"jit_compile": True},
        {"jit_compile": False},
        {"run_eagerly": True},
        {"steps_per_execution": 4},
    ],
    ids=str,
)
def test_it_trains_the_same_however_keras_runs_the_step(options):
    reference, model = network(), network()
    train(reference, keras_lab.LABAdam(0.01), run_eagerly=True)
    optimizer = keras_lab.LABAdam(0.01)
    train(model, optimizer, **options)
    check_same(model, reference, rtol=1e-4, atol=1e-5)
    check_alpha_is_true(model, optimizer)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_trains_with_and_without_loss_scaling(policy):
    optimizer = keras_lab.LABAdam(0.01)
    keras.config.set_dtype_policy(policy)
    try:
        model = network()
        first = train(model, optimizer, epochs=10).history["loss"]
    finally:
        keras.config.set_dtype_policy("float32")
    if policy == "mixed_float16":
        assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert first[-1] < first[0]
    check_alpha_is_true(model, optimizer)


def test_a_step_skipped_by_loss_scaling_leaves_alpha():
    model, inner = network(), keras_lab.LABAdam(0.01)
    model.compile(keras.optimizers.LossScaleOptimizer(inner), "squared_hinge")
    x, y = data()
    model.train_on_batch(x, y)
    before = model.get_weights()
    variables = model.trainable_variables
    model.optimizer.apply(
        [tf.fill(v.shape, np.inf) for v in variables], variables
    )
    for old, new in zip(before, model.get_weights()):
        np.testing.assert_array_equal(old, new)


def test_a_shared_layer_has_one_alpha():
    inputs = keras.Input((8,))
    shared = keras_lab.BinaryDense(8)
    model = keras.Model(inputs, shared(keras.ops.tanh(shared(inputs))))
    optimizer = keras_lab.LABAdam(0.01)
    model.compile(optimizer, "mse")
    x = np.random.default_rng(1).normal(size=(32, 8))
    model.fit(x, x, verbose=0)
    assert len(weights_of(model.variables)) == 1
    check_alpha_is_true(model, optimizer)


def test_layers_of_nested_and_subclassed_models_are_found():
    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = network()
            self.outer = keras_lab.BinaryDense(4)

        def call(self, inputs):
            return self.outer(self.inner(inputs))

    model, optimizer = Subclassed(), keras_lab.LABAdam(0.01)
    train(model, optimizer)
    assert len(weights_of(model.variables)) == 3
    check_alpha_is_true(model, optimizer)


def test_a_subclassed_model_built_by_fit_starts_at_the_mean():
    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras_lab.BinaryDense(4, kernel_quantizer="bwn")

        def call(self, inputs):
            return self.dense(inputs)

    model = Subclassed()
    train(model, keras_lab.LABAdam(0.0))
    np.testing.assert_allclose(
        model.dense.alpha, np.abs(model.dense.kernel.numpy()).mean(), rtol=1e-6
    )


def test_a_model_built_in_a_traced_loop_trains():
    model = keras.Sequential([keras_lab.BinaryDense(4)])
    optimizer = keras_lab.LABAdam(0.01)
    x, y = data()

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    model.build(x.shape)
    losses = [float(step(x, y)) for _ in range(20)]
    assert losses[-1] < losses[0]
    check_alpha_is_true(model, optimizer)


def test_a_clone_shares_nothing_and_takes_the_weights():
    model = network()
    train(model, keras_lab.LABAdam(0.01))
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    check_same(clone, model)
    before = model.get_weights()
    train(clone, keras_lab.LABAdam(0.1))
    for old, new in zip(before, model.get_weights()):
        np.testing.assert_array_equal(old, new)


def test_training_resumed_from_a_file_goes_on_as_if_never_stopped(tmp_path):
    straight, stopped = network(), network()
    train(straight, keras_lab.LABAdam(0.01), epochs=4)
    train(stopped, keras_lab.LABAdam(0.01), epochs=2)
    stopped.save(tmp_path / "model.keras")
    resumed = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(resumed.optimizer, keras_lab.LABAdam)
    check_same(resumed, stopped)
    train(resumed, epochs=2)
    check_same(resumed, straight)
    for a, b in zip(resumed.optimizer.variables, straight.optimizer.variables):
        np.testing.assert_array_equal(a, b)


def test_alpha_at_evaluation_is_the_one_after_the_last_step():
    model = network()
    train(model, keras_lab.LABAdam(0.01))
    x, y = data()
    loss = model.evaluate(x, y, verbose=0)
    hidden = x
    for layer in model.layers:
        if hasattr(layer, "alpha"):
            w = float(layer.alpha) * np.where(layer.kernel.numpy() >= 0, 1, -1)
            hidden = hidden @ w + (0 if layer.bias is None else layer.bias)
        else:
            hidden = np.asarray(layer(hidden, training=False))
    expected = np.mean(np.maximum(1 - y * hidden, 0) ** 2)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_at_the_end_of_fit_alpha_is_that_of_the_averaged_weights():
    model = network()
    optimizer = keras_lab.LABAdam(0.05, use_ema=True, ema_momentum=0.9)
    train(model, optimizer)
    averages = optimizer._model_variables_moving_average
    np.testing.assert_allclose(model.layers[0].kernel, averages[0], rtol=1e-6)
    check_alpha_is_true(model, optimizer)


def test_an_embedding_trains_beside_binary_layers():
    model = keras.Sequential(
        [
            keras.Input((3,), dtype="int32"),
            keras.layers.Embedding(10, 6),
            keras.layers.Flatten(),
            keras_lab.BinaryDense(4),
        ]
    )
    optimizer = keras_lab.LABAdam(0.01)
    model.compile(optimizer, "mse")
    x = np.random.default_rng(1).integers(0, 10, (32, 3))
    before = model.layers[0].embeddings.numpy()
    model.fit(x, np.ones((32, 4)), verbose=0)
    assert not np.array_equal(before, model.layers[0].embeddings.numpy())
    check_alpha_is_true(model, optimizer)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_two_replicas_of_half_a_batch_give_the_alpha_of_the_whole(
    policy, strategy
):

    def make():
        keras.utils.set_random_seed(2)
        return keras.Sequential(
            [
                keras.Input((12,)),
                keras_lab.BinaryDense(16, dtype=policy),
                keras.layers.ReLU(dtype=policy),
                keras_lab.BinaryDense(4, dtype=policy),
            ]
        )

    single, single_optimizer = make(), keras_lab.LABAdam(0.01)
    train(single, single_optimizer, batch_size=32)
    with strategy.scope():
        double, optimizer = make(), keras_lab.LABAdam(0.01)
        double.compile(optimizer, "squared_hinge")
    train(double, batch_size=32)
    tolerance = 1e-4 if policy == "float32" else 1e-2
    check_same(double, single, rtol=tolerance, atol=tolerance)
    for variable in double.variables:
        first, second = strategy.experimental_local_results(variable.value)
        np.testing.assert_array_equal(first, second)


def test_a_foreign_optimizer_on_two_replicas_keeps_alpha_true(strategy):
    with strategy.scope():
        model = network("bwn")
        model.compile(keras.optimizers.SGD(0.1), "squared_hinge")
    train(model)
    for weight in weights_of(model.variables):
        np.testing.assert_allclose(
            weight.alpha, np.abs(weight.latent.numpy()).mean(), rtol=1e-6
        )


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
    model = keras.Sequential(
        [keras.Input((4,)), keras_lab.BinaryDense(2, dtype="float16")]
    )
    with pytest.raises(ValueError, match="mixed_float16"):
        keras_lab.LABAdam().build(model.trainable_variables)
