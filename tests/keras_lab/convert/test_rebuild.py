"""Rebuilding keeps what is in no config: functions, classes, states, flags."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.keras_lab.support import (
    assert_equal_in_full_precision,
    in_full_precision,
    random,
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
    model.layers[1].get_config = lambda: {}["units"]
    with pytest.raises(ValueError, match=r"layer 'mine'.*KeyError: 'units'"):
        keras_lab.binarize_model(model)
    empty = keras.Sequential([keras_lab.BinaryDense(3)], name="empty")
    with pytest.raises(ValueError, match=r"no weights yet.*'empty'"):
        keras_lab.freeze(empty)


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
