"""Training with LABAdam gives a true α in every way that Keras trains."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_lab
from keras_lab.binary_weight import weights_of
from tests.keras_lab.engine import (
    NAME,
    can_compile,
    needs_tensorflow,
    slow_on_tensorflow,
)
from tests.keras_lab.networks import (
    check_alpha_is_true,
    check_same,
    data,
    network,
    train,
)
from tests.keras_lab.support import (
    Subclassed,
    assert_same,
    saved_and_loaded,
    sequential,
)


@pytest.mark.parametrize(
    "options",
    [
        *({"jit_compile": jit} for jit in can_compile),
        {"run_eagerly": True},
        *([{"steps_per_execution": 4}] if NAME != "torch" else []),
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


@pytest.mark.parametrize(
    "policy",
    ["mixed_float16", pytest.param("mixed_bfloat16", marks=slow_on_tensorflow)],
)
def test_mixed_precision_trains_with_and_without_loss_scaling(policy):
    optimizer = keras_lab.LABAdam(0.01)
    keras.config.set_dtype_policy(policy)
    try:
        model = network()
        history = train(model, optimizer, epochs=10, run_eagerly=False)
    finally:
        keras.config.set_dtype_policy("float32")
    if policy == "mixed_float16":
        assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    losses = history.history["loss"]
    assert losses[-1] < losses[0]
    check_alpha_is_true(model, optimizer)


@pytest.mark.skipif(
    NAME == "jax", reason="Keras' LossScaleOptimizer.apply needs `fit` on JAX"
)
def test_a_step_skipped_by_loss_scaling_leaves_alpha():
    model, inner = network(), keras_lab.LABAdam(0.01)
    model.compile(keras.optimizers.LossScaleOptimizer(inner), "squared_hinge")
    x, y = data()
    model.train_on_batch(x, y)
    before = model.get_weights()
    variables = model.trainable_variables
    model.optimizer.apply(
        [ops.full(v.shape, np.inf) for v in variables], variables
    )
    assert_same(before, model.get_weights())


def subclassed():
    return Subclassed(network(), keras_lab.BinaryDense(4))


def test_layers_of_nested_and_subclassed_models_are_found():
    model, optimizer = subclassed(), keras_lab.LABAdam(0.01)
    train(model, optimizer)
    assert len(weights_of(model.variables)) == 3
    check_alpha_is_true(model, optimizer)


@needs_tensorflow
def test_a_traced_loop_trains():
    import tensorflow as tf

    model, optimizer = network(), keras_lab.LABAdam(0.01)
    x, y = data()

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    losses = [float(step()) for _ in range(20)]
    assert losses[-1] < losses[0]
    check_alpha_is_true(model, optimizer)


@needs_tensorflow
@pytest.mark.parametrize("optimizer", [keras_lab.LABAdam, keras.optimizers.SGD])
@pytest.mark.filterwarnings("ignore:.*BWN")
def test_a_loop_over_bare_tensorflow_variables_keeps_alpha_true(optimizer):
    import tensorflow as tf

    model, optimizer = subclassed(), optimizer(0.5)
    x, y = data()
    for _ in range(5):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        variables = tape.watched_variables()
        assert not any(isinstance(v, keras.Variable) for v in variables)
        optimizer.apply_gradients(
            zip(tape.gradient(loss, variables), variables)
        )
    for weight in weights_of(model.variables):
        weight.check_alpha()
        assert np.abs(weight.latent.numpy()).max() <= 1


def test_a_weight_without_a_gradient_keeps_its_alpha():
    model, optimizer = network(), keras_lab.LABAdam(0.01)
    train(model, optimizer)
    first, last = model.layers[0], model.layers[-1]
    first.alpha.assign(0.123)
    variables = [first.kernel, last.kernel]
    optimizer = keras_lab.LABAdam(0.01)
    optimizer.build(variables)
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        optimizer.apply([None, ops.ones(last.kernel.shape)], variables)
    assert float(first.alpha) == np.float32(0.123)


@pytest.mark.parametrize("model_class", [keras.Model, keras_lab.LABModel])
def test_training_resumed_from_a_file_goes_on_as_if_never_stopped(
    model_class, tmp_path
):
    straight, stopped = (
        model_class(model.inputs[0], model.outputs[0])
        for model in (network(), network())
    )
    train(straight, keras_lab.LABAdam(0.01), epochs=4)
    train(stopped, keras_lab.LABAdam(0.01), epochs=2)
    resumed = saved_and_loaded(stopped, tmp_path)
    assert isinstance(resumed, model_class)
    assert isinstance(resumed.optimizer, keras_lab.LABAdam)
    check_same(resumed, stopped)
    train(resumed, epochs=2)
    check_same(resumed, straight)
    assert_same(resumed.optimizer.variables, straight.optimizer.variables)


def test_an_embedding_trains_beside_binary_layers():
    model = sequential(
        (3,),
        keras.layers.Embedding(10, 6),
        keras.layers.Flatten(),
        keras_lab.BinaryDense(4),
        dtype="int32",
    )
    optimizer = keras_lab.LABAdam(0.01)
    model.compile(optimizer, "mse")
    x = np.random.default_rng(1).integers(0, 10, (32, 3))
    before = model.layers[0].embeddings.numpy()
    model.fit(x, np.ones((32, 4)), verbose=0)
    assert not np.array_equal(before, model.layers[0].embeddings.numpy())
    check_alpha_is_true(model, optimizer)


def feed_forward(policy):
    return [
        keras_lab.BinaryDense(16, dtype=policy),
        keras.layers.ReLU(dtype=policy),
    ]


def recurrent(policy):
    reshape = keras.layers.Reshape((3, 4))
    return [reshape, keras_lab.BinaryLSTM(5, dtype=policy)]


@pytest.mark.parametrize(
    ("hidden", "policy"),
    [
        (feed_forward, "float32"),
        pytest.param(feed_forward, "mixed_float16", marks=pytest.mark.slow),
        pytest.param(recurrent, "float32", marks=pytest.mark.slow),
    ],
)
def test_two_replicas_of_half_a_batch_give_the_alpha_of_the_whole(
    hidden, policy, strategy
):
    def make():
        keras.utils.set_random_seed(2)
        last = keras_lab.BinaryDense(4, dtype=policy)
        return sequential((12,), *hidden(policy), last)

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
