"""`ProgressiveBinarization`: from w to ŵ, in training steps only."""

import warnings

import keras
import numpy as np
import pytest

import keras_lab
from keras_lab.binary_weight import blending, weights_of
from keras_lab.callbacks import ProgressiveBinarization


def network(quantizer="lab", **options):
    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras_lab.BinaryDense(8, kernel_quantizer=quantizer),
            keras.layers.ReLU(),
            keras_lab.BinaryDense(4, kernel_quantizer=quantizer),
        ]
    )
    model.compile(keras_lab.LABAdam(0.01), "mse", **options)
    return model


def data(rng, count=64):
    x = rng.normal(size=(count, 6)).astype("float32")
    return x, rng.normal(size=(count, 4)).astype("float32")


class Shares(keras.callbacks.Callback):
    """Writes down λ in each epoch."""

    def __init__(self, gently):
        super().__init__()
        self.gently, self.seen = gently, []

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append([float(share) for share in self.gently.shares])


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_a_blend_is_the_mean_of_w_and_its_binary_weight(rng, share):
    layer = keras_lab.BinaryDense(5)
    layer.build((None, 7))
    w = rng.normal(size=(7, 5)).astype("float32")
    layer.kernel.assign(w)
    layer.binary_weights["kernel"].refresh()
    binary = layer.binary_kernel.numpy()
    x = rng.normal(size=(3, 7)).astype("float32")
    with blending(weights_of(layer.weights), [share]):
        blend, outputs = layer.binary_kernel.numpy(), layer(x)
    np.testing.assert_allclose(
        blend, (1 - share) * w + share * binary, atol=1e-6
    )
    np.testing.assert_allclose(outputs, x @ blend, atol=1e-5)
    np.testing.assert_array_equal(layer.binary_kernel, binary)
    if share == 1:
        np.testing.assert_array_equal(blend, binary)


def test_the_gradient_of_a_blend_goes_to_w_unchanged(rng):
    import tensorflow as tf

    layer = keras_lab.BinaryDense(5, use_bias=False)
    layer.build((None, 7))
    x = rng.normal(size=(3, 7)).astype("float32")
    upstream = rng.normal(size=(3, 5)).astype("float32")
    weights = weights_of(layer.weights)
    with tf.GradientTape() as tape, blending(weights, [0.4]):
        loss = tf.reduce_sum(layer(x) * upstream)
    gradient = tape.gradient(loss, layer.kernel.value)
    np.testing.assert_allclose(gradient, x.T @ upstream, rtol=1e-5)


@pytest.mark.parametrize("jit_compile", [True, False])
@pytest.mark.parametrize("steps_per_execution", [1, 2])
def test_lambda_grows_by_epoch(rng, jit_compile, steps_per_execution):
    model = network(
        jit_compile=jit_compile, steps_per_execution=steps_per_execution
    )
    gently = ProgressiveBinarization(3, by="share")
    shares = Shares(gently)
    model.fit(*data(rng), epochs=5, verbose=0, callbacks=[gently, shares])
    expected = np.array([0.25, 0.5, 0.75, 1, 1])
    np.testing.assert_allclose(shares.seen, np.stack([expected] * 2, axis=1))


def test_by_default_it_goes_layer_by_layer(rng):
    gently = ProgressiveBinarization(2)
    shares = Shares(gently)
    callbacks = [gently, shares]
    network().fit(*data(rng), epochs=4, verbose=0, callbacks=callbacks)
    assert shares.seen == [[1, 0], [1, 1], [1, 1], [1, 1]]


@pytest.mark.filterwarnings("ignore:The training ended at λ")
def test_training_steps_use_the_blend_and_validation_does_not(rng):
    model, (x, y) = network("bwn"), data(rng)
    model.layers[0].kernel.assign(rng.uniform(-1, 1, (6, 8)))
    for weight in weights_of(model.weights):
        weight.refresh()
    binary_loss = model.evaluate(x, y, verbose=0)
    with blending(weights_of(model.weights), [0.5, 0.5]):
        blended_loss = float(np.mean((model(x) - y) ** 2))
    assert blended_loss != pytest.approx(binary_loss, rel=1e-2)
    model.optimizer.learning_rate = 0.0
    history = model.fit(
        x,
        y,
        batch_size=64,
        verbose=0,
        validation_data=(x, y),
        callbacks=[ProgressiveBinarization(1, by="share")],
    ).history
    assert history["loss"][0] == pytest.approx(blended_loss, rel=1e-5)
    assert history["val_loss"][0] == pytest.approx(binary_loss, rel=1e-5)


def test_with_no_epochs_it_changes_nothing(rng):
    x, y = data(rng)
    model, other = network(), network()
    other.set_weights(model.get_weights())
    options = {"epochs": 3, "shuffle": False, "verbose": 0}
    model.fit(x, y, **options)
    other.fit(x, y, callbacks=[ProgressiveBinarization(0)], **options)
    for a, b in zip(model.get_weights(), other.get_weights()):
        np.testing.assert_array_equal(a, b)


@pytest.mark.filterwarnings("ignore:The training ended at λ")
def test_a_resumed_training_goes_on_as_it_would_have(rng):
    x, y = data(rng)
    results = []
    for pieces in ([(0, 4)], [(0, 2), (2, 4)]):
        keras.utils.set_random_seed(1)
        model = network()
        for first, last in pieces:
            model.fit(
                x,
                y,
                initial_epoch=first,
                epochs=last,
                shuffle=False,
                verbose=0,
                callbacks=[ProgressiveBinarization(3, by="share")],
            )
        results.append(model.get_weights())
    for a, b in zip(*results):
        np.testing.assert_array_equal(a, b)


