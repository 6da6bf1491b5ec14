"""The loop over time: what binary cells prepare before it starts."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_lab
from keras_lab.binary_weight import BinaryWeight
from tests.keras_lab.engine import (
    compiled,
    gradients_of,
    needs_tensorflow,
    second_derivative,
)
from tests.keras_lab.layers.recurrent import (
    BATCH,
    FEATURES,
    GATES,
    TIME,
    UNITS,
    binary,
    build_alike,
    copy_with_bias,
    each_kind,
    outputs_and_gradients,
    pair,
    random,
    trained,
)

# What Keras puts around a cell, and around a recurrent layer.
AROUND_CELLS = {
    "RNN": lambda make, rnn: rnn(make(), return_sequences=True),
    "last of RNN": lambda make, rnn: rnn(make()),
    "stack": lambda make, rnn: rnn(
        [make(), make(), make()], return_sequences=True
    ),
    "stack behind a Keras cell": lambda make, rnn: rnn(
        keras.layers.StackedRNNCells([keras.layers.GRUCell(3), make()])
    ),
    "Bidirectional RNN": lambda make, rnn: keras.layers.Bidirectional(
        rnn(make(), return_sequences=True)
    ),
}
AROUND_LAYERS = {
    "Bidirectional": lambda make: keras.layers.Bidirectional(
        make(return_sequences=True)
    ),
    "TimeDistributed": lambda make: keras.layers.TimeDistributed(make()),
}


def cells_in(layer):
    inner = keras_lab.walk(layer).values()
    return [cell for cell in inner if hasattr(cell, "recurrent_kernel")]


@each_kind
@pytest.mark.parametrize("rnn", [keras_lab.BinaryRNN, keras.layers.RNN])
@pytest.mark.parametrize("around", AROUND_CELLS)
def test_cells_work_in_a_binary_rnn_and_in_that_of_keras(kind, rnn, around):
    make = getattr(keras_lab, f"Binary{kind}Cell")
    make_plain = getattr(keras.layers, f"{kind}Cell")
    wrap = AROUND_CELLS[around]
    check_equals_keras(
        wrap(lambda: make(UNITS), rnn),
        wrap(lambda: make_plain(UNITS), keras.layers.RNN),
        (BATCH, TIME, FEATURES),
    )


@each_kind
@pytest.mark.parametrize("around", AROUND_LAYERS)
def test_layers_work_in_what_keras_wraps_around_them(kind, around):
    make_plain = getattr(keras.layers, kind)
    wrap = AROUND_LAYERS[around]
    steps = (2, TIME) if around == "TimeDistributed" else (TIME,)
    check_equals_keras(
        wrap(lambda **k: binary(kind, **k)),
        wrap(lambda **k: make_plain(UNITS, **k)),
        (BATCH, *steps, FEATURES),
    )


def check_equals_keras(layer, plain, shape):
    layer.build(shape)
    plain.build(shape)
    cells, plain_cells = cells_in(layer), cells_in(plain)
    assert len(cells) == len(plain_cells) > 0
    for cell, plain_cell in zip(cells, plain_cells):
        if hasattr(cell, "binary_kernel"):
            copy_with_bias(cell, plain_cell)
        else:
            cell.set_weights(plain_cell.get_weights())
    results = []
    for each, its_cells in ((layer, cells), (plain, plain_cells)):
        weights = [weight for cell in its_cells for weight in trained(cell)]
        results.append(
            outputs_and_gradients(each, weights, random(*shape), training=True)
        )
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


class Residual(keras_lab.BinarySimpleRNNCell):
    def call(self, inputs, states, training=False):
        output, states = super().call(inputs, states, training)
        return output + inputs, states


class Doubled(keras_lab.BinaryLSTMCell):
    def step(self, x, states, ahead, training):
        output, states = super().step(x, states, ahead, training)
        return 2 * output, states


@pytest.mark.parametrize(
    ("cell", "base", "expected"),
    [
        (Residual, keras_lab.BinarySimpleRNNCell, lambda y, x: y + x[:, -1]),
        (Doubled, keras_lab.BinaryLSTMCell, lambda y, x: 2 * y),
    ],
)
def test_a_users_own_call_gets_the_inputs_and_keeps_its_gradient(
    cell, base, expected
):
    """And so does a step."""
    own = keras_lab.BinaryRNN(cell(FEATURES))
    plain = keras_lab.BinaryRNN(base(FEATURES))
    x, results = random(BATCH, TIME, FEATURES), []
    build_alike(own, plain, x.shape)
    for layer, change in ((own, lambda y, x: y), (plain, expected)):
        gradients = gradients_of(
            lambda: ops.sum(ops.cos(change(layer(x, training=True), x))),
            [],
            trained(layer.cell),
        )
        results.append([change(layer(x), x), *gradients])
    for a, b in zip(*results):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("kind", ["LSTM", "SimpleRNN"])
def test_the_same_cell_twice_in_a_stack_is_used_twice(kind):
    cell = getattr(keras_lab, f"Binary{kind}Cell")(FEATURES)
    plain = getattr(keras.layers, f"{kind}Cell")(FEATURES)
    layers = [keras_lab.BinaryRNN([cell, cell])]
    layers += [keras.layers.RNN([plain, plain])]
    x = random(BATCH, TIME, FEATURES)
    for layer in layers:
        layer.build(x.shape)
    copy_with_bias(cell, plain)
    a, b = (layer(x, training=True) for layer in layers)
    np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("frozen", ["kernel", "recurrent_kernel"])
def test_a_second_derivative_in_training_is_an_error(frozen):
    layer, plain = pair("SimpleRNN", "lab")
    x = random(BATCH, TIME, FEATURES)
    for each in (layer, plain):
        getattr(each.cell, frozen).trainable = False
    (other,) = {"kernel", "recurrent_kernel"} - {frozen}

    def second(layer, training):
        return second_derivative(
            lambda x: ops.sum(layer(x, training=training)),
            x,
            getattr(layer.cell, other),
        )

    np.testing.assert_allclose(
        second(layer, False), second(plain, False), atol=1e-5
    )
    with pytest.raises(NotImplementedError, match="training=False"):
        second(layer, True)


@pytest.fixture
def count_of_binarizations(monkeypatch):
    calls = []
    value = BinaryWeight.value

    def counted(self, *args):
        calls.append(self.latent.name)
        return value(self, *args)

    monkeypatch.setattr(BinaryWeight, "value", counted)
    return calls


@each_kind
@pytest.mark.parametrize("how", ["eager", "unroll", "graph", "cell"])
def test_the_binary_weight_is_formed_once_per_forward_pass(
    kind, how, count_of_binarizations
):
    steps = 20
    if how == "cell":
        cell = getattr(keras_lab, f"Binary{kind}Cell")(UNITS)
        layer = keras_lab.BinaryRNN(cell, unroll=True)
    else:
        layer = binary(kind, unroll=how == "unroll")
    layer.build((BATCH, steps, FEATURES))
    run = layer if how == "eager" else compiled(layer, False)
    run(random(BATCH, steps, FEATURES))
    assert sorted(count_of_binarizations) == ["kernel", "recurrent_kernel"]


def matrix_products(nodes):
    """The shapes of the products among the nodes of a graph."""
    products = [n for n in nodes if n.op in ("MatMul", "BatchMatMulV2")]
    shapes = [n.attr["_output_shapes"].list.shape[0].dim for n in products]
    return [tuple(d.size for d in shape) for shape in shapes]


@needs_tensorflow
@pytest.mark.parametrize("kind", ["LSTM", "SimpleRNN"])
@pytest.mark.parametrize("in_rnn", [True, False])
def test_only_the_recurrent_product_is_left_in_the_loop(kind, in_rnn):
    if in_rnn:
        cell = getattr(keras_lab, f"Binary{kind}Cell")(UNITS)
        layer = keras_lab.BinaryRNN(cell, return_sequences=True)
    else:
        layer = binary(kind, return_sequences=True)
    x = random(BATCH, TIME, FEATURES)
    layer.build(x.shape)
    import tensorflow as tf

    concrete = tf.function(layer).get_concrete_function(x)
    graph = concrete.graph.as_graph_def(add_shapes=True)
    (loop,) = [n for n in graph.node if n.op in ("While", "StatelessWhile")]
    (body,) = [
        function
        for function in graph.library.function
        if function.signature.name == loop.attr["body"].func.name
    ]
    columns = UNITS * GATES[kind]
    assert matrix_products(body.node_def) == [(BATCH, columns)]
    outside = matrix_products(graph.node)
    whole = [(TIME, BATCH, columns), (TIME * BATCH, columns)]
    assert sum(shape in whole for shape in outside) == 1
