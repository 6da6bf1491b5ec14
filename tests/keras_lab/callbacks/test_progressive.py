"""`ProgressiveBinarization`: from w to ŵ by layer, in training steps only."""

import keras
import numpy as np
import pytest

import keras_lab
from keras_lab.binary_weight import full_precision, weights_of
from keras_lab.callbacks import ProgressiveBinarization
from tests.keras_lab.engine import FEW_STEPS, slow_on_tensorflow
from tests.keras_lab.support import assert_same, random, sequential

X, Y = random((64, 6)), random((64, 4), 1)


def network(quantizer="lab", **options):
    model = sequential(
        (6,),
        keras_lab.BinaryDense(8, kernel_quantizer=quantizer),
        keras.layers.ReLU(),
        keras_lab.BinaryDense(4, kernel_quantizer=quantizer),
    )
    model.compile(keras_lab.LABAdam(0.01), "mse", **(options or FEW_STEPS))
    return model


def test_the_layers_become_binary_from_the_first_to_the_last():
    """Each with all of its weights, also inside a model."""
    model = sequential(
        (5, 6),
        keras_lab.BinaryLSTM(8, return_sequences=True),
        keras.Sequential([keras_lab.BinaryLSTM(8)]),
        keras_lab.BinaryDense(4),
    )
    model.compile(keras_lab.LABAdam(0.01), "mse", **FEW_STEPS)
    progressive, seen = ProgressiveBinarization(2), []
    watch = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda *_: seen.append(progressive.binary_layers)
    )
    x, y = random((8, 5, 6)), random((8, 4))
    model.fit(x, y, epochs=4, verbose=0, callbacks=[progressive, watch])
    all_ = [True, True, True]
    assert seen == [[True, False, False], [True, True, False], all_, all_]


@pytest.mark.filterwarnings("ignore:The training ended with 1 of 2")
@pytest.mark.parametrize(
    "options",
    [
        {"jit_compile": False},
        pytest.param({"jit_compile": True}, marks=slow_on_tensorflow),
        pytest.param({"steps_per_execution": 2}, marks=pytest.mark.slow),
    ],
)
def test_training_steps_use_w_and_validation_does_not(rng, options):
    model = network("bwn", **options)
    model.layers[0].kernel.assign(rng.uniform(-1, 1, (6, 8)))
    for weight in weights_of(model.weights):
        weight.refresh()
    binary_loss = model.evaluate(X, Y, verbose=0)
    with full_precision(weights_of(model.layers[-1].weights)):
        mixed = keras.ops.convert_to_numpy(model(X))
        mixed_loss = float(np.mean((mixed - Y) ** 2))
    assert mixed_loss != pytest.approx(binary_loss, rel=1e-2)
    model.optimizer.learning_rate = 0.0
    options = {"epochs": 2, "verbose": 0, "validation_data": (X, Y)}
    callbacks = [ProgressiveBinarization(2)]
    history = model.fit(X, Y, **options, callbacks=callbacks).history
    # The loss of the first epoch is that of the first layer binary alone.
    losses = [mixed_loss, binary_loss]
    np.testing.assert_allclose(history["loss"], losses, rtol=1e-5)
    np.testing.assert_allclose(history["val_loss"], binary_loss, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:The training ended with")
@pytest.mark.parametrize(
    ("callbacks", "pieces"),
    [
        # With no epochs it changes nothing.
        (([], [ProgressiveBinarization(0)]), [(0, 3)]),
        # A resumed training goes on as it would have.
        ([[ProgressiveBinarization(3)]] * 2, [(0, 2), (2, 4)]),
    ],
)
def test_two_trainings_are_the_same_to_the_bit(callbacks, pieces):
    results = []
    whole = [(pieces[0][0], pieces[-1][1])]
    for used, parts in zip(callbacks, (whole, pieces)):
        keras.utils.set_random_seed(1)
        model = network()
        options = {"shuffle": False, "verbose": 0, "callbacks": used}
        for first, last in parts:
            model.fit(X, Y, initial_epoch=first, epochs=last, **options)
        results.append(model.get_weights())
    assert_same(*results)


@pytest.mark.parametrize("event", ["train_begin", "train_batch_end"])
def test_after_an_interrupt_training_is_the_same_as_before(event):
    """Keras calls no callback if an error ends a training."""

    def die(*args, **kwargs):
        raise KeyboardInterrupt

    dying = keras.callbacks.LambdaCallback(**{f"on_{event}": die})
    for afterwards in ("fit", "train_on_batch"):
        model = network()
        callbacks = [ProgressiveBinarization(5), dying]
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, Y, verbose=0, callbacks=callbacks)
        loss = model.evaluate(X, Y, verbose=0)
        if afterwards == "fit":
            (received,) = model.fit(X, Y, 64, verbose=0).history["loss"]
        else:
            received = model.train_on_batch(X, Y)
        assert received == pytest.approx(loss, rel=1e-5)
        assert not {"train_step", "make_train_function"} & set(vars(model))


def test_what_has_no_effect_or_makes_no_sense_is_named():
    callbacks = [ProgressiveBinarization(3)]
    with pytest.warns(UserWarning, match="1 of 2 layers.*from epoch 4 on"):
        network().fit(X, Y, verbose=0, callbacks=callbacks)
    model = sequential((6,), keras.layers.Dense(4))
    model.compile("sgd", "mse", **FEW_STEPS)
    with pytest.warns(UserWarning, match="no binary weights"):
        model.fit(X, Y, verbose=0, callbacks=callbacks)
    with pytest.raises(ValueError, match=r"epochs=2\.5"):
        ProgressiveBinarization(2.5)
