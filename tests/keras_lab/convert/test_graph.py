"""One walker: every layer and binary weight once, under one unique path."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from keras_lab.binary_weight import weights_of
from keras_lab.convert.graph import (
    binary_weights,
    first_and_last,
    leaf_layers,
    trace,
    walk,
)


def tower(name, width=4):
    """A model with a layer `fc`, as any other tower has one."""
    inputs = keras.Input((4,))
    outputs = keras_lab.BinaryDense(width, name="fc")(inputs)
    return keras.Model(inputs, outputs, name=name)


def two_towers():
    inputs = keras.Input((4,), name="inputs")
    left, right = tower("left"), tower("right")
    sum_ = layers.Add(name="sum")([left(inputs), right(inputs)])
    outputs = right(keras_lab.BinaryDense(4, name="fc")(sum_))
    return keras.Model(inputs, outputs, name="two_towers")


class Block(layers.Layer):
    """Holds layers in an attribute, a list, a dict and a nested list."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras_lab.BinaryDense(4, name="fc")
        self.list = [keras_lab.BinaryDense(4, name="fc") for _ in range(2)]
        self.dict = {"last": [keras_lab.BinaryDense(4, name="last")]}
        self.same = self.dense

    def build(self, shape):
        for layer in (self.dense, *self.list, *self.dict["last"]):
            layer.build(shape)

    def call(self, x):
        for layer in (self.dense, *self.list, *self.dict["last"]):
            x = layer(x)
        return x


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__(name="subclassed")
        self.towers = [tower("left"), tower("right")]
        self.block = Block(name="block")

    def call(self, x):
        for layer in (*self.towers, self.block):
            x = layer(x)
        return x


def test_two_layers_with_the_same_variable_path_have_different_paths():
    model = two_towers()
    found = binary_weights(model)
    assert set(found) == {"left/fc/kernel", "right/fc/kernel", "fc/kernel"}
    assert len({w.latent.path for w in found.values()}) < len(found)
    kernels = {
        "left/fc/kernel": model.get_layer("left").get_layer("fc").kernel,
        "right/fc/kernel": model.get_layer("right").get_layer("fc").kernel,
        "fc/kernel": model.get_layer("fc").kernel,
    }
    for path, kernel in kernels.items():
        assert found[path].latent is kernel


def test_a_layer_comes_before_those_inside_it_in_the_order_of_the_model():
    model = two_towers()
    paths = list(walk(model))
    assert [p for p in paths if "/" not in p] == [x.name for x in model.layers]
    for name in ("left", "right"):
        assert paths[paths.index(name) + 2] == f"{name}/fc"
    outer = [p for p in paths if p not in ("left", "right")]
    assert list(leaf_layers(model)) == outer


def test_subclassed_models_and_custom_layers_are_entered():
    model = Subclassed()
    model(np.zeros((2, 4), "float32"))
    assert list(binary_weights(model)) == [
        "left/fc/kernel",
        "right/fc/kernel",
        "block/fc/kernel",
        "block/fc_1/kernel",
        "block/fc_2/kernel",
        "block/last/kernel",
    ]
    assert list(binary_weights(model.block)) == [
        "fc/kernel",
        "fc_1/kernel",
        "fc_2/kernel",
        "last/kernel",
    ]


def test_a_functional_subclass_may_hold_further_layers():
    class Own(keras.Model):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.extra = keras_lab.BinaryDense(2, name="extra")
            self.extra.build((None, 4))

    inputs = keras.Input((4,))
    model = Own(inputs, keras_lab.BinaryDense(3, name="fc")(inputs))
    assert list(binary_weights(model)) == ["fc/kernel", "extra/kernel"]


def test_a_layer_itself_has_the_names_of_its_weights():
    layer = keras_lab.BinarySeparableConv2D(4, 3)
    layer.build((None, 8, 8, 2))
    names = ["depthwise_kernel", "pointwise_kernel"]
    assert list(binary_weights(layer)) == names
    assert walk(layer) == {}


