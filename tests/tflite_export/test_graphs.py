"""Which operators a layer becomes in each format, and what they cost."""

import timeit

import keras
import numpy as np
import pytest

import keras_lab
from tests.tflite_export.models import (
    CASES,
    conv,
    dense,
    flatten,
    lstm,
    net,
    norm,
    relu,
    same,
    sign,
)
from tests.tflite_export.support import (
    BINARY_FORMATS,
    Exported,
    exported,
    operators,
    randomize,
    slow_param,
)
from tflite_export import (
    Format,
    export_tflite,
    inspect,
    make_interpreter,
)
from tflite_export.prepare import trained_kernels
from tflite_export.recipe import Recipe
from tflite_export.rewrite import rewrite

PACKED_FORMATS = ["packed", "packed_float"]
sign_conv = conv(8, 3, **sign, **same)


def shared_conv():
    image = keras.Input((8, 8, 16))
    layer = keras_lab.BinaryConv2D(16, 3, padding="same")
    return keras.Model(image, layer(keras.layers.ReLU()(layer(image))))


def check(content, arithmetic, counts):
    report = inspect(content)
    assert {row.arithmetic for row in report.layers} == set(arithmetic.split())
    for name, count in counts.items():
        assert report.operators.get(name, 0) == count, name


@pytest.mark.parametrize(
    ("case", "format", "arithmetic", "counts"),
    [
        ("dense", "packed", "int8", {"FULLY_CONNECTED": 1}),
        ("dense", "packed_float", "float32", {"FULLY_CONNECTED": 1}),
        ("dense", "fast", "int8", {"FULLY_CONNECTED": 1, "GATHER": 0}),
        ("dense_per_channel", "packed", "int8", {"FULLY_CONNECTED": 1}),
        ("rows_per_channel", "packed", "float32", {"BATCH_MATMUL": 1}),
        ("rows", "packed_float", "float32", {"FULLY_CONNECTED": 0}),
        ("rows", "fast", "int8", {"BATCH_MATMUL": 0}),
        ("rows", "float", "float32", {"BATCH_MATMUL": 0}),
        ("sign_rows", "packed", "int8", {"FULLY_CONNECTED": 1}),
        ("conv2d", "packed", "float32", {"BATCH_MATMUL": 1, "CONV_2D": 0}),
        # Winograd has the product, and two matrices of numbers around it.
        ("winograd", "packed", "float32", {"BATCH_MATMUL": 3}),
        ("winograd_conv1d", "packed", "float32", {"BATCH_MATMUL": 3}),
        ("winograd", "packed_float", "float32", {"BATCH_MATMUL": 1}),
        ("winograd", "fast", "int8", {"CONV_2D": 1}),
        ("conv2d_groups", "packed", "float32", {"CONV_2D": 1}),
        ("conv3d", "fast", "float32", {"CONV_3D": 1, "DEQUANTIZE": 1}),
        ("depthwise", "packed", "int8", {"DEPTHWISE_CONV_2D": 1}),
        ("sign_dense", "packed", "int8", {"FULLY_CONNECTED": 1}),
        ("sign_conv2d_same", "fast", "int8", {"CONV_2D": 1}),
        ("sign_conv2d_same", "packed", "float32", {"BATCH_MATMUL": 1}),
    ],
)
def test_a_layer_becomes_the_operators_of_its_format(
    case, format, arithmetic, counts
):
    check(exported(case).content(format), arithmetic, counts)


@pytest.mark.parametrize(
    ("make", "arithmetic", "products"),
    [
        # A batch of a fixed size is as many rows.
        (net((24,), dense(6), batch_size=32), "float32", 1),
        # Few rows, or an open number of them, stay a dense layer.
        (net((15, 7), dense(5), batch_size=1), "int8", 0),
        (net((None, 3, 20), dense(6)), "int8", 0),
        # The inputs of all steps of a recurrent layer are rows.
        (net((16, 12), lstm(8)), "int8 float32", 1),
        # Too few inputs, two tiles for five columns, too large, strides.
        (net((8, 8, 3), conv(8, 3, **same)), "float32", 1),
        (net((8, 5, 16), conv(8, 3, **same)), "float32", 1),
        slow_param(net((8, 8, 16), conv(8, 5, **same)), "float32", 1),
        slow_param(
            net((8, 8, 16), conv(8, 3, strides=2, **same)), "float32", 1
        ),
        # Where signs are taken of the outputs, they must be exact.
        (net((8, 8, 16), conv(8, 3, **same), norm, sign_conv), "float32", 2),
        (shared_conv, "float32", 6),
    ],
)
def test_products_depend_on_the_sizes(make, arithmetic, products):
    model = Exported(randomize(make()))
    check(model.content("packed"), arithmetic, {"BATCH_MATMUL": products})
    if None not in model.model.inputs[0].shape[1:]:
        most = 0.02 if "int8" in arithmetic else 1e-5
        assert model.error("packed", 2) < most


def test_a_small_packed_network_gets_exact_operators(path):
    model = randomize(CASES["network"]())
    packed = export_tflite(model, path, tolerance=1)
    exact = export_tflite(model, path, "packed_float", tolerance=1)
    assert packed.file_bytes <= exact.file_bytes
    arithmetic = {(row.arithmetic, bool(row.note)) for row in packed.layers}
    assert arithmetic <= {("int8", False), ("float32", True)}
    assert inspect(path).format == "packed_float" and packed.format == "packed"


