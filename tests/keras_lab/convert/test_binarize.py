"""`binarize_model`: the same network, with binary layers."""

import os
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_lab
import tflite_export
from keras_lab.binary_weight import weights_of
from keras_lab.convert.graph import binary_weights, trace
from tests.keras_lab.convert.support import (
    assert_equal_in_full_precision,
    random,
)

# The smallest of each family, with the smallest input it takes.
FAMILIES = {
    "ConvNeXtTiny": 32,
    "DenseNet121": 32,
    "EfficientNetB0": 32,
    "EfficientNetV2B0": 32,
    "InceptionResNetV2": 75,
    "InceptionV3": 75,
    "MobileNet": 32,
    "MobileNetV2": 32,
    "MobileNetV3Small": 32,
    "NASNetMobile": 32,
    "ResNet50": 32,
    "ResNet50V2": 32,
    "VGG16": 32,
    "Xception": 71,
}


PRETRAINED = (
    "cifar10_resnet8_mlperf_tiny.h5",
    "vww_96.keras",
    "str_ww_ref_model.keras",
)


def pretrained(name):
    folder = os.environ.get("KERAS_LAB_DATA")
    path = Path(folder or ".") / "pretrained" / name
    if not path.is_file():
        pytest.skip(f"no pretrained/{name} in KERAS_LAB_DATA")
    return keras.models.load_model(path, compile=False)


@pytest.mark.parametrize(
    "family",
    [
        family
        if family == "MobileNet"
        else pytest.param(family, marks=pytest.mark.slow)
        for family in FAMILIES
    ],
)
def test_in_full_precision_it_is_the_same_application(family):
    size = FAMILIES[family]
    model = getattr(keras.applications, family)(
        weights=None, input_shape=(size, size, 3), classes=5
    )
    assert_equal_in_full_precision(model)
    keras.backend.clear_session()


@pytest.mark.parametrize("name", PRETRAINED)
def test_in_full_precision_it_is_the_same_pretrained_model(name):
    assert_equal_in_full_precision(pretrained(name))


def many_sided_model():
    """Two inputs, two outputs, a shared layer, an inner model, wrappers."""
    image = keras.Input((8, 8, 3), name="image")
    text = keras.Input((6, 5), name="text")
    encoder = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            keras.layers.Conv2D(4, 3, name="first"),
            keras.layers.BatchNormalization(),
            keras.layers.DepthwiseConv2D(3, name="depthwise"),
            keras.layers.SeparableConv2D(5, 3, name="separable"),
            keras.layers.Flatten(),
        ],
        name="encoder",
    )
    shared = keras.layers.Dense(7, activation="relu", name="shared")
    x = shared(encoder(image))
    y = keras.layers.Bidirectional(
        keras.layers.LSTM(4, return_sequences=True), name="both"
    )(text)
    y = keras.layers.TimeDistributed(keras.layers.Dense(6), name="each")(y)
    y = keras.layers.RNN(keras.layers.GRUCell(20), name="cells")(y)
    y = shared(y)
    z = keras.layers.Concatenate()([x, y]) * 2.0
    z = keras.layers.Dense(9, name="middle", trainable=False)(z)
    one = keras.layers.Dense(2, name="one")(z)
    two = keras.layers.Dense(3, name="two")(z)
    return keras.Model([image, text], [one, two], name="many_sided")


def test_in_full_precision_a_many_sided_model_is_the_same():
    assert_equal_in_full_precision(many_sided_model())


def test_first_and_last_layers_of_each_path_are_kept():
    model, report = keras_lab.binarize_model(
        many_sided_model(), return_report=True
    )
    reasons = {row.layer: row.skipped for row in report}
    for name in ("encoder/first", "both"):
        assert reasons[name] == "first layer"
    for name in ("one", "two"):
        assert reasons[name] == "last layer"
    assert set(report.converted) == {
        "encoder/depthwise",
        "encoder/separable",
        "each",
        "cells",
        "shared",
        "middle",
    }
    assert isinstance(model.get_layer("shared"), keras_lab.BinaryDense)
    calls = [call.layer.name for call in trace(model).calls]
    assert calls.count("shared") == 2
    assert not model.get_layer("middle").trainable
    assert isinstance(model.get_layer("each").layer, keras_lab.BinaryDense)
    assert type(model.get_layer("cells")) is keras_lab.BinaryRNN
    assert isinstance(model.get_layer("cells").cell, keras_lab.BinaryGRUCell)


