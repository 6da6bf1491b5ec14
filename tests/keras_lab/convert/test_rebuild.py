"""Rebuilding keeps what is in no config: functions, classes, states, flags."""

import random as python_random

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.keras_lab.convert.support import (
    assert_equal_in_full_precision,
    in_full_precision,
    random,
)


def test_what_was_adapted_to_data_stays_so():
    x = 5 + 3 * random((50, 4))
    norm = keras.layers.Normalization()
    norm.adapt(x)
    model = keras.Sequential(
        [keras.Input((4,)), norm, *(keras.layers.Dense(3) for _ in range(3))]
    )
    binary = keras_lab.binarize_model(model)
    for new in (in_full_precision(model), keras_lab.freeze(model)):
        np.testing.assert_allclose(new(x), model(x), atol=1e-5)
    np.testing.assert_array_equal(binary.layers[0](x), norm(x))
    lookup = keras.layers.IntegerLookup(output_mode="one_hot")
    lookup.adapt([1, 2, 3, 5])
    model = keras.Sequential(
        [
            keras.Input((1,), dtype="int64"),
            lookup,
            *(keras.layers.Dense(3) for _ in range(3)),
        ]
    )
    x = np.array([[1], [5], [7]])
    new = keras_lab.binarize_model(model, None)
    np.testing.assert_array_equal(new(x), model(x))


def test_flags_and_kinds_of_inputs_stay():
    words = keras.Input((5, 2), name="words")
    maybe = keras.Input((3,), name="maybe", optional=True)
    lstm = keras.layers.LSTM(3)
    nested = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3)])
    x = nested(lstm(words))
    x = keras.layers.Concatenate()([x, maybe])
    model = keras.Model([words, maybe], keras.layers.Dense(2)(x))
    lstm.cell.trainable = False
    nested.trainable = False
    nested.layers[0].trainable = True
    new = in_full_precision(model)
    assert not new.get_layer(lstm.name).cell.trainable
    counts = [
        [len(m.trainable_variables), len(m.non_trainable_variables)]
        for m in (model, new)
    ]
    assert counts[0] == counts[1]
    assert not new.get_layer(nested.name).trainable
    assert not new.get_layer("words").optional
    assert new.get_layer("maybe").optional
    model.trainable = False
    assert not in_full_precision(model).trainable


def test_what_keras_cannot_find_by_name_is_kept():
    class Local(keras.layers.Layer):
        def build(self, shape):
            self.scale = self.add_weight(shape=shape[-1:])

        def call(self, x):
            return x * self.scale

    factor = np.float32(2)

    def triple(x):
        return 3 * x

    model = keras.Sequential(
        [
            keras.Input((4,)),
            Local(name="local"),
            keras.layers.Lambda(lambda x: factor * x),
            keras.layers.Lambda(triple),
            keras.layers.Dense(3),
            keras.layers.Dense(2),
        ]
    )
    assert_equal_in_full_precision(model)
    _, report = keras_lab.binarize_model(
        model, skip_first=False, return_report=True
    )
    assert report[0].skipped == "a custom layer"


def test_a_custom_cell_may_have_the_name_of_one_of_keras():
    @keras.saving.register_keras_serializable("test_rebuild")
    class GRUCell(keras.layers.GRUCell):
        def call(self, *args, **kwargs):
            outputs, state = super().call(*args, **kwargs)
            return 2 * outputs, state

    words = keras.Input((5, 2))
    cells = [keras.layers.LSTMCell(3), GRUCell(3)]
    x = keras.layers.RNN(cells)(words)
    model = keras.Model(words, keras.layers.Dense(2)(x))
    assert_equal_in_full_precision(model)


def test_the_random_state_stays_as_it_was():
    model = keras.Sequential([keras.Input((4,))])
    for _ in range(3):
        model.add(layers.Dense(4))
    python_random.seed(3)
    expected = python_random.random()
    python_random.seed(3)
    keras_lab.binarize_model(model)
    assert python_random.random() == expected


class Unregistered(layers.Layer):
    def call(self, x):
        return 2 * x


class WithoutConfig(Unregistered):
    def __init__(self, factor):
        super().__init__(name="mine")


def test_a_class_that_is_not_registered_is_rebuilt_if_it_can_be():
    def model_with(layer):
        return keras.Sequential(
            [keras.Input((4,)), keras_lab.BinaryDense(3), layer]
        )

    model, x = model_with(Unregistered(name="mine")), np.ones((2, 4))
    np.testing.assert_array_equal(keras_lab.freeze(model)(x), model(x))
    with pytest.raises(ValueError, match=r"'mine'.*of type WithoutConfig"):
        keras_lab.freeze(model_with(WithoutConfig(2)))


def twice_tanh(x):
    return 2 * keras.ops.tanh(x)


@pytest.mark.parametrize("function", [twice_tanh, lambda x: twice_tanh(x)])
@pytest.mark.parametrize(
    "make_layer",
    [
        lambda f: layers.Lambda(f),
        lambda f: layers.Activation(f),
        lambda f: keras_lab.BinaryDense(4, activation=f),
        lambda f: keras_lab.BinaryDense(
            4, activation=f, input_quantizer="sign"
        ),
        lambda f: layers.TimeDistributed(keras_lab.BinaryDense(4, f)),
        lambda f: keras_lab.BinaryLSTM(4, activation=f),
    ],
)
@pytest.mark.parametrize(
    "functional", [True, pytest.param(False, marks=pytest.mark.slow)]
)
def test_functions_need_not_be_registered(make_layer, function, functional):
    """Nor the names that they use."""
    model = keras.Sequential(
        [keras.Input((3, 5)), keras_lab.BinaryDense(4), make_layer(function)]
    )
    if functional:
        model = keras.Model(model.inputs, model.outputs)
    x = random((2, 3, 5))
    frozen = keras_lab.freeze(model)
    np.testing.assert_allclose(frozen(x), model(x), atol=1e-6)


def times(factor):
    def scale(x):
        return factor * x

    return scale


def test_functions_of_the_same_name_are_not_confused():
    """Inside one layer, where a config has their names only."""
    inner = keras.Sequential(
        [
            keras.Input((5,)),
            layers.Dense(4, activation=times(2.0)),
            layers.Dense(3, activation=times(-3.0)),
            layers.Lambda(lambda x: 5 * x),
            layers.Lambda(lambda x: x - 7),
        ]
    )
    model = keras.Sequential(
        [
            keras.Input((6, 5)),
            layers.TimeDistributed(inner),
            layers.LSTM(4, times(0.5), times(0.1)),
        ]
    )
    x = random((2, 6, 5))
    for new in (in_full_precision(model), keras_lab.freeze(model)):
        np.testing.assert_allclose(new(x), model(x), atol=1e-5)
    assert times(1).__name__ == "scale"
