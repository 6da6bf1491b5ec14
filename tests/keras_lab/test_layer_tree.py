"""One walker: every layer and binary weight once, under one unique path."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from keras_lab.binary_weight import binary_weights, weights_of
from keras_lab.layer_tree import leaf_layers, walk
from tests.keras_lab.support import Subclassed, sequential


def fc():
    return keras_lab.BinaryDense(4, name="fc")


def tower(name):
    """A model with a layer `fc`, as any other tower has one."""
    inputs = keras.Input((4,))
    return keras.Model(inputs, fc()(inputs), name=name)


def two_towers():
    inputs = keras.Input((4,), name="inputs")
    left, right = tower("left"), tower("right")
    sum_ = layers.Add(name="sum")([left(inputs), right(inputs)])
    return keras.Model(inputs, right(fc()(sum_)), name="two_towers")


class Block(layers.Layer):
    """Holds layers in an attribute, a list and a list inside a dict."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = fc()
        self.list = [fc(), fc()]
        self.dict = {"last": [keras_lab.BinaryDense(4, name="last")]}
        self.same = self.dense

    def call(self, x):
        for layer in (self.dense, *self.list, *self.dict["last"]):
            x = layer(x)
        return x


def subclassed():
    towers = tower("left"), tower("right")
    return Subclassed(*towers, Block(name="block"), name="subclassed")


def called(model):
    model(np.zeros((2, 4), "float32"))
    return model


def shared_tower():
    shared, a, b = tower("shared"), keras.Input((4,)), keras.Input((4,))
    again = shared.get_layer("fc")
    return keras.Model([a, b], [shared(a), again(shared(b))])


def sequence(layer):
    return sequential((5, 4), layer)


def recurrent(*prefixes):
    names = ("kernel", "recurrent_kernel")
    return [f"{prefix}/{name}" for prefix in prefixes for name in names]


BLOCK = ["fc/kernel", "fc_1/kernel", "fc_2/kernel", "last/kernel"]
CONTAINERS = {
    "two towers": (
        two_towers,
        ["right/fc/kernel", "left/fc/kernel", "fc/kernel"],
    ),
    "custom layer": (lambda: called(Block()), BLOCK),
    "subclassed": (
        lambda: called(subclassed()),
        ["left/fc/kernel", "right/fc/kernel", *(f"block/{x}" for x in BLOCK)],
    ),
    "shared": (shared_tower, ["shared/fc/kernel"]),
    "cell": (
        lambda: sequence(layers.RNN(keras_lab.BinaryGRUCell(3), name="rnn")),
        recurrent("rnn"),
    ),
    "stacked cells": (
        lambda: sequence(
            layers.RNN(
                [keras_lab.BinarySimpleRNNCell(3, name="a") for _ in range(2)],
                name="rnn",
            )
        ),
        recurrent("rnn/a", "rnn/a_1"),
    ),
    "bidirectional": (
        lambda: sequence(
            layers.Bidirectional(
                keras_lab.BinaryLSTM(3, name="lstm"), name="both"
            )
        ),
        recurrent("both/forward_lstm", "both/backward_lstm"),
    ),
    "time distributed": (
        lambda: sequence(layers.TimeDistributed(tower("tower"), name="each")),
        ["each/tower/fc/kernel"],
    ),
}


@pytest.mark.parametrize("case", CONTAINERS)
def test_every_binary_weight_has_one_unique_path(case):
    make, expected = CONTAINERS[case]
    model = make()
    found = binary_weights(model)
    assert list(found) == expected
    weights = {id(weight) for weight in weights_of(model.weights)}
    assert {id(weight) for weight in found.values()} == weights
    walked = walk(model).values()
    assert len(walked) == len({id(layer) for layer in walked})


def test_paths_lead_to_the_right_layers_in_the_order_of_the_model():
    model = two_towers()
    found, paths = binary_weights(model), list(walk(model))
    # Keras calls them the same.
    assert len({weight.latent.path for weight in found.values()}) < len(found)
    for name in ("left", "right"):
        assert paths[paths.index(name) + 2] == f"{name}/fc"
        kernel = model.get_layer(name).get_layer("fc").kernel
        assert found[f"{name}/fc/kernel"].latent is kernel
    leaves = [p for p in paths if p not in ("left", "right")]
    assert list(leaf_layers(model)) == leaves


@pytest.mark.parametrize("function", [walk, binary_weights])
def test_what_is_not_a_layer_is_named(function):
    with pytest.raises(TypeError, match="Received: model=3 of type int"):
        function(3)