def test_kernels_are_the_signs_and_the_mean_of_the_trained_weights():
    model = many_sided_model()
    before = [w.copy() for w in model.get_weights()]
    binary = keras_lab.binarize_model(model)
    found = weights_of(binary.weights)
    assert len(found) == 8
    alphas = {id(weight.alpha) for weight in found}
    copied = [w for w in binary.weights if id(w) not in alphas]
    trained = {id(a): b for a, b in zip(copied, model.weights, strict=True)}
    for weight in found:
        w = trained[id(weight.latent)].numpy()
        np.testing.assert_array_equal(weight.latent, w)
        value = np.asarray(weight.value())
        np.testing.assert_array_equal(value > 0, w >= 0)
        parts = np.reshape(np.abs(w), weight.shape)
        axes = tuple(a for a in range(parts.ndim) if a not in weight.keep)
        np.testing.assert_allclose(weight.alpha, parts.mean(axes), rtol=1e-6)
        assert np.unique(np.abs(value)).size == weight.alpha.numpy().size
    for old, new in zip(before, model.get_weights()):
        np.testing.assert_array_equal(old, new)


def small(**options):
    layers = [
        keras.Input((8, 8, 3)),
        keras.layers.Conv2D(4, 3, name="a"),
        keras.layers.Conv2D(4, 3, name="b", **options),
        keras.layers.BatchNormalization(),
        keras.layers.Conv2D(4, 3, name="c", dtype="mixed_bfloat16"),
        keras.layers.Flatten(),
        keras.layers.Dense(3, name="d"),
    ]
    return keras.Sequential(layers)


def test_large_weights_widen_the_clip_and_small_ones_do_not():
    model = small()
    model.get_layer("b").kernel.assign(3 * random((3, 3, 4, 4)))
    binary = keras_lab.binarize_model(model)
    largest = np.abs(model.get_layer("b").kernel.numpy()).max()
    b = binary.get_layer("b").kernel_constraint
    assert b.limit == pytest.approx(float(largest)) and largest > 1
    assert binary.get_layer("c").kernel_constraint.limit == 1.0
    assert binary.get_layer("c").dtype_policy.name == "mixed_bfloat16"


def test_a_constraint_of_its_own_stays():
    norm = keras.constraints.MaxNorm(3.0)
    binary = keras_lab.binarize_model(small(kernel_constraint=norm))
    assert isinstance(
        binary.get_layer("b").kernel_constraint, keras.constraints.MaxNorm
    )


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (None, ["b", "c"]),
        ("b", ["b"]),
        (["b", "x*"], ["b"]),
        (lambda layer: layer.name == "c", ["c"]),
    ],
)
def test_filters_choose_by_pattern_or_function(filters, expected):
    _, report = keras_lab.binarize_model(
        small(), filters=filters, return_report=True
    )
    assert report.converted == expected
    assert "kept: first layer" in str(report) or filters is not None


@keras.saving.register_keras_serializable(package="test_binarize")
class Scaled(keras.layers.Dense):
    def call(self, inputs, training=None):
        return 2 * super().call(inputs)


def test_a_custom_layer_is_kept_and_named():
    model = small()
    model.add(Scaled(4, name="mine"))
    model.add(keras.layers.Dense(2, name="last"))
    binary, report = keras_lab.binarize_model(model, return_report=True)
    (row,) = [row for row in report if row.layer == "mine"]
    assert row.skipped == "a custom layer"
    assert type(binary.get_layer("mine")) is Scaled
    assert "mine" in str(report) and "d" in report.converted


def test_a_layer_may_be_used_twice_in_a_row():
    inputs = keras.Input((4,))
    dense = keras.layers.Dense(4, name="dense")
    nested = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4)])
    for shared in (dense, nested):
        x = keras.layers.ReLU()(shared(inputs))
        x = keras.layers.Dense(2)(shared(x))
        model = keras.Model(inputs, x)
        assert_equal_in_full_precision(model)
        _, report = keras_lab.binarize_model(
            model, skip_last=False, return_report=True
        )
        assert [row.skipped for row in report] == ["first layer", None]


def test_a_model_can_be_converted_in_stages():
    model = keras.Sequential([keras.Input((4,))])
    for name in "abcd":
        model.add(keras.layers.Dense(4, name=name))
    one = keras_lab.binarize_model(model, filters="b")
    one.compile(keras_lab.LABAdam(0.01), "mse", jit_compile=False)
    one.fit(random((20, 4)), random((20, 4), 1), epochs=3, verbose=0)
    two, report = keras_lab.binarize_model(
        one, filters="[ac]", return_report=True
    )
    reasons = {row.layer: row.skipped for row in report}
    assert reasons["a"] == "first layer" and reasons["c"] is None
    assert reasons["b"] == "is binary already"
    for name in ("kernel", "alpha", "bias"):
        np.testing.assert_array_equal(
            getattr(one.get_layer("b"), name), getattr(two.get_layer("b"), name)
        )


def test_a_layer_is_first_or_last_if_it_is_so_on_one_path():
    encoded, decoded = keras.Input((5, 2)), keras.Input((6, 2))
    _, *state = keras.layers.LSTM(3, return_state=True, name="a")(encoded)
    x = keras.layers.LSTM(3, return_sequences=True, name="b")(
        decoded, initial_state=state
    )
    x = keras.layers.Dense(4, name="c")(x)
    head = keras.layers.Dense(4, name="d")(x)
    model = keras.Model(
        [encoded, decoded], [head, keras.layers.Dense(2, name="e")(head)]
    )
    _, report = keras_lab.binarize_model(model, return_report=True)
    assert report.converted == ["c"]


