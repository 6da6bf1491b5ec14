"""`export_tflite`: what it writes, what it reports, and what it refuses."""

import json

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
import tflite_export
from tests.tflite_export.support import FORMATS, max_error, randomize
from tflite_export import (
    ConversionError,
    NothingBinaryError,
    ValidationError,
    export_tflite,
    inspect,
    read_packed,
)
from tflite_export import export as export_module
from tflite_export.flatbuffer.model import FlatModel, name_of
from tflite_export.validate import (
    agreement,
    interpreter_class,
    make_interpreter,
    run,
)

CLASSES = 4


@pytest.fixture(scope="module")
def classifier():
    """A classifier of Gaussian clusters, and its test inputs."""
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(1)
    centers = rng.normal(size=(CLASSES, 16))
    labels = rng.integers(0, CLASSES, 1024)
    x = (centers[labels] + 0.7 * rng.normal(size=(1024, 16))).astype("f")
    y = 2 * np.eye(CLASSES, dtype="f")[labels] - 1
    model = keras.Sequential([keras.Input((16,), name="pixels")])
    for units in (64, 64):
        model.add(keras_lab.BinaryDense(units, use_bias=False))
        model.add(layers.BatchNormalization(momentum=0.8))
        model.add(layers.ReLU())
    model.add(keras_lab.BinaryDense(CLASSES, use_bias=False, name="scores"))
    model.add(layers.BatchNormalization(momentum=0.8, name="classes"))
    model.compile(keras_lab.LABAdam(0.01), "squared_hinge", jit_compile=False)
    model.fit(x[:512], y[:512], batch_size=64, epochs=6, verbose=0)
    return model, x[512:]


