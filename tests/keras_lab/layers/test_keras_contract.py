"""What Keras' generic layer test checks, for every binary layer."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from keras_lab._backend import backend
from tests.keras_lab.engine import NAME, dtype_of

WORDS = np.array([[1, 2, 0], [3, 1, 1]], "int32")
# name: (class, arguments, shape of the inputs)
CASES = {
    "Dense": ((4,), (7,)),
    "EinsumDense": (("abc,cd->abd", (None, 4)), (3, 7)),
    "Embedding": ((9, 4), (3,)),
    "Conv1D": ((4, 3), (9, 2)),
    "Conv2D": ((4, 3), (8, 7, 2)),
    "DepthwiseConv2D": ((3,), (8, 7, 3)),
    "SeparableConv2D": ((4, 3), (8, 7, 3)),
    "Conv2DTranspose": ((4, 3), (8, 7, 2)),
    "LSTM": ((4,), (5, 3)),
    "GRU": ((4,), (5, 3)),
    "SimpleRNN": ((4,), (5, 3)),
}
SLOW = pytest.mark.slow
each = pytest.mark.parametrize("name", CASES)
some = pytest.mark.parametrize("name", ["Dense", "EinsumDense", "Embedding"])


def make(name, kind="Binary", **options):
    arguments, shape = CASES[name]
    module = keras_lab if kind else keras.layers
    return getattr(module, kind + name)(*arguments, **options), (2, *shape)


def inputs_of(name, shape, seed=0):
    rng = np.random.default_rng(seed)
    if name == "Embedding":
        return rng.integers(0, 9, shape)
    return rng.normal(size=shape).astype("float32")


@each
@pytest.mark.parametrize(
    "policy",
    [
        "float64",
        "mixed_bfloat16",
        pytest.param("float16", marks=SLOW),
        pytest.param("bfloat16", marks=SLOW),
    ],
)
def test_every_dtype_policy_gives_the_dtypes_of_keras(name, policy):
    if policy == "bfloat16" and name in ("LSTM", "GRU", "SimpleRNN"):
        pytest.skip("TensorFlow has no orthogonal matrices of bfloat16.")
    if (name, policy, NAME) == ("SimpleRNN", "float64", "jax"):
        pytest.skip("Keras' own SimpleRNN of float64 fails on JAX")
    (layer, shape), (plain, _) = (
        make(name, kind, dtype=policy) for kind in ("Binary", "")
    )
    x = inputs_of(name, shape)
    assert dtype_of(layer(x)) == dtype_of(plain(x))
    assert layer(keras.Input(shape[1:])).dtype == dtype_of(plain(x))
    dtypes = {
        weight.dtype for weight in plain.weights if "seed" not in weight.path
    }
    assert {v.dtype for v in layer.trainable_variables} <= dtypes


@each
@pytest.mark.parametrize(
    "mode", ["float8", *(pytest.param(m, marks=SLOW) for m in ("int8", "int4"))]
)
def test_a_binary_layer_refuses_quantization_and_stays_intact(name, mode):
    layer, shape = make(name)
    x = inputs_of(name, shape)
    expected, weights = np.asarray(layer(x)), len(layer.weights)
    with pytest.raises(NotImplementedError):
        layer.quantize(mode, type_check=False)
    inner = getattr(layer, "cell", layer)
    with pytest.raises(ValueError, match="cannot be quantized"):
        inner.dtype_policy = f"{mode}_from_float32"
    if hasattr(layer, "enable_lora"):
        with pytest.raises(NotImplementedError, match="low-rank"):
            layer.enable_lora(2)
    assert inner.dtype_policy.name == "float32"
    assert len(layer.weights) == weights
    np.testing.assert_array_equal(layer(x), expected)


@each
def test_a_quantized_policy_is_an_error_at_once(name):
    policies = [f"{mode}_from_float32" for mode in ("float8", "int8")]
    for policy in policies:
        with pytest.raises(ValueError, match=f"Received: dtype='{policy}"):
            make(name, dtype=policy)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policies[0])
    try:
        with pytest.raises(ValueError, match="cannot be quantized"):
            make(name)
    finally:
        keras.config.set_dtype_policy(before)


@each
def test_it_has_the_variables_of_keras_and_alphas(name):
    (layer, shape), (plain, _) = (make(name, kind) for kind in ("Binary", ""))
    layer.build(shape)
    plain.build(shape)
    count = len(keras_lab.binary_weights(layer))
    trainable = count if backend.SCALE_IS_TRAINABLE else 0
    for kind, alphas in (
        ("trainable_variables", trainable),
        ("non_trainable_variables", count - trainable),
    ):
        ours, keras_ = (len(getattr(x, kind)) for x in (layer, plain))
        assert ours - alphas == keras_


@some
@pytest.mark.parametrize("change", ["lora", "int8", "int4"])
def test_in_full_precision_lora_and_quantization_are_those_of_keras(
    name, change, tmp_path
):
    layer, shape = make(name, kernel_quantizer=None)
    x, outputs = inputs_of(name, shape), []
    model = keras.Sequential([keras.Input(shape[1:]), layer])
    model(x)
    plain, _ = make(name, "")
    plain.build(shape)
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
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again(x), outputs[0], rtol=1e-6, atol=1e-7)
    assert len(again.weights) == len(model.weights)


def test_masks_pass_as_in_keras():
    embedding = keras_lab.BinaryEmbedding(9, 4, mask_zero=True)
    np.testing.assert_array_equal(embedding.compute_mask(WORDS), WORDS != 0)
    for binary, plain in (
        (keras_lab.BinaryDense(4), layers.Dense(4)),
        (make("EinsumDense")[0], make("EinsumDense", "")[0]),
        (keras_lab.BinaryLSTM(4), layers.LSTM(4)),
    ):
        assert binary.supports_masking == plain.supports_masking
    attention = keras_lab.BinaryMultiHeadAttention(2, 4)
    x = embedding(WORDS)
    y, scores = attention(x, x, return_attention_scores=True)
    assert np.all(np.asarray(scores)[0, :, :2, 2] == 0)  # The word 0 is masked.
    assert y.shape == (2, 3, 4)


@pytest.mark.parametrize("name", ["Dense", "Conv2D", "DepthwiseConv2D"])
@pytest.mark.parametrize("sign", [None, "sign"])
def test_a_wrapper_decides_the_dtype_as_in_keras(name, sign):
    layer, shape = make(name, input_quantizer=sign)
    x = inputs_of(name, (2, 3, *shape[1:]))
    wrapped = layers.TimeDistributed(layer, dtype="mixed_float16")
    plain = layers.TimeDistributed(make(name, "")[0], dtype="mixed_float16")
    assert dtype_of(wrapped(x)) == dtype_of(plain(x)) == "float16"