def test_a_model_in_a_time_distributed_is_converted():
    network = keras.Sequential(
        [
            keras.Input((8, 8, 2)),
            keras.layers.Conv2D(4, 3),
            keras.layers.Flatten(),
        ]
    )
    frames = keras.Input((3, 8, 8, 2))
    x = keras.layers.TimeDistributed(network)(frames)
    model = keras.Model(frames, keras.layers.LSTM(3)(x))
    assert_equal_in_full_precision(model)
    binary = keras_lab.binarize_model(model, skip_first=False)
    conv = binary.layers[1].layer.layers[0]
    assert isinstance(conv, keras_lab.BinaryConv2D)


def test_a_layer_with_lora_weights_is_kept_and_named():
    lora = keras.layers.Dense(8, name="lora")
    inputs = keras.Input((4,))
    x = keras.layers.Dense(4)(lora(inputs))
    model = keras.Model(inputs, x)
    lora.enable_lora(2)
    new, report = keras_lab.binarize_model(
        model, None, skip_first=False, skip_last=False, return_report=True
    )
    reasons = {row.layer: row.skipped for row in report}
    assert reasons["lora"] == "has LoRA weights"
    x = random((2, 4))
    np.testing.assert_allclose(new(x), model(x), atol=1e-6)


def test_the_result_trains_saves_loads_and_goes_on(tmp_path):
    model = keras_lab.binarize_model(small(), input_quantizer="sign")
    x, y = random((8, 8, 8, 3)), random((8, 3), 1)
    model.compile(keras_lab.LABAdam(0.01), "mse", jit_compile=False)
    model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    model.save(tmp_path / "m.keras")
    again = keras.models.load_model(tmp_path / "m.keras")
    for m in (model, again):
        m.fit(x, y, batch_size=4, shuffle=False, verbose=0)
    for a, b in zip(model.get_weights(), again.get_weights()):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRETRAINED)
def test_a_binarized_pretrained_model_is_exported(name, tmp_path):
    binary = keras_lab.binarize_model(pretrained(name))
    path = tmp_path / "model.tflite"
    report = tflite_export.export_tflite(binary, path)
    assert report.file_bytes < 0.6 * report.float_bytes
    packed = tflite_export.read_packed(path)
    expected = binary_weights(binary)
    assert {weight.path for weight in packed} == set(expected)
    for weight in packed:
        latent = expected[weight.path].latent
        np.testing.assert_array_equal(weight.signs > 0, latent.numpy() >= 0)


def test_a_layer_that_takes_integers_is_converted():
    inputs = keras.Input((4,), dtype="int32")
    outputs = keras.layers.Dense(3)(keras.layers.Dense(4)(inputs))
    model = keras.Model(inputs, outputs)
    new = keras_lab.binarize_model(
        model, None, skip_first=False, skip_last=False
    )
    x = np.arange(8, dtype="int32").reshape(2, 4)
    np.testing.assert_allclose(new(x), model(x), rtol=1e-6)
    assert isinstance(new.layers[1], keras_lab.BinaryDense)


def test_what_cannot_be_converted_is_named():
    class Own(keras.Model):
        def __init__(self, units):
            super().__init__()
            self.dense = keras.layers.Dense(units)

        def call(self, x):
            return self.dense(x)

    class Plain(Own):
        def __init__(self):
            super().__init__(3)

    class Doubled(keras.Model):
        def call(self, x):
            return 2 * super().call(x)

    own, plain = Own(3), Plain()
    inputs = keras.Input((2,))
    doubled = Doubled(inputs, keras.layers.Dense(3)(inputs))
    for model in (own, plain, doubled):
        model(np.ones((1, 2)))
        with pytest.raises(ValueError, match=r"functional model.*Received"):
            keras_lab.binarize_model(model)
    broken = small()
    broken.get_layer("b").kernel.assign(np.full((3, 3, 4, 4), np.nan))
    with pytest.raises(ValueError, match=r"b/kernel'.*NaN"):
        keras_lab.binarize_model(broken)
    with pytest.raises(TypeError, match=r"model=.m\.keras."):
        keras_lab.binarize_model("m.keras")
    with pytest.raises(ValueError, match="no weights yet"):
        keras_lab.binarize_model(keras.Sequential([keras.layers.Dense(2)]))
    with pytest.raises(ValueError, match="kept: first layer"):
        keras_lab.binarize_model(
            keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
        )
    with pytest.raises(TypeError, match="filters=3"):
        keras_lab.binarize_model(small(), filters=3)
    with pytest.raises(ValueError, match="kernel_quantizer='lap'"):
        keras_lab.binarize_model(small(), "lap")
