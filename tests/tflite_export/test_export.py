"""`export_tflite`: what it writes, and when it writes nothing."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
import tflite_export
from tests.tflite_export.support import (
    FORMATS,
    Exported,
    max_error,
    randomize,
)
from tflite_export import (
    ConversionError,
    ValidationError,
    export_tflite,
    inspect,
    make_interpreter,
    read_packed,
    run,
)
from tflite_export import export as export_module
from tflite_export.flatbuffer.model import FlatModel, name_of


@pytest.mark.parametrize("format", FORMATS)
def test_a_trained_classifier_keeps_its_predictions(
    classifier, reports, format
):
    path, report = reports[format]
    model, x = classifier
    expected = np.asarray(model(x)).argmax(axis=1)
    for runtime in ("litert", "tf"):
        for xnnpack in (True, False):
            scores = run(
                path.read_bytes(),
                {"pixels": x},
                runtime=runtime,
                xnnpack=xnnpack,
            )["classes"]
            assert np.mean(scores.argmax(axis=1) == expected) >= 0.995
    assert report.agreement.equal_predictions >= 0.995


def test_only_built_in_operators_are_used(reports):
    for path, _ in reports.values():
        model = FlatModel(path.read_bytes())
        assert not any(code.customCode for code in model.model.operatorCodes)


def test_a_dynamic_batch_is_kept_where_there_is_no_loop(reports, classifier):
    _, x = classifier
    for path, _ in reports.values():
        content = path.read_bytes()
        one = run(content, {"pixels": x[:1]})
        many = run(content, {"pixels": x[:7]})
        assert len(many["classes"]) == 7
        assert max_error(one, {"classes": many["classes"][:1]}) < 0.02


def test_inputs_and_outputs_keep_their_names_and_their_order(tmp_path):
    b, a = keras.Input((6,), name="b"), keras.Input((3, 4), name="a")
    x = keras_lab.BinaryDense(5, name="left")(b)
    y = keras_lab.BinaryDense(2, name="right")(layers.Flatten()(a))
    model = randomize(keras.Model({"b": b, "a": a}, {"z": x, "m": y}), seed=3)
    rng = np.random.default_rng(0)
    data = {
        "b": rng.normal(size=(5, 6)).astype("f"),
        "a": rng.normal(size=(5, 3, 4)).astype("f"),
    }
    report = export_tflite(
        model, tmp_path / "m.tflite", "packed_float", validation_data=data
    )
    assert report.agreement.max_error < 1e-5
    assert report.agreement.equal_predictions is None
    content = (tmp_path / "m.tflite").read_bytes()
    interpreter = make_interpreter(content)
    signature = interpreter.get_signature_list()["serving_default"]
    assert sorted(signature["inputs"]) == ["a", "b"]
    assert len(signature["outputs"]) == 2
    expected = model(data)
    actual = interpreter.get_signature_runner()(
        a=data["a"][:1], b=data["b"][:1]
    )
    shapes = {value.shape: value for value in actual.values()}
    np.testing.assert_allclose(shapes[1, 5], expected["z"][:1], atol=1e-5)
    np.testing.assert_allclose(shapes[1, 2], expected["m"][:1], atol=1e-5)


def test_nested_models_are_exported_whole(tmp_path):
    block = keras.Sequential(
        [
            keras.Input((8,)),
            keras_lab.BinaryDense(8),
            layers.BatchNormalization(),
            keras_lab.BinaryDense(8, input_quantizer="sign"),
        ],
        name="block",
    )
    inputs = keras.Input((8,))
    model = keras.Model(inputs, layers.Add()([inputs, block(block(inputs))]))
    randomize(model)
    export_tflite(model, tmp_path / "m.tflite", "packed_float")
    packed = read_packed(tmp_path / "m.tflite")
    paths = [weight.path for weight in packed]
    assert paths == list(keras_lab.binary_weights(model))
    assert all(path.startswith("block/") for path in paths)


@pytest.mark.parametrize("format", FORMATS)
def test_a_model_of_mixed_precision_is_exported_in_float32(tmp_path, format):
    policy = "mixed_float16"
    model = keras.Sequential(
        [
            keras.Input((32,)),
            keras_lab.BinaryDense(16, dtype=policy),
            layers.ReLU(dtype=policy),
            keras_lab.BinaryDense(4, dtype=policy),
        ]
    )
    path = tmp_path / "m.tflite"
    export_tflite(model, path, format)
    x = np.random.default_rng(0).normal(size=(5, 32)).astype("f")
    (y,) = tflite_export.run(path, x).values()
    assert y.dtype == np.float32
    expected = np.asarray(model(x), np.float32)
    assert max_error({"y": expected}, {"y": y}) < 0.02
    assert model.layers[0].compute_dtype == "float16"


def test_a_fixed_batch_size_is_kept(tmp_path, classifier):
    model, _ = classifier
    export_tflite(model, tmp_path / "m.tflite", batch_size=3)
    interpreter = make_interpreter((tmp_path / "m.tflite").read_bytes())
    (details,) = interpreter.get_input_details()
    assert details["shape_signature"].tolist() == [3, 16]


def test_an_existing_file_is_replaced_by_a_whole_one(tmp_path, classifier):
    path = tmp_path / "m.tflite"
    path.write_bytes(b"old")
    export_tflite(classifier[0], path)
    assert [p.name for p in tmp_path.iterdir()] == ["m.tflite"]
    inspect(path)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("alpha", [0.0, 1e-42])
def test_weights_that_are_zero_or_nearly_are_exported(format, alpha):
    model = keras.Sequential(
        [keras.Input((20,)), keras_lab.BinaryDense(6, use_bias=False)]
    )
    model.layers[0].alpha.assign(alpha)
    content = Exported(model).content(format)
    (y,) = run(content, np.ones((1, 20), "f")).values()
    assert np.all(np.isfinite(y)) and np.abs(y).max() <= 20 * alpha + 1e-20
    if format != "float":
        (weight,) = read_packed(content)
        np.testing.assert_array_equal(
            weight.signs > 0, model.layers[0].kernel.numpy() >= 0
        )


def test_a_stale_alpha_is_refused_until_it_is_refreshed(tmp_path):
    model = keras.Sequential([keras.Input((8,)), keras_lab.BinaryDense(6)])
    model.layers[0].kernel.assign(10 * np.ones((8, 6)))
    check_leaves_nothing(
        tmp_path,
        ValueError,
        r"keras_lab.refresh\(model\)",
        model,
        tmp_path / "m.tflite",
    )
    keras_lab.refresh(model)
    export_tflite(model, tmp_path / "m.tflite")
    (weight,) = read_packed(tmp_path / "m.tflite")
    assert weight.alpha == 10


def check_leaves_nothing(folder, error, match, *args, **kwargs):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(error, match=match):
        export_tflite(*args, **kwargs)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_disagreement_beyond_the_tolerance_leaves_no_file(
    tmp_path, classifier, monkeypatch
):
    model, _ = classifier
    (tmp_path / "m.tflite").write_bytes(b"old")
    check_leaves_nothing(
        tmp_path,
        ValidationError,
        r"relative error is .*, the tolerance 1e-09",
        model,
        tmp_path / "m.tflite",
        tolerance=1e-9,
    )
    flip = export_module.rewrite
    monkeypatch.setattr(
        export_module,
        "rewrite",
        lambda *args: flip_one_bit(flip(*args)),
    )
    check_leaves_nothing(
        tmp_path,
        ValidationError,
        "disagrees with Keras",
        model,
        tmp_path / "m.tflite",
        "packed_float",
    )


def flip_one_bit(content):
    model = FlatModel(content)
    tensor = next(
        tensor
        for tensor in model.subgraphs[0].tensors
        if name_of(tensor).endswith("/sign_bits")
    )
    indices = model.constant(tensor).copy()
    indices[0] ^= 1
    tensor.buffer = model.add_buffer(indices)
    return model.to_bytes()


def test_a_nan_leaves_no_file(tmp_path, classifier):
    model = keras.models.clone_model(classifier[0])
    model.set_weights(classifier[0].get_weights())
    model.layers[-1].gamma.assign([np.nan] * 4)
    check_leaves_nothing(
        tmp_path,
        ValidationError,
        "itself has a NaN",
        model,
        tmp_path / "m.tflite",
    )


def test_an_error_of_the_runtime_leaves_no_file(
    tmp_path, classifier, monkeypatch
):
    def without_inputs(model, format, kernels):
        model.subgraphs[0].operators[0].inputs[1] = 0
        return model.to_bytes()

    monkeypatch.setattr(export_module, "rewrite", without_inputs)
    check_leaves_nothing(
        tmp_path,
        ValidationError,
        "cannot run the exported model",
        classifier[0],
        tmp_path / "m.tflite",
    )


def test_a_full_disk_leaves_no_half_file(tmp_path, classifier, monkeypatch):
    def full(source, target):
        raise OSError("No space left on device")

    monkeypatch.setattr("os.replace", full)
    check_leaves_nothing(
        tmp_path, OSError, "No space", classifier[0], tmp_path / "m.tflite"
    )


@keras.saving.register_keras_serializable("tests")
class Determinant(layers.Layer):
    def call(self, x):
        return keras.ops.det(x)


def test_an_operator_that_the_runtime_lacks_is_named_with_its_layer(tmp_path):
    model = keras.Sequential(
        [
            keras.Input((4, 4)),
            keras_lab.BinaryDense(4),
            Determinant(name="volume"),
        ]
    )
    check_leaves_nothing(
        tmp_path,
        ConversionError,
        "MatrixDeterminant, in layer 'volume'",
        model,
        tmp_path / "m.tflite",
    )
