"""Binary cells: a scale per gate, and every way to binarize a step."""

import numpy as np
import pytest
from keras import ops

import keras_lab
from keras_lab.layers.time_loop import Ahead
from keras_lab.quantizers import LAB
from tests.keras_lab import oracle
from tests.keras_lab.engine import gradients_of
from tests.keras_lab.layers.recurrent import (
    BATCH,
    FEATURES,
    GATES,
    TIME,
    UNITS,
    binary,
    build_alike,
    each_kind,
    random,
    trained,
)


@each_kind
@pytest.mark.parametrize("scale", ["tensor", "channel"])
def test_each_gate_of_each_matrix_has_its_own_alpha(kind, scale):
    """Or one per unit."""
    layer = binary(kind, kernel_quantizer=LAB(scale=scale))
    layer.build((BATCH, TIME, FEATURES))
    cell, gates = layer.cell, GATES[kind]
    shape = (gates,) if gates > 1 else ()
    shape, axes = (shape, (0, 2)) if scale == "tensor" else ((*shape, UNITS), 0)
    for name, alpha in (
        ("kernel", cell.alpha),
        ("recurrent_kernel", cell.recurrent_alpha),
    ):
        assert alpha.shape == shape
        w = getattr(cell, name).numpy().reshape(-1, gates, UNITS)
        expected = np.abs(w).mean(axes, keepdims=True)
        np.testing.assert_allclose(
            np.ravel(alpha), np.ravel(expected), rtol=1e-6
        )
        value = np.asarray(getattr(cell, f"binary_{name}"))
        alpha = np.reshape(alpha, expected.shape)
        expected = alpha * oracle.sign(w)
        np.testing.assert_array_equal(value.reshape(w.shape), expected)


def test_outputs_are_those_of_a_numpy_lstm_with_binary_weights(rng):
    layer = binary("LSTM")
    layer.build((BATCH, TIME, FEATURES))
    cell = layer.cell
    cell.alpha.assign_unchecked(rng.uniform(0.1, 1, 4))
    cell.recurrent_alpha.assign_unchecked(rng.uniform(0.1, 1, 4))
    w, u = (
        np.repeat(alpha.numpy().astype("float64"), UNITS)
        * oracle.sign(latent.numpy())
        for latent, alpha in (
            (cell.kernel, cell.alpha),
            (cell.recurrent_kernel, cell.recurrent_alpha),
        )
    )
    x = rng.normal(size=(BATCH, TIME, FEATURES))
    expected = oracle.LSTM(cell.bias.numpy()).forward(x, w, u)
    np.testing.assert_allclose(layer(x.astype("float32")), expected, atol=1e-6)


@each_kind
@pytest.mark.parametrize("training", [True, False])
def test_one_hot_inputs_by_index_are_the_dense_ones(kind, training, rng):
    layer = binary(kind, one_hot=FEATURES, return_sequences=True)
    dense = binary(kind, return_sequences=True)
    build_alike(layer, dense, (BATCH, TIME, 1), (BATCH, TIME, FEATURES))
    index = rng.integers(0, FEATURES, (BATCH, TIME))
    one_hot = np.eye(FEATURES, dtype="float32")[index]
    results = []
    for model, x in ((layer, index[..., None]), (dense, one_hot)):
        gradients = gradients_of(
            lambda: ops.sum(ops.sin(model(x, training=training))),
            [],
            trained(model.cell),
        )
        results.append([*gradients, model(x, training=training)])
    for a, b in zip(*results):
        np.testing.assert_allclose(a, b, atol=2e-6)


def test_a_sign_input_quantizer_binarizes_the_hidden_state_only(rng):
    layer = binary("SimpleRNN", input_quantizer="sign", return_sequences=True)
    layer.build((BATCH, TIME, FEATURES))
    cell = layer.cell
    x = rng.normal(size=(BATCH, TIME, FEATURES)).astype("float32")
    w = ops.convert_to_numpy(cell.binary_kernel)
    u = ops.convert_to_numpy(cell.binary_recurrent_kernel)
    h = np.zeros((BATCH, UNITS))
    for t, output in enumerate(np.swapaxes(layer(x), 0, 1)):
        h = np.tanh(x[:, t] @ w + oracle.sign(h) @ u)
        np.testing.assert_allclose(output, h, atol=1e-5)


def test_inputs_are_binarized_too_on_request():
    both = binary("GRU", input_quantizer="sign", binarize_inputs=True)
    state = binary("GRU", input_quantizer="sign")
    x = random(BATCH, TIME, FEATURES)
    build_alike(both, state, x.shape)
    np.testing.assert_array_equal(both(x), state(ops.sign(x)))
    assert not np.allclose(both(x), state(x))


@each_kind
@pytest.mark.parametrize("training", [True, False])
def test_the_gradient_passes_the_sign_of_the_state_where_it_is_small(
    kind, training
):
    # Deferred (training) or not, the gradient is that of the same network
    # written with plain operations, one step after the other.
    layer = binary(kind, input_quantizer="sign", activation="relu")
    x = random(BATCH, TIME, FEATURES)
    layer.build(x.shape)
    cell = layer.cell

    def by_hand():
        u, states = (
            cell.binary_recurrent_kernel,
            [ops.zeros((BATCH, UNITS)) for _ in layer.state_size],
        )
        for t in range(TIME):
            projected = cell.project(x[:, t], cell.binary_kernel)
            ahead = Ahead(None, u)
            output, states = cell.step(projected, states, ahead, False)
        return output

    results = []
    for run in (lambda: layer(x, training=training), by_hand):
        results.append(
            gradients_of(lambda: ops.sum(ops.cos(run())), [], trained(cell))
        )
    for a, b in zip(*results):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_the_sign_activation_is_the_authors_variant(rng):
    layer = binary("LSTM", activation="sign", return_state=True)
    x = rng.normal(size=(BATCH, 1, FEATURES)).astype("float32")
    output, h, c = map(ops.convert_to_numpy, layer(x))
    w, bias = layer.cell.binary_kernel, layer.cell.bias
    z = x[:, 0] @ ops.convert_to_numpy(w) + ops.convert_to_numpy(bias)
    z_i, _, z_c, z_o = np.split(z, 4, axis=1)
    np.testing.assert_allclose(c, oracle.sigmoid(z_i) * np.tanh(z_c), atol=1e-6)
    np.testing.assert_allclose(
        h, oracle.sigmoid(z_o) * oracle.sign(c), atol=1e-6
    )
    np.testing.assert_array_equal(output, h)
    assert keras_lab.BinaryLSTM(3, "sign").activation(-2.0) == -1
