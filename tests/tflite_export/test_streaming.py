"""Stateful recurrent layers: the caller keeps the state."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.tflite_export.models import lstm, net
from tests.tflite_export.support import FORMATS, randomize
from tflite_export import ConversionError, export_tflite, make_interpreter
from tflite_export.flatbuffer.model import FlatModel

STEPS = 12


def network(steps, stateful):
    """Two recurrent layers, one behind the other, and a float layer."""
    x = keras.Input((steps, 6), batch_size=1, name="x")
    options = {"return_sequences": True, "stateful": stateful}
    y = keras_lab.BinaryLSTM(16, name="first", **options)(x)
    y = keras_lab.BinaryGRU(8, name="second", **options)(y)
    return keras.Model(x, layers.Dense(5, name="scores")(y))


@pytest.fixture(scope="module")
def whole():
    """The outputs of a whole sequence, and the model without a state."""
    keras.utils.set_random_seed(1)
    model = randomize(network(STEPS, stateful=False))
    x = np.random.default_rng(1).normal(size=(1, STEPS, 6)).astype("f")
    return model, x, np.asarray(model(x))


def stream(path, x, steps):
    """Runs a file on a few steps at a time."""
    runner = make_interpreter(path).get_signature_runner()
    details = runner.get_input_details()
    state = {
        name: np.zeros(detail["shape"], "f")
        for name, detail in details.items()
        if name != "x"
    }
    outputs = []
    for start in range(0, x.shape[1], steps):
        result = runner(x=x[:, start : start + steps], **state)
        outputs.append(result["scores"])
        state = {name: result[name] for name in state}
    return np.concatenate(outputs, axis=1), sorted(state)


@pytest.mark.parametrize(
    ("format", "steps"),
    [
        *((format, 1) for format in FORMATS),
        pytest.param("packed", 3, marks=pytest.mark.slow),
        pytest.param("float", 3, marks=pytest.mark.slow),
    ],
)
def test_step_by_step_is_the_whole_sequence(whole, path, format, steps):
    model, x, expected = whole
    streaming = network(steps, stateful=True)
    streaming.set_weights(model.get_weights())
    # A state that is missing is zero.
    samples = {"x": x[:, :steps], "first_state_1": np.full((1, 16), 0.5)}
    export_tflite(streaming, path, format, validation_data=samples)
    actual, names = stream(path, x, steps)
    assert names == ["first_state_0", "first_state_1", "second_state_0"]
    error = np.abs(actual - expected).max() / np.abs(expected).max()
    assert error < (1e-5 if "float" in format else 0.03)
    # The caller starts again with zeros.
    np.testing.assert_array_equal(stream(path, x, steps)[0], actual)
    if steps == 1:  # Without a loop.
        assert len(FlatModel(path.read_bytes()).subgraphs) == 1


def test_a_sequence_of_any_length_is_compared_on_the_given_one(path):
    x = keras.Input((None, 6), batch_size=1, name="x")
    y = keras_lab.BinaryGRU(8, name="gru", stateful=True)(x)
    model = randomize(keras.Model(x, layers.Dense(5, name="scores")(y)))
    samples = np.random.default_rng(1).normal(size=(3, STEPS, 6))
    report = export_tflite(model, path, "float", validation_data=samples)
    assert report.agreement.samples == 3


def test_indices_become_vectors_in_front_of_the_layer(path):
    letters = np.random.default_rng(0).integers(0, 7, (1, STEPS)).astype("i4")

    def letter_model(steps, stateful):
        x = keras.Input((steps,), batch_size=1, dtype="int32", name="x")
        options = {"return_sequences": True, "stateful": stateful}
        y = layers.Reshape((-1, 1))(x)
        y = keras_lab.BinaryLSTM(8, one_hot=7, name="lstm", **options)(y)
        return keras.Model(x, layers.Dense(5, name="scores")(y))

    model = randomize(letter_model(STEPS, False))
    streaming = letter_model(1, True)
    streaming.set_weights(model.get_weights())
    export_tflite(streaming, path, "packed_float")
    actual, _ = stream(path, letters, 1)
    np.testing.assert_allclose(actual, model(letters), atol=1e-6)


def masked():
    x = keras.Input((1,), batch_size=1, dtype="int32", name="x")
    y = layers.Embedding(20, 8, mask_zero=True)(x)
    return x, keras_lab.BinaryLSTM(6, stateful=True)(y)


def stacked():
    x = keras.Input((1, 4), batch_size=1, name="x")
    cells = [keras_lab.BinaryLSTMCell(5), keras_lab.BinaryGRUCell(6)]
    return x, keras_lab.BinaryRNN(cells, stateful=True)(x)


@pytest.mark.parametrize(
    ("make", "x"),
    [
        (masked, np.array([[3, 0, 5, 7, 0, 1]], "int32")),
        (stacked, np.random.default_rng(0).normal(size=(1, 6, 4)).astype("f")),
    ],
)
def test_masks_and_stacks_of_cells_have_a_state_too(make, x, path):
    inputs, y = make()
    model = randomize(keras.Model(inputs, layers.Dense(5, name="scores")(y)))
    export_tflite(model, path, "packed_float")
    actual, _ = stream(path, x, 1)
    steps = [model(x[:, i : i + 1]) for i in range(x.shape[1])]
    np.testing.assert_allclose(actual, np.concatenate(steps, 1), atol=1e-6)


def inside():
    inner = net((1, 4), lstm(3, stateful=True), batch_size=1)
    return net((1, 4), inner, batch_size=1)()


def twice():
    x = keras.Input((1, 4), batch_size=1)
    layer = keras_lab.BinaryLSTM(4, stateful=True, return_sequences=True)
    return keras.Model(x, layer(layer(x)))


def given():
    x = keras.Input((1, 4), batch_size=1)
    state = layers.Dense(6)(layers.Flatten()(x))
    layer = keras_lab.BinaryGRU(6, stateful=True)
    return keras.Model(x, layer(x, initial_state=state))


def taken():
    x = keras.Input((1, 4), batch_size=1, name="l_state_0")
    return keras.Model(x, keras_lab.BinaryGRU(6, stateful=True, name="l")(x))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (inside, "Use it once, in the model"),
        (twice, "Use it once, in the model"),
        (given, "Remove `initial_state`"),
        (taken, "a layer named 'l_state_0'"),
    ],
)
def test_a_state_that_cannot_be_handed_out_is_an_error(make, message, path):
    with pytest.raises(ConversionError, match=message):
        export_tflite(make(), path)