@pytest.fixture(scope="module")
def reports(classifier, tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    model, x = classifier
    return {
        format: (
            folder / f"{format}.tflite",
            export_tflite(
                model,
                folder / f"{format}.tflite",
                format,
                validation_data=x,
            ),
        )
        for format in FORMATS
    }


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


@pytest.mark.parametrize("format", FORMATS)
def test_the_report_says_what_the_interpreter_computes(
    classifier, reports, format
):
    path, report = reports[format]
    model, x = classifier
    y = np.asarray(model(x))
    z = run(path.read_bytes(), {"pixels": x})["classes"]
    agreement = report.agreement
    assert agreement.samples == len(x) and agreement.data == "given"
    assert agreement.runtime == "ai_edge_litert"
    scale = np.abs(y).max()
    np.testing.assert_allclose(
        agreement.max_error, np.abs(z - y).max() / scale, rtol=1e-3, atol=1e-9
    )
    np.testing.assert_allclose(
        agreement.mean_error, np.abs(z - y).mean() / scale, rtol=1e-3, atol=1e-9
    )
    noise = np.linalg.norm((z - y).astype(np.float64))
    np.testing.assert_allclose(
        agreement.snr_db,
        20 * np.log10(np.linalg.norm(y) / noise),
        rtol=1e-2,
    )


@pytest.mark.parametrize("format", FORMATS)
def test_the_report_can_be_printed_read_as_json_and_found_in_the_file(
    reports, format
):
    path, report = reports[format]
    content = json.loads(report.to_json())
    assert content["file_bytes"] == path.stat().st_size
    assert content["float_bytes"] == reports["float"][0].stat().st_size
    assert [row["weights"] for row in content["layers"]] == [1024, 4096, 256]
    assert all(row["kind"] == "binary" for row in content["layers"])
    text = str(report)
    for row in report.layers:
        assert row.layer in text and row.operator in text
    assert "expected RAM" in text and "equal predictions" in text
    found = inspect(path)
    assert [row.weights for row in found.layers] == [1024, 4096, 256]
    assert found.file_bytes == report.file_bytes
    assert found.operators == report.operators
    assert found.float_bytes == report.float_bytes


def test_alpha_is_in_the_table(classifier, reports):
    model, _ = classifier
    _, report = reports["packed"]
    alphas = [
        float(layer.alpha.numpy())
        for layer in model.layers
        if hasattr(layer, "alpha")
    ]
    assert [row.alpha for row in report.layers] == [(a,) for a in alphas]
    assert f"{alphas[0]:.4g}" in str(report)


def test_only_built_in_operators_are_used(reports):
    for path, _ in reports.values():
        model = FlatModel(path.read_bytes())
        assert not any(code.customCode for code in model.model.operatorCodes)


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
    assert len(packed) == 2 and all("block" in w.path for w in packed)


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
    model.layers[-1].gamma.assign([np.nan] * CLASSES)
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


def float_model():
    return keras.Sequential([keras.Input((4,)), layers.Dense(3)], name="plain")


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras_lab.BinaryDense(3)

    def call(self, x):
        return self.dense(x)


def subclassed_model():
    model = Subclassed()
    model(np.zeros((1, 4), "f"))
    return model


def model_with_nan(name):
    model = keras.Sequential(
        [keras.Input((4,)), keras_lab.BinaryDense(3, name="first")]
    )
    variable = getattr(model.layers[0], name)
    variable.assign(np.full(variable.shape, np.nan))
    return model


def stateful_model():
    layer = keras_lab.BinaryLSTM(3, stateful=True, name="memory")
    return keras.Sequential([keras.Input(batch_shape=(2, 4, 5)), layer])


def grouped_model():
    layer = keras_lab.BinaryConv3D(4, 2, groups=2, name="groups")
    return keras.Sequential([keras.Input((3, 3, 3, 4)), layer])


def unbuilt_model():
    return keras.Sequential([keras_lab.BinaryDense(3)], name="unbuilt")


@pytest.mark.parametrize(
    ("make", "path", "options", "error", "match"),
    [
        (float_model, "m.tflite", {}, NothingBinaryError, "'plain' has no bin"),
        (unbuilt_model, "m.tflite", {}, ValueError, "'unbuilt' has no weights"),
        (lambda: 3, "m.tflite", {}, TypeError, "Received: model=3"),
        (
            subclassed_model,
            "m.tflite",
            {},
            ConversionError,
            "only Sequential and functional .* type Subclassed",
        ),
        (
            lambda: model_with_nan("alpha"),
            "m.tflite",
            {},
            ValidationError,
            "first/alpha' has a NaN",
        ),
        (
            lambda: model_with_nan("kernel"),
            "m.tflite",
            {},
            ValidationError,
            "first/kernel' has a NaN",
        ),
        (
            stateful_model,
            "m.tflite",
            {},
            ConversionError,
            "Layer 'memory' is stateful",
        ),
        (
            grouped_model,
            "m.tflite",
            {},
            ConversionError,
            "Layer 'groups' has groups=2",
        ),
        (
            None,
            "m.tflite",
            {"tolerance": "x"},
            ValueError,
            "Received: tolerance='x'",
        ),
        (
            None,
            "m.tflite",
            {"tolerance": float("nan")},
            ValueError,
            "Received: tolerance=nan",
        ),
        (
            None,
            "m.tflite",
            {"validation_data": [["a"] * 16]},
            ValueError,
            r"array of numbers for each input. Received: \[\['a'",
        ),
        (
            None,
            "m.tflite",
            {"validation_data": [[1, 2], [3]]},
            ValueError,
            "array of numbers for each input",
        ),
        (
            None,
            "m.tflite",
            {"validation_data": {"x": np.zeros((3, 16))}},
            ValueError,
            r"keys \['pixels'\]. Received: \['x'\]",
        ),
        (
            None,
            "m.onnx",
            {},
            ValueError,
            "end in .tflite. Received: path=.*m.on",
        ),
        (None, "folder.tflite", {}, ValueError, "is a directory. Received"),
        (None, "absent/m.tflite", {}, ValueError, "does not exist. Received"),
        (None, 3, {}, TypeError, "Received: path=3"),
        (
            None,
            "m.tflite",
            {"format": "onebit"},
            ValueError,
            "'packed', 'packed_float', 'fast', 'float'. Received: .*'onebit'",
        ),
        (
            None,
            "m.tflite",
            {"batch_size": 0},
            ValueError,
            "Received: batch_size=0",
        ),
        (
            None,
            "m.tflite",
            {"validation_data": np.zeros((3, 5))},
            ValueError,
            r"shapes \[\(None, 16\)\]. Received: \[\(3, 5\)\]",
        ),
        (
            None,
            "m.tflite",
            {"validation_data": np.full((3, 16), np.nan)},
            ValueError,
            "has a NaN",
        ),
    ],
)
def test_bad_input_is_named_before_any_work(
    tmp_path, classifier, monkeypatch, make, path, options, error, match
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.tflite").mkdir()
    monkeypatch.setattr(
        export_module, "convert", lambda *args: pytest.fail("work was done")
    )
    model = classifier[0] if make is None else make()
    with pytest.raises(error, match=match):
        export_tflite(model, path, **options)
    assert [p.name for p in tmp_path.iterdir()] == ["folder.tflite"]


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


def test_tf_lite_is_used_where_litert_is_absent(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    assert interpreter_class()[1] == "tf.lite"


def test_pack_and_readers_name_what_they_received():
    with pytest.raises(TypeError, match="Received: int"):
        tflite_export.pack(3)
    with pytest.raises(TypeError, match="Received: 3 of type int"):
        tflite_export.inspect(3)
    with pytest.raises(FileNotFoundError, match="Received: 'absent"):
        tflite_export.read_packed("absent.tflite")
    with pytest.raises(IsADirectoryError, match=r"Received: '\.'"):
        tflite_export.inspect(".")


def test_a_dynamic_batch_is_kept_where_there_is_no_loop(reports, classifier):
    _, x = classifier
    for path, _ in reports.values():
        content = path.read_bytes()
        one = run(content, {"pixels": x[:1]})
        many = run(content, {"pixels": x[:7]})
        assert len(many["classes"]) == 7
        assert max_error(one, {"classes": many["classes"][:1]}) < 0.02


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("alpha", [0.0, 1e-42])
def test_weights_that_are_zero_or_nearly_are_exported(tmp_path, format, alpha):
    model = keras.Sequential(
        [keras.Input((20,)), keras_lab.BinaryDense(6, use_bias=False)]
    )
    model.layers[0].alpha.assign(alpha)
    path = tmp_path / "m.tflite"
    export_tflite(model, path, format)
    if format != "float":
        (weight,) = read_packed(path)
        np.testing.assert_array_equal(
            weight.signs > 0, model.layers[0].kernel.numpy() >= 0
        )


def two_inputs(structure):
    z, a = keras.Input((4,), name="zz"), keras.Input((4,), name="aa")
    y = keras_lab.BinaryDense(3)(z) + 9 * keras_lab.BinaryDense(3)(a)
    return randomize(keras.Model(structure(z, a), y))


@pytest.mark.parametrize(
    ("structure", "data"),
    [
        (lambda z, a: [z, a], {"zz": 2, "aa": 1}),
        (lambda z, a: [z, a], [2, 1]),
        (lambda z, a: {"zz": z, "aa": a}, {"zz": 2, "aa": 1}),
    ],
)
def test_validation_data_go_to_the_inputs_that_they_name(
    tmp_path, monkeypatch, structure, data
):
    given = {}
    run_it = export_module.run
    monkeypatch.setattr(
        export_module,
        "run",
        lambda content, inputs: given.update(inputs) or run_it(content, inputs),
    )
    data = keras.tree.map_structure(lambda n: np.full((5, 4), n), data)
    path = tmp_path / "m.tflite"
    export_tflite(two_inputs(structure), path, validation_data=data)
    assert {name: value[0, 0] for name, value in given.items()} == {
        "zz": 2,
        "aa": 1,
    }


@pytest.mark.parametrize(
    "wrap", [np.array, list, lambda rows: [np.array(rows)]]
)
def test_rows_of_one_input_may_be_lists(tmp_path, classifier, wrap):
    rows = wrap([[0.5] * 16, [1.0] * 16, [2.0] * 16])
    path = tmp_path / "m.tflite"
    report = export_tflite(classifier[0], path, validation_data=rows)
    assert report.agreement.samples == 3


@pytest.mark.parametrize(
    ("format", "advice"),
    [
        ("packed", "choose the format 'packed_float'"),
        ("packed_float", "a larger `tolerance`"),
    ],
)
def test_the_advice_fits_the_format(tmp_path, classifier, format, advice):
    with pytest.raises(ValidationError, match=advice):
        export_tflite(classifier[0], tmp_path / "m.tflite", format, tolerance=0)


def test_an_error_of_tensorflow_names_the_layer(tmp_path, monkeypatch):
    import tensorflow as tf

    def fail(self, inputs):
        raise tf.errors.UnimplementedError(None, None, "only NHWC")

    model = keras.Sequential(
        [
            keras.Input((3, 8, 8)),
            keras_lab.BinaryDepthwiseConv2D(
                3, data_format="channels_first", name="conv"
            ),
        ]
    )
    monkeypatch.setattr(layers.DepthwiseConv2D, "call", fail)
    with pytest.raises(ConversionError, match="channels_first': 'conv'"):
        export_tflite(model, tmp_path / "m.tflite")


def test_a_small_output_is_compared_by_its_own_size():
    expected = {"large": np.full((2, 3), 1e6), "small": np.full((2, 3), 1e-6)}
    actual = {**expected, "small": -expected["small"]}
    result = agreement(expected, actual, "runtime", "given")
    assert result.max_error == pytest.approx(2)
    assert result.relative_error == pytest.approx(2)
    assert result.snr_db == pytest.approx(-20 * np.log10(2))


def test_an_output_of_zeros_is_compared_by_the_size_of_the_others():
    expected = {"y": np.ones((2, 3)), "zeros": np.zeros((2, 3))}
    actual = {**expected, "zeros": np.full((2, 3), 1e-3)}
    result = agreement(expected, actual, "runtime", "given")
    assert result.max_error == pytest.approx(1e-3)
    assert np.isfinite(result.relative_error)
