"""`other_weights`: what is not binary in 16 or 8 bits."""

import functools

import keras
import numpy as np
import pytest
from keras import layers

from tests.tflite_export.models import (
    conv,
    dense,
    flatten,
    gru,
    lstm,
    maker,
    net,
    norm,
    sign,
)
from tests.tflite_export.support import (
    FORMATS,
    RUNTIMES,
    Exported,
    mostly_slow,
    operators,
    randomize,
)
from tflite_export import (
    ValidationError,
    export_tflite,
    inspect,
    make_interpreter,
    run,
)
from tflite_export.flatbuffer.model import FlatModel

float_dense = maker(layers.Dense)
MODELS = {
    "dense": net((40,), float_dense(300, activation="relu"), dense(20)),
    "conv": net(
        (10, 10, 8),
        maker(layers.Conv2D)(16, 3),
        conv(16, 3),
        maker(layers.Conv2DTranspose)(8, 3),
        maker(layers.DepthwiseConv2D)(3, depth_multiplier=4),
        flatten,
        dense(6),
        float_dense(300),
    ),
    "sign": net((40,), float_dense(30), norm, dense(20, **sign), norm),
    "lstm": net(
        (12, 24),
        maker(layers.LSTM)(16, return_sequences=True),
        lstm(16, return_sequences=True),
        float_dense(40),
    ),
    "embedding": net(
        (9,), maker(layers.Embedding)(50, 16), gru(8), float_dense(300)
    ),
}
FAST_MODELS = ("dense", "embedding")
TOLERANCE = {"float16": 2e-3, "int8": 0.03}


@functools.cache
def made(name):
    return Exported(randomize(MODELS[name]()))


@pytest.mark.parametrize("kind", TOLERANCE)
@pytest.mark.parametrize("name", mostly_slow(MODELS, FAST_MODELS))
def test_every_format_runs_with_smaller_other_weights(name, kind):
    model = made(name)
    for format in FORMATS:
        content = model.content(format, kind)
        is_int8 = kind == "int8" or format in ("packed", "fast")
        most = TOLERANCE["int8" if is_int8 else kind]
        for options in RUNTIMES:
            assert model.error_of(content, 3, **options) < most, options
        assert len(content) < len(model.content(format))
        if format != "float":
            shapes = {row.kind for row in inspect(content).layers}
            assert "binary" in shapes and "float" not in shapes


@pytest.mark.parametrize(
    ("format", "kind", "arithmetic"),
    [
        ("packed", "int8", "int8"),
        ("packed_float", "int8", "float32"),
        ("fast", "float16", "float32"),
    ],
)
def test_the_format_decides_on_the_arithmetic(format, kind, arithmetic):
    (row,) = [
        row
        for row in inspect(made("dense").content(format, kind)).layers
        if row.kind != "binary"
    ]
    assert (row.kind, row.arithmetic) == (kind, arithmetic)
    assert row.bits == {"int8": 8, "float16": 16}[kind]


def test_int8_matrices_have_a_scale_per_channel():
    model = made("dense")
    content = model.content("fast", "int8")
    flat = FlatModel(content)
    kernel = model.model.layers[0].kernel.numpy().T
    for tensor in flat.subgraphs[0].tensors:
        if tuple(tensor.shape) == kernel.shape and flat.is_constant(tensor):
            scales = tensor.quantization.scale
            restored = flat.constant(tensor) * scales[:, None]
    assert np.all(np.abs(restored - kernel) <= 0.501 * scales[:, None])


def test_channels_with_equal_scales_share_one_scale(path):
    parts = maker(layers.Conv2D)(24, 3), maker(layers.ReLU)(), conv(8, 3)
    model = net((8, 8, 16), *parts)()
    kernel = model.layers[0].kernel
    kernel.assign(0.1 * keras.ops.sign(kernel))
    report = export_tflite(
        model, path, "fast", other_weights="int8", runtime="tensorflow-2.13"
    )
    assert report.oldest_runtime == "TensorFlow 2.13 or LiteRT 1.0.1"


