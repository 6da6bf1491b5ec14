"""Binary embeddings and attention, against Keras' own with the weights ŵ."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.keras_lab.layers.cases import copy_forward_weights
from tests.keras_lab.support import random, saved_and_loaded, sequential

CHANNEL = keras_lab.LAB(scale="channel")
ATTENTION = {
    "multi_head": ("MultiHeadAttention", "MultiHeadAttention", (2, 4)),
    "grouped": ("GroupedQueryAttention", "GroupQueryAttention", (4, 4, 2)),
}
OPTIONS = [
    {},
    {"use_gate": True, "use_bias": False},
    {"dropout": 0.2, "kernel_regularizer": "l2", "seed": 1},
    {"sliding_window": 2, "flash_attention": False},
]


def pair(case, quantizer, **options):
    binary, plain, arguments = ATTENTION[case]
    layer = getattr(keras_lab, f"Binary{binary}")(
        *arguments, kernel_quantizer=quantizer, **options
    )
    return layer, getattr(layers, plain)(*arguments, **options)


@pytest.mark.parametrize("case", ATTENTION)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("quantizer", [None, "lab", CHANNEL])
def test_attention_is_that_of_keras_with_binary_projections(
    case, options, quantizer
):
    layer, plain = pair(case, quantizer, **options)
    query, value = random((2, 5, 8)), random((2, 6, 8), 1)
    layer.build(query.shape, value.shape)
    plain.build(query.shape, value.shape)
    count = 5 if options.get("use_gate") else 4
    weights = keras_lab.binary_weights(layer)
    assert len(weights) == (0 if quantizer is None else count)
    copy_forward_weights(layer, plain)
    for call in ({}, {"use_causal_mask": True}):
        output = layer(query, value, **call)
        np.testing.assert_array_equal(output, plain(query, value, **call))
    assert len(layer.losses) == len(plain.losses)
    shape = layer.compute_output_shape(query.shape, value.shape)
    assert tuple(shape) == (2, 5, 8)


@pytest.mark.parametrize("case", ATTENTION)
def test_attention_is_trained_saved_and_frozen(case, tmp_path):
    layer, plain = pair(case, CHANNEL, use_gate=True)
    inputs = keras.Input((5, 8))
    model = keras.Model(inputs, layer(inputs, inputs, use_causal_mask=True))
    model.compile(keras_lab.LABAdam(0.01), "mse", run_eagerly=True)
    x = random((4, 5, 8))
    model.fit(x, random((4, 5, 8), 1), verbose=0)
    again = saved_and_loaded(model, tmp_path)
    frozen = keras_lab.freeze(model)
    for other in (again, frozen):
        np.testing.assert_array_equal(other(x), model(x))
    assert type(frozen.layers[1]) is type(plain)
    assert layer.get_config() == again.layers[1].get_config()
    with pytest.raises(ValueError, match="cannot be quantized"):
        pair(case, "lab", dtype="float8_from_float32")


@pytest.mark.parametrize(
    ("quantizer", "shape"),
    [("lab", ()), (CHANNEL, (9,)), ("binary_connect", ())],
)
def test_an_embedding_has_one_bit_per_entry(quantizer, shape, tmp_path):
    layer = keras_lab.BinaryEmbedding(9, 4, kernel_quantizer=quantizer)
    model = sequential((3,), layer, layers.Flatten(), dtype="int32")
    assert layer.alpha.shape == shape
    model.compile(keras_lab.LABAdam(0.01), "mse", run_eagerly=True)
    words = np.random.default_rng(0).integers(0, 9, (8, 3))
    before = layer.embeddings.numpy()
    model.fit(words, random((8, 12)), verbose=0)
    assert not np.array_equal(before, layer.embeddings.numpy())
    table = np.asarray(layer.binary_embeddings)
    assert np.unique(np.abs(table)).size <= max(1, *shape, 1)
    np.testing.assert_array_equal(table > 0, layer.embeddings.numpy() >= 0)
    np.testing.assert_array_equal(layer(words), table[words])
    again = saved_and_loaded(model, tmp_path)
    frozen = keras_lab.freeze(model)
    for other in (again, frozen):
        np.testing.assert_array_equal(other(words), model(words))
    assert type(frozen.layers[0]) is layers.Embedding


def test_an_embedding_can_start_from_given_weights():
    given = random((9, 4))
    layer = keras_lab.BinaryEmbedding(9, 4, weights=given)
    np.testing.assert_array_equal(layer.embeddings, given)
    np.testing.assert_allclose(layer.alpha, np.abs(given).mean(), rtol=1e-6)
    with pytest.raises(ValueError, match="indices"):
        keras_lab.BinaryEmbedding(9, 4, input_quantizer="sign")
    # torch replaces the message of such an error.
    with pytest.raises(AttributeError, match=r"binary_(embeddings|kernel)"):
        _ = layer.binary_kernel


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "float32"])
def test_an_embedding_takes_indices_of_any_type(dtype):
    layer = keras_lab.BinaryEmbedding(200, 4)
    indices = np.array([[1, 150]], dtype)
    np.testing.assert_array_equal(
        layer(indices), layer(indices.astype("int32"))
    )


def test_an_einsum_cannot_have_a_scale_per_weight():
    layer = keras_lab.BinaryEinsumDense(
        "ab,b->ab", 4, kernel_quantizer=keras_lab.LAB(scale="channel")
    )
    with pytest.raises(ValueError, match=r"only one weight per output channel"):
        layer(random((2, 4)))
