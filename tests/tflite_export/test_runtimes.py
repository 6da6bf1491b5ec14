"""`runtime`: which runtimes run a file, and files for old ones."""

import keras
import numpy as np
import pytest

from tests.tflite_export.models import CASES, conv, dense, net
from tests.tflite_export.support import (
    FORMATS,
    exported,
    mostly_slow,
    tolerance,
)
from tflite_export import ConversionError, export_tflite, inspect
from tflite_export.flatbuffer.model import FlatModel
from tflite_export.formats import Note
from tflite_export.runtimes import (
    OLDEST,
    Runtime,
    check_runtime,
    describe_version,
    needs,
)

OLD = "tensorflow-2.13"
REPRESENTATIVES = "dense_folded transpose sign_network lstm network".split()


@pytest.mark.parametrize("case", mostly_slow(CASES, REPRESENTATIVES))
def test_files_for_an_old_runtime_have_nothing_newer(case):
    # tflite-runtime 2.14 runs all of these files.
    for format in FORMATS:
        content = exported(case).content(format, runtime=OLD)
        assert set(needs(FlatModel(content)).values()) == {OLDEST}
        assert exported(case).error_of(content) <= tolerance(format, case)
        if format != "float":
            assert {r.kind for r in inspect(content).layers} == {"binary"}


@pytest.mark.parametrize(
    ("case", "format", "operator", "version"),
    [
        # Equal scales, stored once: a convolution is not zero on old runtimes.
        ("conv2d", "fast", "CONV_2D", 2),
        ("dense_one_unit", "fast", "FULLY_CONNECTED", 9),
        ("dense_per_channel", "fast", "FULLY_CONNECTED", 12),
        # Here the outputs are multiplied by the scales instead.
        ("dense_per_channel", "packed", "FULLY_CONNECTED", 9),
    ],
)
def test_the_version_of_an_operator_is_the_lowest_that_is_right(
    case, format, operator, version
):
    flat = FlatModel(exported(case).content(format))
    found = {
        flat.operator_version(part)
        for part in flat.subgraphs[0].operators
        if flat.operator_name(part) == operator
    }
    assert found == {version}


@pytest.mark.parametrize(
    ("case", "format", "oldest"),
    [
        ("conv2d", "fast", "TensorFlow 2.13 or LiteRT 1.0.1"),
        ("lstm", "packed", "TensorFlow 2.13 or LiteRT 1.0.1"),
        ("dense", "fast", "TensorFlow 2.18 or LiteRT 1.1.2"),
        ("dense_folded", "fast", "TensorFlow 2.17 or LiteRT 1.0.1"),
        ("transpose", "packed", "TensorFlow 2.17 or LiteRT 1.0.1"),
        ("transpose", "packed_float", "TensorFlow 2.13 or LiteRT 1.0.1"),
    ],
)
def test_the_report_names_the_oldest_runtime(case, format, oldest):
    report = inspect(exported(case).content(format))
    assert report.oldest_runtime == oldest
    assert f"{oldest}, and newer" in str(report)


def test_where_int4_is_wrong_dense_layers_take_int8():
    model = exported("dense_per_channel")
    content = model.content("fast", runtime="litert-1.0")
    assert inspect(content).oldest_runtime == "TensorFlow 2.17 or LiteRT 1.0.1"
    assert model.error_of(content) <= tolerance("fast", "dense_per_channel")


def test_the_cost_of_an_old_runtime_is_in_the_report():
    report = inspect(exported("transpose").content("packed", runtime=OLD))
    assert f"in float32, {Note.NO_KERNEL_IN_RUNTIME}" in str(report)


def test_what_an_old_runtime_would_get_wrong_is_refused():
    flat = FlatModel(exported("dense_per_channel").content("fast"))
    with pytest.raises(ConversionError, match="FULLY_CONNECTED"):
        check_runtime(flat, Runtime.of(OLD))
    # Several equal scales, as earlier versions of this package wrote them.
    flat = FlatModel(exported("conv2d").content("fast"))
    for tensor in flat.subgraphs[0].tensors:
        if flat.type_name(tensor) == "INT8":
            scale = tensor.quantization.scale
            tensor.quantization.scale = np.repeat(scale, tensor.shape[0])
    with pytest.raises(ConversionError, match=r"CONV_2D .*2\.19"):
        check_runtime(flat, Runtime.of("litert-1.0"))


def test_the_browser_gets_a_batch_size_of_one(path):
    model = net((8,), dense(4))()
    report = export_tflite(model, path)
    assert report.batch_size is None
    assert "not LiteRT.js: the batch size is open" in str(report)
    report = export_tflite(model, path, runtime="browser")
    assert report.batch_size == 1 and "LiteRT.js" not in str(report)
    report = export_tflite(model, path, runtime="browser", batch_size=2)
    assert report.batch_size == 2
    fixed = keras.Sequential([keras.Input((8,), batch_size=4), *model.layers])
    assert export_tflite(fixed, path, runtime="browser").batch_size == 4
    transpose = inspect(exported("transpose").content("packed"))
    assert "not CompiledModel" in str(transpose)


def test_the_browser_gets_no_image_of_open_size(path):
    model = net((None, None, 3), conv(4, 3))()
    report = export_tflite(model, path, batch_size=1)
    assert report.batch_size == 1 and report.has_open_size
    assert "not LiteRT.js: a size of an input is open" in str(report)
    with pytest.raises(ConversionError, match=r"all sizes .*'browser'"):
        export_tflite(model, path, runtime="browser")


@pytest.mark.parametrize(
    "name",
    [
        "tensorflow-2.12",
        "litert-0.9",
        "tensorflow-2.71",
        "litert-4.0",
        "tensorflow",
        "phone",
        2.13,
    ],
)
def test_an_unknown_or_too_old_runtime_is_named(path, name):
    with pytest.raises(ValueError, match="Received: runtime="):
        export_tflite(net((8,), dense(4))(), path, runtime=name)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("litert-1.0.1", (2, 17)),
        ("litert-1.4", (2, 19)),
        ("litert-2.3.0", (2, 21)),
        ("tflite-runtime-2.14", (2, 14)),
        (None, (2, 18)),
    ],
)
def test_a_runtime_stands_for_a_release_of_tensorflow(name, version):
    assert Runtime.of(name).version == version


@pytest.mark.parametrize("minor", range(13, 22))
def test_a_litert_that_is_named_has_the_kernels(minor):
    litert = describe_version((2, minor)).rpartition(" ")[2]
    assert Runtime.of(f"litert-{litert}").version >= (2, minor)
