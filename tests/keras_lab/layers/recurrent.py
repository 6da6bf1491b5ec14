"""Binary recurrent layers beside those of Keras, for several tests."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_lab
from tests.keras_lab.engine import compiled, gradients_of
from tests.keras_lab.layers.cases import copy_forward_weights

KINDS = ["LSTM", "GRU", "SimpleRNN"]
GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}
BATCH, TIME, FEATURES, UNITS = 3, 6, 4, 5
each_kind = pytest.mark.parametrize("kind", KINDS)


def random(*shape, seed=0):
    values = np.random.default_rng(seed).normal(size=shape)
    return ops.convert_to_tensor(values.astype("float32"))


def binary(kind, **options):
    return getattr(keras_lab, f"Binary{kind}")(UNITS, **options)


def pair(kind, quantizer, **options):
    """A binary layer, and Keras' with the weights of its forward pass."""
    layer = binary(kind, kernel_quantizer=quantizer, **options)
    plain = getattr(keras.layers, kind)(UNITS, **options)
    for each in (layer, plain):
        each.build((BATCH, TIME, FEATURES))
    copy_with_bias(layer.cell, plain.cell)
    return layer, plain


def build_alike(layer, other, shape, other_shape=None):
    """Builds two layers; the second one gets the weights of the first."""
    layer.build(shape)
    other.build(other_shape or shape)
    other.set_weights(layer.get_weights())


def copy_with_bias(cell, plain):
    """Also gives both of them a bias that is not zero."""
    if cell.bias is not None:
        cell.bias.assign(random(*cell.bias.shape, seed=9))
    copy_forward_weights(cell, plain)


def outputs_and_gradients(layer, weights, x, jit_compile=None, **call):
    """Everything that comes out of a layer, and what flows back into it."""
    states = call.pop("initial_state", [])

    def outputs(x, *states):
        options = {"initial_state": list(states)} if states else {}
        return keras.tree.flatten(layer(x, **options, **call))

    def loss(*inputs):
        return sum(ops.sum(o * ops.cos(o)) for o in outputs(*inputs))

    run = compiled(outputs, jit_compile) if jit_compile else outputs
    of_loss = gradients_of(loss, [x, *states], weights, jit_compile)
    return [np.asarray(t) for t in [*run(x, *states), *of_loss]]


def trained(cell):
    names = ("kernel", "recurrent_kernel", "bias")
    weights = [getattr(cell, name) for name in names]
    return [weight for weight in weights if weight is not None]
