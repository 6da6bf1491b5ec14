"""`ProgressiveBinarization`: from w to ŵ by layer, in training steps only."""

import warnings

import keras
import numpy as np
import pytest

import keras_lab
from keras_lab.binary_weight import full_precision, weights_of
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


class Watch(keras.callbacks.Callback):
    """Writes down which layers are binary in each epoch."""

    def __init__(self, progressive):
        super().__init__()
        self.progressive, self.seen = progressive, []

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(self.progressive.binary_layers)


def test_the_layers_become_binary_from_the_first_to_the_last(rng):
    progressive = ProgressiveBinarization(2)
    watch = Watch(progressive)
    callbacks = [progressive, watch]
    network().fit(*data(rng), epochs=4, verbose=0, callbacks=callbacks)
    both = [True, True]
    assert watch.seen == [[True, False], both, both, both]


@pytest.mark.filterwarnings("ignore:The training ended with 1 of 2")
@pytest.mark.parametrize(
    "options",
    [
        {"jit_compile": False},
        {"run_eagerly": True},
        pytest.param({"jit_compile": True}, marks=pytest.mark.slow),
        pytest.param({"steps_per_execution": 2}, marks=pytest.mark.slow),
    ],
)
def test_training_steps_use_w_and_validation_does_not(rng, options):
    model, (x, y) = network("bwn", **options), data(rng)
    model.layers[0].kernel.assign(rng.uniform(-1, 1, (6, 8)))
    for weight in weights_of(model.weights):
        weight.refresh()
    binary_loss = model.evaluate(x, y, verbose=0)
    with full_precision(weights_of(model.layers[-1].weights)):
        mixed_loss = float(np.mean((model(x) - y) ** 2))
    assert mixed_loss != pytest.approx(binary_loss, rel=1e-2)
    model.optimizer.learning_rate = 0.0
    history = model.fit(
        x,
        y,
        batch_size=32,
        verbose=0,
        epochs=2,
        validation_data=(x, y),
        callbacks=[ProgressiveBinarization(2)],
    ).history
    # The loss of the first epoch is that of the first layer binary alone.
    losses = [mixed_loss, binary_loss]
    np.testing.assert_allclose(history["loss"], losses, rtol=1e-5)
    np.testing.assert_allclose(history["val_loss"], binary_loss, rtol=1e-5)


def test_with_no_epochs_it_changes_nothing(rng):
    x, y = data(rng)
    model, other = (network(jit_compile=False) for _ in range(2))
    other.set_weights(model.get_weights())
    options = {"epochs": 3, "shuffle": False, "verbose": 0}
    model.fit(x, y, **options)
    other.fit(x, y, callbacks=[ProgressiveBinarization(0)], **options)
    for a, b in zip(model.get_weights(), other.get_weights()):
        np.testing.assert_array_equal(a, b)


@pytest.mark.filterwarnings("ignore:The training ended with")
def test_a_resumed_training_goes_on_as_it_would_have(rng):
    x, y = data(rng)
    results = []
    for pieces in ([(0, 4)], [(0, 2), (2, 4)]):
        keras.utils.set_random_seed(1)
        model = network(jit_compile=False)
        for first, last in pieces:
            model.fit(
                x,
                y,
                initial_epoch=first,
                epochs=last,
                shuffle=False,
                verbose=0,
                callbacks=[ProgressiveBinarization(3)],
            )
        results.append(model.get_weights())
    for a, b in zip(*results):
        np.testing.assert_array_equal(a, b)


class Dying(keras.callbacks.Callback):
    """Raises an error at an event."""

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
        ("train_batch_end", KeyboardInterrupt),
        ("train_step", ValueError),
        pytest.param("train_begin", ValueError, marks=pytest.mark.slow),
        pytest.param("epoch_end", ValueError, marks=pytest.mark.slow),
        pytest.param(
            "test_batch_begin", KeyboardInterrupt, marks=pytest.mark.slow
        ),
    ],
)
def test_afterwards_training_is_the_same_as_before(
    rng, event, error, afterwards
):
    """Wherever an error ends a training, Keras calls no callback."""
    model, (x, y) = network(jit_compile=False), data(rng)
    callbacks = [ProgressiveBinarization(5), Dying(event, error)]
    options = {"validation_data": (x, y), "verbose": 0, "callbacks": callbacks}
    if event == "train_step":

        def dying_loss(*args):
            raise error

        model.compile(keras_lab.LABAdam(0.01), dying_loss, run_eagerly=True)
    if event is None:
        with pytest.warns(UserWarning, match="1 of 2 layers"):
            model.fit(x, y, epochs=2, **options)
    else:
        with pytest.raises(error):
            model.fit(x, y, epochs=2, **options)
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
    for name in ("train_step", "make_train_function"):
        assert name not in vars(model)


def test_a_training_that_ends_before_all_is_binary_is_warned_of(rng):
    progressive = ProgressiveBinarization(3)
    options = {"verbose": 0, "callbacks": [progressive]}
    with pytest.warns(UserWarning, match="1 of 2 layers.*from epoch 4 on"):
        network(jit_compile=False).fit(*data(rng), epochs=1, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network(jit_compile=False).fit(*data(rng), epochs=4, **options)


def test_a_layer_becomes_binary_with_all_of_its_weights(rng):
    model = keras.Sequential(
        [
            keras.Input((5, 6)),
            keras_lab.BinaryLSTM(8, return_sequences=True),
            keras.Sequential([keras_lab.BinaryLSTM(8)]),
            keras_lab.BinaryDense(4),
        ]
    )
    model.compile(keras_lab.LABAdam(0.01), "mse", jit_compile=False)
    progressive = ProgressiveBinarization(1)
    watch = Watch(progressive)
    x = rng.normal(size=(8, 5, 6)).astype("float32")
    y = rng.normal(size=(8, 4)).astype("float32")
    model.fit(x, y, epochs=2, verbose=0, callbacks=[progressive, watch])
    assert watch.seen == [[True, True, False], [True, True, True]]


def test_it_works_with_two_replicas(rng, strategy):
    with strategy.scope():
        model = network(jit_compile=False)
    x, y = data(rng)
    callbacks = [ProgressiveBinarization(2)]
    history = model.fit(x, y, epochs=3, verbose=0, callbacks=callbacks).history
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
