"""One contract that every binary layer keeps."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_lab
from keras_lab._backend import backend
from keras_lab.quantizers import BWN, LAB
from tests.keras_lab.engine import (
    MANY_STEPS,
    NAME,
    compiled,
    dtype_of,
    gradients_of,
)
from tests.keras_lab.layers.cases import (
    CASES,
    OPTIONS,
    built,
    copy_forward_weights,
    make,
)
from tests.keras_lab.networks import alpha_of
from tests.keras_lab.support import (
    assert_same,
    random,
    saved_and_loaded,
    sequential,
)

QUANTIZERS = {
    "lab": "lab",
    "bwn": "bwn",
    "binary_connect": "binary_connect",
    "lab_channel": LAB(scale="channel"),
    "bwn_channel": BWN(scale="channel"),
}
each_layer = pytest.mark.parametrize("case", CASES)
each_quantizer = pytest.mark.parametrize(
    "quantizer", QUANTIZERS.values(), ids=QUANTIZERS
)


def model_of(case, **options):
    layer, shape = make(case, **options)
    return sequential(shape[1:], layer, keras.layers.Flatten())


def plain_twin(case, layer, **options):
    """The layer of Keras with the weights of our forward pass."""
    plain, _ = built(case, "", **options)
    copy_forward_weights(layer, plain)
    return plain


@each_layer
@each_quantizer
def test_the_forward_weight_is_plus_or_minus_the_scale_it_starts_with(
    case, quantizer
):
    layer, _ = built(case, kernel_quantizer=quantizer)
    assert layer.binary_weights
    for weight in layer.binary_weights.values():
        np.testing.assert_allclose(weight.alpha, alpha_of(weight), rtol=1e-6)
        magnitudes = np.unique(np.abs(weight.value()))
        np.testing.assert_array_equal(
            magnitudes, np.unique(weight.alpha.numpy())
        )
        signs = np.where(weight.latent.numpy() >= 0, 1, -1)
        np.testing.assert_array_equal(np.sign(weight.value()), signs)


@each_layer
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_the_forward_weight_is_two_valued_in_mixed_precision(case, policy):
    layer, shape = built(case, dtype=policy)
    layer_input = random(shape)
    output = layer(layer_input)
    half = policy.removeprefix("mixed_")
    assert dtype_of(output) == half
    for weight in layer.binary_weights.values():
        kernel = weight.value(layer.compute_dtype)
        assert dtype_of(kernel) == half
        assert np.unique(np.abs(ops.cast(kernel, "float32"))).size == 1
        assert weight.latent.dtype == weight.alpha.dtype == "float32"


def test_the_sign_is_that_of_the_latent_weight_not_of_its_half():
    layer, _ = built("dense", dtype="mixed_float16")
    tiny = -1e-12  # Rounds to minus zero in float16.
    layer.kernel.assign(np.full(layer.kernel.shape, tiny))
    assert np.all(np.asarray(layer.binary_kernel) < 0)
    assert np.all(np.asarray(layer(np.ones((2, 7), "float32"))) < 0)


@pytest.mark.parametrize(
    ("case", "options"), [*((case, {}) for case in CASES), *OPTIONS]
)
@pytest.mark.parametrize("quantizer", [None, "lab", LAB(scale="channel")])
def test_with_every_option_it_is_the_keras_layer_of_the_binary_weight(
    case, options, quantizer
):
    layer, shape = built(case, **options, kernel_quantizer=quantizer)
    plain = plain_twin(case, layer, **options)
    x = random(shape)
    # Only XLA has convolutions with channels first on a CPU.
    jit_compile = options.get("data_format") == "channels_first"
    output = compiled(layer, jit_compile)(x)
    expected = compiled(plain, jit_compile)(x)
    np.testing.assert_array_equal(output, expected)
    assert tuple(layer.compute_output_shape(shape)) == tuple(output.shape)


@pytest.mark.parametrize(
    ("name", "arguments", "shape", "expected"),
    [
        ("Dense", (5,), (2, 7), (5,)),
        ("Conv2D", (4, 3), (2, 8, 7, 2), (4,)),
        ("DepthwiseConv2D", (3,), (2, 8, 7, 3), (3, 1)),
        ("Conv2DTranspose", (4, 3), (2, 8, 7, 2), (4,)),
        ("EinsumDense", ("abc,cde->abde", (None, 2, 3)), (2, 5, 7), (2, 3)),
        ("EinsumDense", ("abcd,cde->abe", (None, 6)), (2, 5, 2, 3), (6,)),
        ("EinsumDense", ("...x,yx->...y", 4), (2, 5, 7), (4,)),
        ("EinsumDense", ("abc,bcd->abd", (5, 4)), (2, 5, 7), (5, 4)),
    ],
)
def test_one_alpha_per_output_channel_has_its_shape(
    name, arguments, shape, expected
):
    layer = getattr(keras_lab, f"Binary{name}")(
        *arguments, kernel_quantizer=LAB(scale="channel")
    )
    layer.build(shape)
    assert layer.alpha.shape == expected


def test_a_file_of_another_layer_is_refused_with_the_names(tmp_path):
    model = sequential((7,), keras_lab.BinaryDense(5))
    model.save_weights(tmp_path / "model.weights.h5")
    other = sequential((7,), keras_lab.BinaryDense(5, use_bias=False))
    with pytest.raises(
        ValueError, match=r"Received.*'alpha', 'bias', 'kernel'"
    ):
        other.load_weights(tmp_path / "model.weights.h5")


@each_layer
@pytest.mark.parametrize("input_quantizer", [None, "sign"])
def test_the_gradient_at_the_latent_weight_is_that_at_the_binary_weight(
    case, input_quantizer
):
    layer, shape = built(case, input_quantizer=input_quantizer)
    plain = plain_twin(case, layer)
    alphas = [weight.alpha for weight in layer.binary_weights.values()]
    scales = set(map(id, alphas))
    variables = [v for v in layer.trainable_variables if id(v) not in scales]
    names = [v.name for v in variables]
    assert names == [v.name for v in plain.trainable_variables]
    x = ops.convert_to_tensor(random(shape))
    sign = keras_lab.ops.sign_activation if input_quantizer else lambda x: x
    ours = gradients_of(
        lambda x: ops.sum(layer(x) ** 2), [x], [*variables, *alphas]
    )
    keras_ = gradients_of(
        lambda x: ops.sum(plain(sign(x)) ** 2), [x], plain.trainable_variables
    )
    assert_same(ours[: len(keras_)], keras_)
    for gradient in ours[len(keras_) :]:
        assert np.all(np.asarray(gradient) == 0)
    for alpha in alphas:
        assert alpha.trainable is backend.SCALE_IS_TRAINABLE


@pytest.mark.parametrize(
    ("case", "quantizer"),
    [
        *(("dense", quantizer) for quantizer in QUANTIZERS.values()),
        *((case, QUANTIZERS["lab_channel"]) for case in CASES),
    ],
)
def test_a_training_step_moves_the_weights_and_keeps_alpha_true(
    case, quantizer, tmp_path
):
    """And the model comes back from its file."""
    model = model_of(case, kernel_quantizer=quantizer, input_quantizer="sign")
    layer = model.layers[0]
    # α is among them on JAX, and that of BinaryConnect stays 1.
    moved = [v for v in model.trainable_variables if "alpha" not in v.name]
    before = [v.numpy() for v in moved]
    optimizer = keras_lab.LABAdam(0.01)
    model.compile(optimizer, "mse", **MANY_STEPS)
    x = random((8, *model.input_shape[1:]))
    y = random((8, model.output_shape[1]), 1)
    model.fit(x, y, batch_size=2, verbose=0)
    for old, variable in zip(before, moved):
        assert not np.array_equal(old, variable.numpy())
    for weight in layer.binary_weights.values():
        d = np.asarray(optimizer.curvature(weight.latent))
        expected = alpha_of(weight, d)
        np.testing.assert_allclose(weight.alpha, expected, rtol=1e-5)
    again = saved_and_loaded(model, tmp_path)
    assert again.layers[0].get_config() == layer.get_config()
    assert_same(model.get_weights(), again.get_weights())
    np.testing.assert_array_equal(model(x), again(x))


@each_layer
def test_a_frozen_layer_keeps_its_weights_and_alpha(case):
    model = model_of(case)
    model.add(keras_lab.BinaryDense(3))
    model.layers[0].trainable = False
    before = [w.copy() for w in model.layers[0].get_weights()]
    model.compile(keras_lab.LABAdam(0.01), "mse", **MANY_STEPS)
    x = random((8, *model.input_shape[1:]))
    model.fit(x, random((8, 3), 1), batch_size=2, verbose=0)
    assert_same(before, model.layers[0].get_weights())


def test_latent_weights_are_clipped_by_default():
    inside = keras_lab.BinaryDense(5)
    outside = keras_lab.BinaryDense(5, kernel_constraint=None)
    wide = keras_lab.BinaryDense(
        5, kernel_constraint=keras_lab.constraints.WeightClip(2.0)
    )
    full_precision = keras_lab.BinaryDense(5, kernel_quantizer=None)
    limits = []
    for layer in (inside, outside, wide, full_precision):
        model = sequential((7,), layer)
        model.compile(keras_lab.LABAdam(3.0), "mse", **MANY_STEPS)
        x = random((32, 7))
        model.fit(x, random((32, 5), 1) * 100, verbose=0, epochs=5)
        limits.append(np.abs(layer.kernel.numpy()).max())
    assert limits[0] == 1.0
    assert limits[1] > 2.0
    assert limits[2] == 2.0
    assert limits[3] > 2.0


def test_arguments_keep_the_order_of_the_keras_layer():
    dense = keras_lab.BinaryDense(4, "relu", False)
    assert dense.activation is keras.activations.relu and not dense.use_bias
    conv = keras_lab.BinaryConv2D(4, 3, 2, "same")
    assert conv.strides == (2, 2) and conv.padding == "same"
    lstm = keras_lab.BinaryLSTM(4, "relu", "hard_sigmoid", False)
    assert lstm.activation is keras.activations.relu and not lstm.use_bias
    cell = keras_lab.BinaryGRUCell(4, "relu", "hard_sigmoid", False)
    assert cell.recurrent_activation is keras.activations.hard_sigmoid


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("quantizer", ["lab", None])
def test_a_dense_layer_casts_integers_as_keras_does(rng, dtype, quantizer):
    layer, shape = built("dense", kernel_quantizer=quantizer)
    plain = plain_twin("dense", layer)
    x = rng.integers(0, 9, shape).astype(dtype)
    output = layer(x)
    assert dtype_of(output) == dtype_of(plain(x)) == "float32"
    np.testing.assert_array_equal(output, plain(x))
    assert layer(keras.Input((7,), dtype=dtype)).dtype == "float32"


@pytest.mark.parametrize("case", ["conv1d", "conv2d", "depthwise", "separable"])
def test_a_convolution_refuses_integers_as_keras_does(case):
    layer, shape = built(case)
    x = np.ones(shape, "int32")
    if NAME == "tensorflow":  # JAX takes them.
        with pytest.raises(Exception, match="int32"):
            make(case, "")[0](x)
    with pytest.raises(ValueError, match="Received: inputs of dtype int32"):
        layer(x)


def test_the_sign_of_integers_is_taken_by_every_layer(rng):
    for case in ("dense", "conv2d"):
        layer, shape = built(case, input_quantizer="sign")
        x = rng.integers(-3, 4, shape)
        np.testing.assert_array_equal(layer(x), layer(x.astype("float32")))


def test_other_wrong_things_are_named_too():
    # torch has a message of its own for an attribute that raises.
    for name, has in (("binary_kernel", "kernel"), ("alpha", "pointwise")):
        with pytest.raises(AttributeError, match=f"{has}|no attribute"):
            getattr(built("separable")[0], name)
    with pytest.raises(ValueError, match=r"shape \(0, 3\)"):
        keras_lab.BinaryDense(3).build((None, 0))
    with pytest.raises(ValueError, match="Build it first"):
        np.asarray(keras_lab.BinaryDense(3).binary_kernel)
