"""What Keras' generic layer test checks, for every binary layer."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.keras_lab.engine import NAME, dtype_of
from tests.keras_lab.layers.cases import CASES, OTHER_CASES, built, make
from tests.keras_lab.support import random, saved_and_loaded, sequential

WORDS = np.array([[1, 2, 0], [3, 1, 1]], "int32")
each = pytest.mark.parametrize("case", CASES | OTHER_CASES)
some = pytest.mark.parametrize("case", ["dense", "einsum", "embedding"])


def inputs_of(case, shape):
    if case == "embedding":
        return np.random.default_rng(0).integers(0, 9, shape)
    return random(shape)


@each
@pytest.mark.parametrize("policy", ["float64", "mixed_bfloat16"])
def test_every_dtype_policy_gives_the_dtypes_of_keras(case, policy):
    if (case, policy, NAME) == ("simple_rnn", "float64", "jax"):
        pytest.skip("Keras' own SimpleRNN of float64 fails on JAX")
    (layer, shape), (plain, _) = (
        make(case, prefix, dtype=policy) for prefix in ("Binary", "")
    )
    x = inputs_of(case, shape)
    assert dtype_of(layer(x)) == dtype_of(plain(x))
    assert layer(keras.Input(shape[1:])).dtype == dtype_of(plain(x))
    dtypes = {
        weight.dtype for weight in plain.weights if "seed" not in weight.path
    }
    assert {v.dtype for v in layer.trainable_variables} <= dtypes


@each
def test_a_binary_layer_refuses_quantization_and_stays_intact(case):
    layer, shape = make(case)
    x = inputs_of(case, shape)
    expected, weights = np.asarray(layer(x)), len(layer.weights)
    inner = getattr(layer, "cell", layer)
    for mode in ("float8", "int8", "int4"):
        policy = f"{mode}_from_float32"
        with pytest.raises(NotImplementedError):
            layer.quantize(mode, type_check=False)
        with pytest.raises(ValueError, match="cannot be quantized"):
            inner.dtype_policy = policy
        with pytest.raises(ValueError, match=f"Received: dtype='{policy}"):
            make(case, dtype=policy)
    if hasattr(layer, "enable_lora"):
        with pytest.raises(NotImplementedError, match="low-rank"):
            layer.enable_lora(2)
    assert inner.dtype_policy.name == "float32"
    assert len(layer.weights) == weights
    np.testing.assert_array_equal(layer(x), expected)


@some
@pytest.mark.parametrize("change", ["lora", "int8", "int4"])
def test_in_full_precision_lora_and_quantization_are_those_of_keras(
    case, change, tmp_path
):
    layer, shape = make(case, kernel_quantizer=None)
    x, outputs = inputs_of(case, shape), []
    model = sequential(shape[1:], layer)
    model(x)
    plain, _ = built(case, "")
    plain.set_weights(layer.get_weights())
    for each_layer in (layer, plain):
        if change == "lora":
            each_layer.enable_lora(2)
            for variable in each_layer.trainable_variables[-1:]:
                variable.assign(np.full(variable.shape, 0.5))
            names = [
                v for v in each_layer.trainable_variables if "_a" in v.name
            ]
            names[0].assign(np.full(names[0].shape, 0.25))
        else:
            each_layer.quantize(change)
        outputs.append(np.asarray(each_layer(x)))
    np.testing.assert_allclose(*outputs, rtol=1e-6)
    again = saved_and_loaded(model, tmp_path)
    np.testing.assert_allclose(again(x), outputs[0], rtol=1e-6, atol=1e-7)
    assert len(again.weights) == len(model.weights)


def test_masks_pass_as_in_keras():
    embedding = keras_lab.BinaryEmbedding(9, 4, mask_zero=True)
    np.testing.assert_array_equal(embedding.compute_mask(WORDS), WORDS != 0)
    for binary, plain in (
        (keras_lab.BinaryDense(4), layers.Dense(4)),
        (make("einsum")[0], make("einsum", "")[0]),
        (keras_lab.BinaryLSTM(4), layers.LSTM(4)),
    ):
        assert binary.supports_masking == plain.supports_masking
    attention = keras_lab.BinaryMultiHeadAttention(2, 4)
    x = embedding(WORDS)
    y, scores = attention(x, x, return_attention_scores=True)
    assert np.all(np.asarray(scores)[0, :, :2, 2] == 0)  # The word 0 is masked.
    assert y.shape == (2, 3, 4)


@pytest.mark.parametrize("case", ["dense", "conv2d", "depthwise"])
@pytest.mark.parametrize("sign", [None, "sign"])
def test_a_wrapper_decides_the_dtype_as_in_keras(case, sign):
    layer, shape = make(case, input_quantizer=sign)
    x = inputs_of(case, (2, 3, *shape[1:]))
    wrapped = layers.TimeDistributed(layer, dtype="mixed_float16")
    plain = layers.TimeDistributed(make(case, "")[0], dtype="mixed_float16")
    assert dtype_of(wrapped(x)) == dtype_of(plain(x)) == "float16"