class Dying(keras.callbacks.Callback):
    """Raises an error at a given event."""

    def __init__(self, event, error):
        super().__init__()
        self.error = error
        setattr(self, f"on_{event}", self.die)

    def die(self, *args, **kwargs):
        raise self.error


@pytest.mark.parametrize("afterwards", ["fit", "train_on_batch"])
@pytest.mark.parametrize(
    ("event", "error"),
    [
        (None, None),
        ("train_begin", ValueError),
        ("train_batch_begin", KeyboardInterrupt),
        ("train_batch_end", KeyboardInterrupt),
        ("epoch_end", ValueError),
        ("test_batch_begin", KeyboardInterrupt),
        ("train_step", KeyboardInterrupt),
        ("train_step", ValueError),
    ],
)
def test_afterwards_training_is_as_ever(rng, event, error, afterwards):
    """Wherever the training died: Keras calls no callback then."""
    model, (x, y) = network(), data(rng)
    callbacks = [ProgressiveBinarization(5, by="share"), Dying(event, error)]
    options = {"validation_data": (x, y), "verbose": 0, "callbacks": callbacks}
    if event == "train_step":

        def dying_loss(*args):
            raise error

        model.compile(keras_lab.LABAdam(0.01), dying_loss, run_eagerly=True)
    if event is None:
        with pytest.warns(UserWarning, match="λ"):
            model.fit(x, y, epochs=2, **options)
    else:
        with pytest.raises(error):
            model.fit(x, y, epochs=2, **options)
    assert "train_step" not in vars(model)
    if event == "train_step":
        model.compile(keras_lab.LABAdam(0.01), "mse")
    loss = model.evaluate(x, y, verbose=0)
    if afterwards == "fit":
        model.optimizer.learning_rate = 0.0
        history = model.fit(x, y, batch_size=64, verbose=0).history
        received = history["loss"][0]
    else:
        received = model.train_on_batch(x, y)
    assert received == pytest.approx(loss, rel=1e-5)
    assert "make_train_function" not in vars(model)


def test_a_training_that_ends_before_all_is_binary_is_warned_of(rng):
    gently = ProgressiveBinarization(3)
    with pytest.warns(UserWarning, match=r"λ = 0\.75.*from epoch 4 on"):
        network().fit(*data(rng), epochs=3, verbose=0, callbacks=[gently])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network().fit(*data(rng), epochs=4, verbose=0, callbacks=[gently])


def test_a_layer_becomes_binary_with_all_of_its_weights(rng):
    model = keras.Sequential(
        [
            keras.Input((5, 6)),
            keras_lab.BinaryLSTM(8, return_sequences=True),
            keras.Sequential([keras_lab.BinaryLSTM(8)]),
            keras_lab.BinaryDense(4),
        ]
    )
    model.compile(keras_lab.LABAdam(0.01), "mse")
    gently = ProgressiveBinarization(1, by="layer")
    shares = Shares(gently)
    x = rng.normal(size=(8, 5, 6)).astype("float32")
    y = rng.normal(size=(8, 4)).astype("float32")
    model.fit(x, y, epochs=2, verbose=0, callbacks=[gently, shares])
    assert shares.seen == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def test_it_works_with_a_distiller_and_an_lstm(rng):
    teacher = keras.Sequential(
        [
            keras.Input((5, 6)),
            keras.layers.LSTM(8, return_sequences=True),
            keras.layers.LSTM(8),
            keras.layers.Dense(4, "softmax"),
        ]
    )
    student = keras_lab.binarize_model(teacher, skip_first=False)
    model = keras_lab.Distiller(
        student.inputs, student.outputs, teacher=teacher
    )
    model.compile(keras_lab.LABAdam(0.01), "sparse_categorical_crossentropy")
    x = rng.normal(size=(32, 5, 6)).astype("float32")
    y = rng.integers(0, 4, 32)
    gently = ProgressiveBinarization(2, by="share")
    history = model.fit(x, y, epochs=4, verbose=0, callbacks=[gently]).history
    assert np.isfinite(history["loss"]).all()


def test_it_works_with_two_replicas(rng, strategy):
    with strategy.scope():
        model = network(jit_compile=False)
    x, y = data(rng)
    gently = ProgressiveBinarization(2, by="share")
    history = model.fit(x, y, epochs=3, verbose=0, callbacks=[gently]).history
    assert np.isfinite(history["loss"]).all()


def test_a_model_without_binary_weights_is_warned_of(rng):
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4)])
    model.compile("sgd", "mse")
    with pytest.warns(UserWarning, match="no binary weights"):
        model.fit(*data(rng), verbose=0, callbacks=[ProgressiveBinarization(1)])


@pytest.mark.parametrize("epochs", [-1, 2.5, True, "3"])
def test_a_wrong_number_of_epochs_is_named(epochs):
    with pytest.raises(ValueError, match=f"epochs={epochs!r}"):
        ProgressiveBinarization(epochs)


def test_an_unknown_way_is_named():
    with pytest.raises(ValueError, match="by='weight'"):
        ProgressiveBinarization(1, by="weight")