RECURRENT = {
    "lstm": (
        lambda: keras_lab.BinaryLSTM(3, name="lstm"),
        ["lstm/kernel", "lstm/recurrent_kernel"],
    ),
    "cell": (
        lambda: layers.RNN(keras_lab.BinaryGRUCell(3), name="rnn"),
        ["rnn/kernel", "rnn/recurrent_kernel"],
    ),
    "stacked cells": (
        lambda: layers.RNN(
            [keras_lab.BinarySimpleRNNCell(3, name=n) for n in ("a", "a")],
            name="rnn",
        ),
        [
            "rnn/a/kernel",
            "rnn/a/recurrent_kernel",
            "rnn/a_1/kernel",
            "rnn/a_1/recurrent_kernel",
        ],
    ),
    "bidirectional": (
        lambda: layers.Bidirectional(
            keras_lab.BinaryLSTM(3, name="lstm"), name="both"
        ),
        [
            "both/forward_lstm/kernel",
            "both/forward_lstm/recurrent_kernel",
            "both/backward_lstm/kernel",
            "both/backward_lstm/recurrent_kernel",
        ],
    ),
    "time distributed": (
        lambda: layers.TimeDistributed(tower("tower"), name="each"),
        ["each/tower/fc/kernel"],
    ),
}


@pytest.mark.parametrize("case", RECURRENT)
def test_a_recurrent_layer_and_its_cell_read_as_one(case):
    make, expected = RECURRENT[case]
    layer = make()
    model = keras.Sequential([keras.Input((5, 4)), layer])
    assert list(binary_weights(model)) == expected
    assert len(walk(model)) == len({id(x) for x in walk(model).values()})


def test_weights_of_the_model_itself_and_shared_ones_appear_once():
    shared = tower("shared")
    a, b = keras.Input((4,)), keras.Input((4,))
    fc = shared.get_layer("fc")
    model = keras.Model([a, b], [shared(a), fc(shared(b))])
    assert list(binary_weights(model)) in (["shared/fc/kernel"], ["fc/kernel"])
    found = binary_weights(model).values()
    assert [id(w) for w in found] == [id(w) for w in weights_of(model.weights)]


def test_calls_come_after_those_whose_results_they_take():
    model = two_towers()
    before = model.get_config()
    graph = trace(model)
    names = [call.layer.name for call in graph.calls]
    assert sorted(names[:2]) == ["left", "right"]
    assert names[2:] == ["sum", "fc", "right"]
    known = set(map(id, graph.inputs))
    for call in graph.calls:
        assert {id(x) for x in call.inputs} <= known
        known |= {id(x) for x in keras.tree.flatten(call.outputs)}
    assert {id(x) for x in graph.outputs} <= known
    # The layers do not remember that.
    assert model.get_config() == before
    assert model.get_layer("fc").output.shape == (None, 4)


def test_other_shapes_and_several_outputs_are_traced():
    inputs = keras.Input((None, 3))
    outputs = layers.LSTM(2, return_sequences=True, return_state=True)(inputs)
    model = keras.Model(inputs, outputs[0] * 2.0)
    lstm, product = trace(model, [(1, 7, 3)]).calls
    shapes = [x.shape for x in keras.tree.flatten(lstm.outputs)]
    assert shapes == [(1, 7, 2), (1, 2), (1, 2)]
    assert product.inputs[0] is lstm.outputs[0]
    assert not isinstance(product.layer, keras.Layer)


def test_first_and_last_are_found_inside_models_on_each_path():
    model = two_towers()
    first, last = first_and_last(
        model, lambda layer: isinstance(layer, layers.Dense)
    )
    left, right = (
        model.get_layer(n).get_layer("fc") for n in ("left", "right")
    )
    assert first == {id(left), id(right)}
    assert last == {id(right)}
