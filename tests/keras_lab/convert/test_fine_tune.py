"""`fine_tune`: the whole recipe in one call."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from keras_lab.convert import fine_tune
from keras_lab.convert.distillation import map_losses
from keras_lab.convert.fine_tune import _soft_loss
from tests.keras_lab.support import assert_same, random, sequential

X = random((300, 6), 1)
Y = (X @ random((6, 4))).argmax(axis=1)


def classifier(activation="softmax", epochs=10):
    model = sequential(
        (6,),
        layers.Dense(32),
        layers.BatchNormalization(momentum=0.9),
        layers.ReLU(),
        layers.Dense(32, "relu"),
        layers.Dense(4, activation),
    )
    logits = activation is None
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=logits)
    model.compile("adam", loss, metrics=["accuracy"])
    model.fit(X, Y, epochs=epochs, verbose=0)
    return model


def test_each_stage_is_measured_and_the_trained_model_stays(capsys):
    """Of a network that ends in logits, on a dataset."""
    tf = pytest.importorskip("tensorflow")
    keras.utils.set_random_seed(0)
    trained = classifier(activation=None)
    before = trained.get_weights()
    train = tf.data.Dataset.from_tensor_slices((X, Y)).batch(100)
    model, history = keras_lab.fine_tune(
        trained, train, validation_data=(X, Y), epochs=5, verbose=2
    )
    stages = history.stages
    assert list(stages) == ["float", "binarized", "recalibrated", "fine-tuned"]
    assert stages["fine-tuned"]["loss"] < stages["recalibrated"]["loss"]
    scores = model.predict(X, verbose=0).argmax(axis=1)
    accuracy = stages["fine-tuned"]["accuracy"]
    assert np.mean(scores == Y) == pytest.approx(accuracy, abs=1e-6)
    assert len(history.history["loss"]) == 5
    printed = capsys.readouterr().out
    assert all(f"{stage}: accuracy" in printed for stage in stages)
    assert len(keras_lab.binary_weights(model)) == 1
    assert_same(before, trained.get_weights())


def test_several_outputs_each_have_their_loss():
    inputs = keras.Input((6,))
    hidden = layers.Dense(8, "relu")(layers.Dense(8, "relu")(inputs))
    outputs = {
        "label": layers.Dense(4, "softmax", name="label")(hidden),
        "value": layers.Dense(1, name="value")(hidden),
    }
    trained = keras.Model(inputs, outputs)
    loss = {"label": "sparse_categorical_crossentropy", "value": "mse"}
    trained.compile(loss=loss)
    target = {"label": Y, "value": X[:, :1]}
    model, history = keras_lab.fine_tune(
        trained,
        (X, target),
        validation_data=(X, target),
        epochs=1,
        verbose=0,
    )
    assert set(model.output) == {"label", "value"}
    assert {"label_loss", "value_loss"} <= history.stages["float"].keys()
    losses = map_losses(_soft_loss, loss)
    assert type(losses["label"]) is keras_lab.SoftTargets
    assert type(losses["value"]) is keras.losses.MeanSquaredError
    binary = _soft_loss(keras.losses.BinaryCrossentropy(from_logits=True))
    assert binary.name == "binary_crossentropy"


class Metric(keras.metrics.MeanSquaredError):
    """Not registered."""


class Endless(keras.utils.PyDataset):
    num_batches = None


def test_what_is_missing_is_named_before_the_work():
    plain = sequential((6,), *(layers.Dense(4) for _ in range(3)))
    with pytest.raises(ValueError, match="with loss=None"):
        keras_lab.fine_tune(plain, (X, Y))
    plain.compile(loss="mse")
    with pytest.raises(TypeError, match=r"`validation_data`.*a generator"):
        keras_lab.fine_tune(plain, (X, Y), iter([(X, Y)]))
    with pytest.raises(ValueError, match="`validation_data` must have an end"):
        keras_lab.fine_tune(plain, (X, Y), Endless())
    with pytest.raises(ValueError, match="of length 4"):
        keras_lab.fine_tune(plain, (X, Y, Y, Y))
    with pytest.raises(ValueError, match="epochs=0"):
        keras_lab.fine_tune(plain, (X, Y), epochs=0)
    with pytest.raises(TypeError, match="argument 'kernel_quantizer'"):
        keras_lab.fine_tune(plain, (X, Y), kernel_quantizer="bwn")
    plain.compile(loss="mse", metrics=[Metric()])
    with pytest.raises(ValueError, match="does not know their class"):
        keras_lab.fine_tune(plain, (X, Y))
    with pytest.raises(TypeError, match="must be a Keras model"):
        keras_lab.fine_tune(None, (X, Y))


@pytest.mark.parametrize("batch_size", [4, 128])
def test_the_order_of_the_rows_does_not_matter(monkeypatch, batch_size):
    """Of arrays that are sorted by class, the first rows are one class."""
    monkeypatch.setattr(fine_tune, "RECALIBRATION_ROWS", 150)
    trained = classifier(epochs=1)
    order = np.argsort(X[:, 0])
    model, _ = keras_lab.fine_tune(
        trained,
        (X[order], Y[order]),
        epochs=1,
        batch_size=batch_size,
        verbose=0,
    )
    found = model.layers[1].moving_mean.numpy()
    keras_lab.recalibrate_batch_norm(model, X)
    expected, variance = model.layers[1].get_weights()[2:]
    assert np.abs(found - expected).max() < 0.2 * np.sqrt(variance.max())


def test_texts_for_a_preprocessor_are_an_error():
    """A classifier of KerasHub preprocesses them in its own `fit`."""
    tf = pytest.importorskip("tensorflow")
    trained = classifier(epochs=1)
    trained.preprocessor = len
    texts = np.array(["a", "b"])
    dataset = tf.data.Dataset.from_tensor_slices((texts, [0, 1]))
    for train in ((texts, Y), (["a", "b"], Y), dataset.batch(2)):
        with pytest.raises(ValueError, match=r"trained.preprocessor\(x\)"):
            keras_lab.fine_tune(trained, train)


def test_the_weights_of_losses_and_samples_count():
    trained = classifier(epochs=1)
    trained.compile(
        "adam", "sparse_categorical_crossentropy", loss_weights=[0.5]
    )
    weights = np.linspace(0, 1, len(X))
    validation = (X, Y, weights)
    expected = trained.evaluate(X, Y, sample_weight=weights, verbose=0)
    _, history = keras_lab.fine_tune(
        trained, validation, validation, epochs=1, verbose=0
    )
    found = history.stages["float"]["loss"]
    assert found == pytest.approx(float(np.ravel(expected)[0]), rel=1e-5)


@keras.saving.register_keras_serializable("test_fine_tune")
def always_three(y, y_pred):
    return 3 * keras.ops.ones(keras.ops.shape(y)[0])


def test_each_validation_sees_recalibrated_batch_norms():
    """Of a network that was converted before, with other quantizers."""
    trained = classifier(epochs=1)
    trained.compile(loss=trained.loss, metrics=[always_three])
    binary = keras_lab.binarize_model(trained, "bwn", skip_last=False)
    model, history = keras_lab.fine_tune(
        trained, (X, Y), (X, Y), epochs=2, binary=binary, verbose=0
    )
    assert model is binary
    last = history.history["val_loss"][-1]
    found = history.stages["fine-tuned"]
    assert found["loss"] == pytest.approx(last, rel=1e-5)
    assert found["always_three"] == 3  # A metric can be any function.
