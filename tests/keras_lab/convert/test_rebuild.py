"""Rebuilding keeps what is in no config: functions, classes, states, flags."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.keras_lab.support import (
    assert_equal_in_full_precision,
    assert_same,
    in_full_precision,
    random,
    saved_and_loaded,
    sequential,
)

BOTH = pytest.mark.parametrize("rebuild", [in_full_precision, keras_lab.freeze])


@BOTH
def test_what_was_adapted_to_data_stays_so(rebuild):
    x = 5 + 3 * random((50, 4))
    norm = layers.Normalization()
    norm.adapt(x)
    model = sequential((4,), norm, layers.Dense(3))
    np.testing.assert_allclose(rebuild(model)(x), model(x), atol=1e-5)


@BOTH
def test_a_table_of_numbers_stays_so(rebuild):
    pytest.importorskip("tensorflow")  # Keras' layer needs it.
    lookup = layers.IntegerLookup()
    lookup.adapt([1, 2, 3, 5])
    # The dense layer takes integers.
    model = sequential((1,), lookup, layers.Dense(3), dtype="int64")
    x = np.array([[1], [5], [7]])
    np.testing.assert_array_equal(rebuild(model)(x), model(x))


def test_flags_and_kinds_of_inputs_stay():
    words = keras.Input((5, 2), name="words")
    maybe = keras.Input((3,), name="maybe", optional=True)
    lstm = layers.LSTM(3)
    nested = sequential((3,), layers.Dense(3))
    x = layers.Concatenate()([nested(lstm(words)), maybe])
    model = keras.Model([words, maybe], layers.Dense(2)(x))
    lstm.cell.trainable = False
    nested.trainable = False
    nested.layers[0].trainable = True
    new = in_full_precision(model)
    assert not new.get_layer(nested.name).trainable
    for kind in ("trainable_variables", "non_trainable_variables"):
        assert len(getattr(new, kind)) == len(getattr(model, kind))
    assert new.get_layer("maybe").optional


def test_classes_that_keras_cannot_find_by_name_are_kept():
    class Local(layers.Layer):
        def build(self, shape):
            self.scale = self.add_weight(shape=shape[-1:])

        def call(self, x):
            return x * self.scale

    class GRUCell(layers.GRUCell):  # It has the name of another class.
        def call(self, *args, **kwargs):
            outputs, state = super().call(*args, **kwargs)
            return 2 * outputs, state

    model = sequential(
        (5, 4),
        Local(name="local"),
        layers.RNN([layers.LSTMCell(3), GRUCell(3)]),
        layers.Dense(2),
    )
    assert_equal_in_full_precision(model)
    _, report = keras_lab.binarize_model(
        model, skip_first=False, return_report=True
    )
    assert report[0].skipped == "a custom layer"


class Lazy(layers.Layer):
    """Only a call builds the layer inside it."""

    def __init__(self, rate=0.5, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.norm = layers.LayerNormalization()

    def call(self, x, training=None):
        return self.norm(x) * (self.rate if training else 1)

    def compute_output_shape(self, shape):
        return shape

    def get_config(self):
        return super().get_config()


@BOTH
@pytest.mark.filterwarnings("error::UserWarning")
def test_a_layer_that_its_first_call_builds_is_rebuilt(rebuild):
    model = sequential((4,), Lazy(), layers.Dense(3), layers.Dense(3))
    assert_same(model.get_weights(), rebuild(model).get_weights())


@BOTH
def test_an_argument_that_counts_in_training_only_is_missed(rebuild):
    model = sequential((4,), Lazy(0.1, name="mine"), layers.Dense(3))
    with pytest.raises(ValueError, match="Layer 'mine' computes something"):
        rebuild(model)


@BOTH
def test_a_config_without_a_size_is_named(rebuild):
    class Sized(layers.Layer):
        def __init__(self, units=2, **kwargs):
            super().__init__(**kwargs)
            self.dense = layers.Dense(units)

        def call(self, x):
            return self.dense(x)

        def get_config(self):
            return super().get_config()

    model = sequential((4,), layers.Dense(3), Sized(3))
    with pytest.raises(ValueError, match=r"rebuilt from it.*a `get_config`"):
        rebuild(model)


@BOTH
def test_a_function_that_uses_a_layer_of_the_model_is_named(rebuild):
    words = keras.Input((5,), dtype="int32")
    embedding = layers.Embedding(9, 4, name="words")
    tied = layers.Lambda(
        lambda x: x @ keras.ops.transpose(embedding.embeddings), name="tied"
    )
    model = keras.Model(words, tied(layers.Dense(4)(embedding(words))))
    with pytest.raises(ValueError, match="'tied' and the model share 'embedd"):
        rebuild(model)


def test_a_model_that_cannot_be_made_again_is_named():
    class WithoutConfig(layers.Layer):
        def __init__(self, factor):
            super().__init__(name="mine")

        def call(self, x):
            return 2 * x

    model = sequential((4,), keras_lab.BinaryDense(3), WithoutConfig(2))
    with pytest.raises(ValueError, match=r"'mine'.*of type WithoutConfig"):
        keras_lab.freeze(model)
    with pytest.raises(ValueError, match="no `get_config`"):
        keras_lab.freeze(sequential((4,), WithoutConfig(len)))
    model = sequential((4,), layers.Dense(3), WithoutConfig(2))
    model.layers[1].get_config = lambda: {}["units"]
    with pytest.raises(ValueError, match=r"'mine'.*KeyError: 'units'"):
        in_full_precision(model)
    empty = keras.Sequential([keras_lab.BinaryDense(3)], name="empty")
    with pytest.raises(ValueError, match=r"no weights yet.*'empty'"):
        keras_lab.freeze(empty)


@BOTH
@pytest.mark.parametrize("kind", ["functional", "sequential", "siblings"])
def test_a_file_of_models_that_share_a_layer_can_be_loaded(
    rebuild, kind, tmp_path
):
    """Keras cannot load the file of the original, so no inner model stays."""
    shared = layers.Dense(4, name="shared")
    inputs = keras.Input((4,))
    inner, other = (
        sequential((4,), shared, layers.Dense(4, name=name), name=name + "s")
        for name in "ab"
    )
    if kind == "functional":
        model = keras.Model(inputs, {"y": shared(inner(inputs))})
    elif kind == "sequential":
        model = keras.Sequential([inputs, inner, shared])
    else:
        model = keras.Model(inputs, other(inner(inputs)))
    new, x = rebuild(model), random((3, 4))
    assert len(new.weights) == len(model.weights)
    for other in (new, saved_and_loaded(new, tmp_path)):
        for a, b in zip(
            keras.tree.flatten(other(x)), keras.tree.flatten(model(x))
        ):
            np.testing.assert_allclose(a, b, atol=1e-6)


def times(factor):
    def scale(x):
        return factor * x

    return scale


@BOTH
@pytest.mark.parametrize("functional", [True, False])
def test_functions_need_not_be_registered_and_are_not_confused(
    rebuild, functional
):
    """All have the same name, and a config has their names only."""
    inner = sequential(
        (4,),
        layers.Dense(4, activation=times(2.0)),
        layers.Dense(3, activation=times(-3.0)),
        layers.Lambda(lambda x: 5 * x),
        layers.Lambda(lambda x: x - 7),
    )
    model = sequential(
        (6, 5),
        layers.Dense(4, activation=times(0.1)),
        keras_lab.BinaryDense(
            4, activation=times(-0.3), input_quantizer="sign"
        ),
        layers.Activation(times(0.7)),
        layers.TimeDistributed(inner),
        layers.TimeDistributed(keras_lab.BinaryDense(4, times(1.1))),
        keras_lab.BinaryLSTM(4, times(0.3), return_sequences=True),
        layers.LSTM(4, times(0.5), times(0.1)),
    )
    if functional:
        model = keras.Model(model.inputs[0], model.outputs[0])
    x = random((2, 6, 5))
    np.testing.assert_allclose(rebuild(model)(x), model(x), atol=1e-5)