LARGE = conv(128, 3, **same)  # 589,824 weights.


@pytest.mark.parametrize(
    "make",
    [
        net((8, 8, 16), conv(16, 3, **same), conv(16, 3, **same)),
        net((4, 8, 512), LARGE),
        net((4, 8, 512), LARGE, norm, flatten, dense(10)),
        net((4, 8, 512), LARGE, norm, conv(64, 3, **same, **sign)),
        slow_param(CASES["winograd_folded"]),
        slow_param(CASES["depthwise_folded"]),
        slow_param(CASES["stacked"]),
    ],
)
def test_a_packed_file_is_never_larger_than_with_exact_operators(make):
    """Neither with Winograd's products, nor with layers kept in float32."""
    model = Exported(randomize(make()))
    kernels = trained_kernels(model.model)
    paths = [kernel.path for kernel in kernels]
    exact = rewrite(model.converted, Recipe(Format.PACKED_FLOAT, kernels))
    for in_float in ([], paths[:1], paths):
        recipe = Recipe(Format.PACKED, kernels, in_float=frozenset(in_float))
        content = rewrite(model.converted, recipe)
        assert len(content) <= len(exact)


def test_a_convolution_is_fast_if_that_takes_no_more_bytes():
    """A scale per channel takes fewer bytes after Winograd's products."""
    layers = LARGE, norm, relu, conv(512, 3, **same), norm, relu
    model = Exported(randomize(net((4, 8, 512), *layers)()))
    kernels = trained_kernels(model.model)
    content = rewrite(model.converted, Recipe(Format.PACKED, kernels))
    assert inspect(content).operators["BATCH_MATMUL"] == 6


@pytest.fixture(scope="module")
def large():
    return Exported(net((2048,), dense(2048, use_bias=False))())


def allocated(content, runtime=None):
    interpreter = make_interpreter(content, runtime)
    interpreter.allocate_tensors()
    return interpreter


def delegates(content):
    details = allocated(content)._get_ops_details()
    return [operator["op_name"] for operator in details].count("DELEGATE")


def test_xnnpack_gets_all_that_runs_at_an_inference_and_no_more(large):
    for case in ("rows", "winograd"):
        assert delegates(exported(case).content("packed")) == 1
    # A dense layer with computed weights is left to the runtime.
    assert [delegates(large.content(f)) for f in PACKED_FORMATS] == [0, 0]


@pytest.mark.parametrize("format", PACKED_FORMATS)
@pytest.mark.parametrize("runtime", ["litert", "tf"])
def test_weights_are_unpacked_once_not_at_each_inference(
    large, format, runtime
):
    content = large.content(format)
    # Four million weights take milliseconds to unpack.
    loads = timeit.repeat(lambda: allocated(content, runtime), number=1)
    runs = timeit.repeat(
        allocated(content, runtime).invoke, number=1, repeat=20
    )
    assert min(runs) < min(loads) / 4


def most_floats(content):
    """The size of the largest float constant."""
    sizes = [
        np.prod(tensor.shape)
        for _, types, constant, tensors in operators(content)
        for type_name, is_constant, tensor in zip(types, constant, tensors)
        if is_constant and type_name == "FLOAT32"
    ]
    return max(sizes, default=0)


@pytest.mark.parametrize("format", PACKED_FORMATS)
def test_beside_the_bits_there_are_a_few_kilobytes(large, format):
    content = large.content(format)
    assert len(content) - 2 * -(-(2048**2) // 15) < 16_000
    assert most_floats(content) <= 2 * 2048


@pytest.mark.parametrize(
    ("format", "least", "most"),
    # What unpacking computes is kept.
    [
        ("float", 4, 4),
        ("packed_float", 4, 13),
        ("packed", 1, 5),
        ("fast", 0.5, 0.5),
    ],
)
def test_the_expected_ram_is_that_of_the_weights_as_they_are_computed_with(
    large, format, least, most
):
    ram = inspect(large.content(format)).expected_ram_bytes
    assert least <= ram / 2048**2 < most + 0.01


@pytest.mark.parametrize("format", ["packed", "fast"])
@pytest.mark.parametrize("case", ["lstm", "gru"])
def test_inputs_are_projected_outside_of_the_loop(case, format):
    names = [name for name, *_ in operators(exported(case).content(format))]
    loop = names.index("WHILE")
    assert "FULLY_CONNECTED" in names[:loop]
    assert names[loop:].count("FULLY_CONNECTED") == 1


@pytest.mark.parametrize("format", BINARY_FORMATS)
def test_the_zeros_that_a_loop_begins_with_are_not_stored(format):
    content = exported("lstm_sequences").content(format)
    assert inspect(content).operators["FILL"] == 1
    assert most_floats(content) < 40 * 7


def test_a_scale_per_gate_is_stored_once_and_not_for_each_row():
    content = Exported(randomize(net((6, 64), lstm(256))())).content("packed")
    for _, types, _, tensors in operators(content):
        for type_name, tensor in zip(types, tensors):
            if type_name == "INT8" and tensor.quantization is not None:
                assert len(tensor.quantization.scale) == 1
    bits = 2 * sum(-(-n * 4 * 256 // 15) for n in (64, 256))
    # The bias, and the rest.
    assert len(content) < bits + 4 * 4 * 256 + 24_000