@pytest.mark.parametrize(("kind", "bits"), [("float16", 24), ("int8", 8)])
def test_int8_rounds_biases_of_integer_layers_to_8_bits(kind, bits):
    bias = np.random.default_rng(1).normal(size=300).astype("float32")
    model = net((64,), dense(300), maker(layers.ReLU)(), dense(10))()
    model.layers[0].bias.assign(bias)
    (stored,) = float_vectors(Exported(model).content("fast", kind))
    assert np.all(np.abs(stored - bias) <= 2.0**-bits * np.abs(bias))
    mantissa, _ = np.frexp(stored.astype("float64"))
    np.testing.assert_array_equal(mantissa * 2**bits % 1, 0)


def test_biases_before_a_sign_are_not_rounded():
    signs = dense(300, **sign), norm, dense(10, **sign)
    model = Exported(randomize(net((64,), dense(40), norm, *signs)()))
    exact = float_vectors(model.content("fast"))
    assert exact
    for kind in TOLERANCE:
        same = float_vectors(model.content("fast", kind))
        np.testing.assert_array_equal(same, exact)


def float_vectors(content):
    """The constants of 300 float32 numbers."""
    flat = FlatModel(content)
    return [
        flat.constant(tensor)
        for tensor in flat.subgraphs[0].tensors
        if tuple(tensor.shape) == (300,)
        and flat.type_name(tensor) == "FLOAT32"
        and flat.is_constant(tensor)
    ]


def test_an_embedding_is_looked_up_in_int8():
    content = made("embedding").content("packed", "int8")
    tables = [
        types[0]
        for name, types, constant, _ in operators(content)
        if name == "GATHER" and constant == [True, False]
    ]
    assert tables == ["INT8"]
    report = inspect(content)
    assert ("GATHER", "int8") in {(r.operator, r.kind) for r in report.layers}


@pytest.mark.parametrize(
    ("factor", "kind"), [(1, "int8"), (0, "int8"), (300, "float16")]
)
def test_a_table_with_rows_of_unequal_size_is_float16(path, factor, kind):
    embedding = maker(layers.Embedding)(1000, 32)
    model = randomize(net((6,), embedding, flatten, dense(64))())
    table = model.layers[0].embeddings
    table.assign(np.concatenate([factor * table[:1], table[1:]]))
    report = export_tflite(model, path, "packed_float", other_weights="int8")
    assert kind in {row.kind for row in report.layers}
    x = np.arange(1, 961, dtype="f").reshape(160, 6)
    (actual,) = run(path, x).values()
    np.testing.assert_allclose(actual, model(x), atol=0.02)


def test_weights_near_signs_are_float16_and_not_int8():
    content = made("sign").content("fast", "int8")
    types = {row.kind for row in inspect(content).layers}
    assert types == {"binary", "float16"}


@pytest.mark.parametrize("format", ["packed", "packed_float"])
def test_unpacking_still_happens_only_once(format):
    # A DEQUANTIZE among the unpacking operators would run at each inference.
    model = Exported(
        randomize(net((512,), dense(600), norm, float_dense(10))())
    )
    content = model.content(format, "float16")
    flat = FlatModel(content)
    main = flat.subgraphs[0]
    for operator in main.operators:
        if flat.operator_name(operator) == "GATHER":
            for tensor in operator.inputs.tolist():
                assert flat.producer(main, tensor, "DEQUANTIZE") is None
    make_interpreter(content).allocate_tensors()


@pytest.mark.parametrize("size", [1e5, 1e-7])
def test_numbers_too_large_or_too_small_for_float16_stay(size):
    model = net((64,), float_dense(8), dense(4))()
    kernel = size * np.random.default_rng(1).uniform(0.7, 1, (64, 8))
    model.layers[0].kernel.assign(kernel)
    content = Exported(model).content("float", "float16")
    types = {row.kind for row in inspect(content).layers}
    assert "float16" not in types


def test_the_errors_of_rounding_are_accepted_or_refused(tmp_path):
    keras.utils.set_random_seed(1)
    model = net((64,), float_dense(64), dense(64), float_dense(10))()
    path = tmp_path / "m.tflz"
    plain = export_tflite(model, path)
    assert plain.format == "fast"
    small = export_tflite(model, path, other_weights="int8")
    assert small.file_bytes < 0.6 * plain.file_bytes
    for kind, finer in (
        ("int8", "choose 'float16' or 'float32'"),
        ("float16", "choose 'float32'"),
    ):
        with pytest.raises(ValidationError, match=f"relative error.*{finer}"):
            export_tflite(model, path, other_weights=kind, tolerance=1e-6)
