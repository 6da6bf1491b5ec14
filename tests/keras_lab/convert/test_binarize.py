"""`binarize_model`: the same network, with binary layers."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from keras_lab.binary_weight import weights_of
from keras_lab.convert.graph import trace
from tests.keras_lab.networks import alpha_of
from tests.keras_lab.support import (
    assert_equal_in_full_precision,
    assert_same,
    random,
    sequential,
)

# The smallest of each family.
FAMILIES = """ConvNeXtTiny DenseNet121 EfficientNetB0 EfficientNetV2B0
InceptionResNetV2 InceptionV3 MobileNet MobileNetV2 MobileNetV3Small
NASNetMobile ResNet50 ResNet50V2 VGG16 Xception""".split()


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(f, marks=() if f == "MobileNet" else pytest.mark.slow)
        for f in FAMILIES
    ],
)
def test_in_full_precision_it_is_the_same_application(family):
    # The smallest inputs that they take.
    size = {"I": 75, "X": 71}.get(family[0], 32)
    model = getattr(keras.applications, family)(
        weights=None, input_shape=(size, size, 3), classes=5
    )
    assert_equal_in_full_precision(model)
    keras.backend.clear_session()


def many_sided_model():
    """Two inputs, two outputs, a shared layer, an inner model, wrappers."""
    image = keras.Input((8, 8, 3), name="image")
    text = keras.Input((6, 5), name="text")
    encoder = sequential(
        (8, 8, 3),
        layers.Conv2D(4, 3, name="first"),
        layers.BatchNormalization(name="norm"),
        layers.DepthwiseConv2D(3, name="depthwise"),
        layers.SeparableConv2D(5, 3, name="separable"),
        layers.Flatten(),
        name="encoder",
    )
    shared = layers.Dense(7, activation="relu", name="shared")
    x = shared(encoder(image))
    y = layers.Bidirectional(
        layers.LSTM(4, return_sequences=True), name="both"
    )(text)
    step = sequential((8,), layers.Dense(6), layers.ReLU())
    y = layers.TimeDistributed(step, name="each")(y)
    y = layers.RNN(layers.GRUCell(20), name="cells")(y)
    z = layers.Concatenate()([x, shared(y)]) * 2.0
    z = layers.Dense(9, name="middle")(z)
    outputs = [layers.Dense(n, name=f"head_{n}")(z) for n in (2, 3)]
    # `middle` is last on the path to its own output.
    return keras.Model([image, text], [z, *outputs], name="many_sided")


def test_a_many_sided_model_keeps_its_structure():
    original = many_sided_model()
    assert_equal_in_full_precision(original)
    model, report = keras_lab.binarize_model(original, return_report=True)
    assert {row.layer: row.skipped for row in report} == {
        "encoder/first": "first layer",
        "encoder/norm": "has no binary counterpart",
        "encoder/depthwise": None,
        "encoder/separable": None,
        "both": "first layer",
        "each": None,
        "cells": None,
        "shared": None,
        "middle": "last layer",
        "head_2": "last layer",
        "head_3": "last layer",
    }
    calls = [call.layer.name for call in trace(model).calls]
    assert calls.count("shared") == 2
    step = model.get_layer("each").layer
    assert isinstance(step.layers[0], keras_lab.BinaryDense)
    assert type(model.get_layer("cells")) is keras_lab.BinaryRNN
    assert isinstance(model.get_layer("cells").cell, keras_lab.BinaryGRUCell)


def test_a_layer_is_first_if_any_of_its_data_comes_from_an_input():
    query, value = keras.Input((4, 8)), keras.Input((5, 8))
    mask = keras.Input((4, 5), dtype="int32")
    hidden = layers.Dense(8)(query)
    hidden = layers.MultiHeadAttention(2, 4, name="first")(hidden, value)
    hidden = layers.MultiHeadAttention(2, 4, name="second")(
        hidden, layers.Dense(8)(value), attention_mask=mask
    )
    model = keras.Model([query, value, mask], layers.Dense(3)(hidden))
    _, report = keras_lab.binarize_model(model, return_report=True)
    rows = {row.layer: row.skipped for row in report}
    assert rows["first"] == "first layer" and rows["second"] is None


def test_masks_given_by_name_are_no_data():
    """`attention_mask` comes before `query` in the alphabet."""
    inputs, mask = keras.Input((5, 4)), keras.Input((5, 5))
    x = layers.Dense(4, name="in")(inputs)
    x = layers.MultiHeadAttention(2, 2, name="attention")(
        query=x, value=x, attention_mask=mask
    )
    model = keras.Model([inputs, mask], layers.Dense(4, name="out")(x))
    _, report = keras_lab.binarize_model(model, return_report=True)
    assert report.converted == ["attention"]
    assert trace(model).calls[1].input_shape == (None, 5, 4)
    two = sequential((4,), layers.Dense(3), layers.Dense(3))
    with pytest.raises(ValueError, match="Pass `skip_first=False`"):
        keras_lab.binarize_model(two)


def test_kernels_are_the_signs_and_the_mean_of_the_trained_weights():
    model = many_sided_model()
    before = [w.copy() for w in model.get_weights()]
    binary = keras_lab.binarize_model(model)
    found = weights_of(binary.weights)
    assert len(found) == 7
    alphas = {id(weight.alpha) for weight in found}
    copied = [w for w in binary.weights if id(w) not in alphas]
    assert_same(before, copied)  # The latent weights are the trained ones.
    for weight in found:
        w, value = weight.latent.numpy(), np.asarray(weight.value())
        np.testing.assert_array_equal(value > 0, w >= 0)
        np.testing.assert_allclose(weight.alpha, alpha_of(weight), rtol=1e-6)
        assert np.unique(np.abs(value)).size == weight.alpha.numpy().size
    assert_same(before, model.get_weights())


def small(**options):
    return sequential(
        (8, 8, 3),
        layers.Conv2D(4, 3, name="a"),
        layers.Conv2D(4, 3, name="b", **options),
        layers.BatchNormalization(),
        layers.Conv2D(4, 3, name="c", dtype="mixed_bfloat16"),
        layers.Flatten(),
        layers.Dense(3, name="d"),
    )


def test_large_weights_widen_the_clip_and_a_constraint_stays():
    model = small()
    model.get_layer("b").kernel.assign(3 * random((3, 3, 4, 4)))
    binary = keras_lab.binarize_model(model)
    largest = np.abs(model.get_layer("b").kernel.numpy()).max()
    b, c = binary.get_layer("b"), binary.get_layer("c")
    assert b.kernel_constraint.limit == pytest.approx(float(largest))
    assert largest > 1 and c.kernel_constraint.limit == 1.0
    assert c.dtype_policy.name == "mixed_bfloat16"
    norm = keras.constraints.MaxNorm(3.0)
    binary = keras_lab.binarize_model(small(kernel_constraint=norm))
    assert type(binary.get_layer("b").kernel_constraint) is type(norm)


@keras.saving.register_keras_serializable(package="test_binarize")
class Scaled(layers.Dense):
    def call(self, inputs, training=None):
        return 2 * super().call(inputs)


def test_layers_that_cannot_be_converted_are_kept_and_named():
    model = sequential(
        (4,),
        layers.Dense(4, name="first"),
        keras_lab.BinaryDense(4, name="binary"),
        Scaled(4, name="mine"),
        layers.Dense(4, name="lora"),
        layers.Dense(4, name="int8"),
        layers.Dense(4, name="middle"),
        layers.Dense(4, name="last"),
    )
    model.get_layer("binary").alpha.assign(0.123)  # As after training.
    model.get_layer("lora").enable_lora(2)
    model.get_layer("int8").quantize("int8")
    assert_equal_in_full_precision(model)
    binary, report = keras_lab.binarize_model(model, return_report=True)
    reasons = {row.layer: row.skipped for row in report}
    assert reasons == {
        "first": "first layer",
        "binary": "is binary already",
        "mine": "a custom layer",
        "lora": "has LoRA weights",
        "int8": "is quantized already",
        "middle": None,
        "last": "last layer",
    }
    assert all(name in str(report) for name in reasons)
    assert_same(*(m.get_layer("binary").weights for m in (model, binary)))


@pytest.mark.parametrize("nested", [False, True])
def test_a_layer_may_be_used_twice_in_a_row(nested):
    dense = layers.Dense(4)
    shared = sequential((4,), dense) if nested else dense
    inputs = keras.Input((4,))
    x = shared(layers.ReLU()(shared(inputs)))
    model = keras.Model(inputs, layers.Dense(2)(x))
    assert_equal_in_full_precision(model)
    _, report = keras_lab.binarize_model(
        model, skip_last=False, return_report=True
    )
    assert [row.skipped for row in report] == ["first layer", None]


def test_what_cannot_be_converted_is_named():
    class Own(keras.Model):
        def call(self, x):
            return 2 * super().call(x)

    inputs, broken = keras.Input((2,)), small()
    broken.get_layer("b").kernel.assign(np.full((3, 3, 4, 4), np.nan))
    for model, options, message in (
        (Own(inputs, layers.Dense(3)(inputs)), {}, r"functional.*Received"),
        (broken, {}, r"NaN.*b/kernel'"),
        (small(), {"filters": "z"}, "kept: not among the filters"),
    ):
        with pytest.raises(ValueError, match=message):
            keras_lab.binarize_model(model, **options)
    with pytest.raises(TypeError, match=r"model=.m\.keras."):
        keras_lab.binarize_model("m.keras")
    with pytest.raises(TypeError, match="filters=3"):
        keras_lab.binarize_model(small(), filters=3)
