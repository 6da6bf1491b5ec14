"""One contract that every binary layer keeps."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_lab
from keras_lab._backend import backend
from keras_lab.quantizers import BWN, LAB, BinaryConnect
from tests.keras_lab.engine import (
    MANY_STEPS,
    NAME,
    compiled,
    dtype_of,
    gradients_of,
)

# name: (Keras layer, positional arguments, input shape)
CASES = {
    "dense": ("Dense", (5,), (7,)),
    "dense_3d": ("Dense", (5,), (3, 7)),
    "einsum": ("EinsumDense", ("abc,cde->abde", (3, 2, 3)), (3, 7)),
    "conv1d": ("Conv1D", (4, 3), (9, 2)),
    "conv2d": ("Conv2D", (4, 3), (8, 7, 2)),
    "conv3d": ("Conv3D", (4, 2), (4, 5, 6, 2)),
    "depthwise": ("DepthwiseConv2D", (3,), (8, 7, 3)),
    "separable": ("SeparableConv2D", (4, 3), (8, 7, 3)),
    "transpose": ("Conv2DTranspose", (4, 3), (8, 7, 2)),
}
OPTIONS = [
    ("dense", {"activation": "relu", "use_bias": False}),
    ("conv1d", {"padding": "causal", "dilation_rate": 2}),
    ("conv1d", {"strides": 2, "padding": "same", "activation": "tanh"}),
    ("conv2d", {"strides": (2, 1), "padding": "same", "use_bias": False}),
    ("conv2d", {"dilation_rate": 2, "groups": 2, "activation": "relu"}),
    ("conv3d", {"strides": 2, "padding": "same"}),
    ("depthwise", {"depth_multiplier": 2, "strides": 2, "padding": "same"}),
    ("depthwise", {"dilation_rate": 2}),
    ("separable", {"depth_multiplier": 2, "activation": "relu"}),
    ("transpose", {"strides": 2, "padding": "same", "output_padding": 1}),
    ("transpose", {"strides": 3, "use_bias": False}),
    ("conv2d", {"data_format": "channels_first", "padding": "same"}),
    ("depthwise", {"data_format": "channels_first", "strides": 2}),
    ("separable", {"data_format": "channels_first"}),
]
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


def pair(case, name):
    """Of the slow tests, each layer and each quantizer runs by default."""
    fast = case == "dense" or name == "lab_channel"
    marks = () if fast else pytest.mark.slow
    return pytest.param(case, QUANTIZERS[name], marks=marks)


each_pair = pytest.mark.parametrize(
    ("case", "quantizer"),
    [pair(case, name) for case in CASES for name in QUANTIZERS],
)


def make(case, **options):
    name, arguments, shape = CASES[case]
    layer = getattr(keras_lab, f"Binary{name}")(*arguments, **options)
    return layer, (2, *shape)


def built(case, **options):
    layer, shape = make(case, **options)
    layer.build(shape)
    return layer, shape


def random_input(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def model_of(case, **options):
    layer, shape = make(case, **options)
    return keras.Sequential(
        [keras.Input(shape[1:]), layer, keras.layers.Flatten()]
    )


def plain_twin(case, layer, **options):
    """The layer of Keras with the weights of our forward pass."""
    name, arguments, shape = CASES[case]
    plain = getattr(keras.layers, name)(*arguments, **options)
    plain.build((2, *shape))
    for weight in plain.weights:
        binary = layer.binary_weights.get(weight.name)
        weight.assign(binary.value() if binary else getattr(layer, weight.name))
    return plain


@each_layer
@each_quantizer
def test_the_forward_weight_has_one_magnitude_for_each_alpha(case, quantizer):
    layer, _ = built(case, kernel_quantizer=quantizer)
    assert layer.binary_weights
    for weight in layer.binary_weights.values():
        magnitudes = np.unique(np.abs(weight.value()))
        np.testing.assert_array_equal(
            magnitudes, np.unique(weight.alpha.numpy())
        )
        if weight.quantizer.scale == "tensor":
            assert magnitudes.size == 1
        signs = np.where(weight.latent.numpy() >= 0, 1, -1)
        np.testing.assert_array_equal(np.sign(weight.value()), signs)


@each_layer
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_the_forward_weight_is_two_valued_in_mixed_precision(case, policy):
    layer, shape = built(case, dtype=policy)
    layer_input = random_input(shape)
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


@each_layer
def test_with_full_precision_it_is_the_keras_layer(case):
    check_equals_keras(case, {}, kernel_quantizer=None)


@pytest.mark.parametrize(("case", "options"), OPTIONS)
@pytest.mark.parametrize("quantizer", [None, "lab", LAB(scale="channel")])
def test_with_every_option_it_is_the_keras_layer_of_the_binary_weight(
    case, options, quantizer
):
    check_equals_keras(case, options, kernel_quantizer=quantizer)


def check_equals_keras(case, options, **binary_options):
    layer, shape = built(case, **options, **binary_options)
    plain = plain_twin(case, layer, **options)
    x = random_input(shape)
    # Only XLA has convolutions with channels first on a CPU.
    jit_compile = options.get("data_format") == "channels_first"
    output = compiled(layer, jit_compile)(x)
    expected = compiled(plain, jit_compile)(x)
    np.testing.assert_array_equal(output, expected)
    assert tuple(layer.compute_output_shape(shape)) == tuple(output.shape)


@each_layer
@each_quantizer
def test_alpha_starts_at_the_scale_of_a_uniform_curvature(case, quantizer):
    layer, _ = built(case, kernel_quantizer=quantizer)
    for weight in layer.binary_weights.values():
        expected = expected_alpha(weight, None)
        np.testing.assert_allclose(weight.alpha, expected, rtol=1e-6)


def test_one_alpha_per_output_channel_has_its_shape():
    shapes = {
        "dense": (5,),
        "einsum": (2, 3),
        "conv2d": (4,),
        "depthwise": (3, 1),
        "transpose": (4,),
    }
    for case, shape in shapes.items():
        layer, _ = built(case, kernel_quantizer=LAB(scale="channel"))
        assert layer.alpha.shape == shape


@each_layer
@each_quantizer
def test_config_brings_back_the_same_layer(case, quantizer):
    layer, _ = make(case, kernel_quantizer=quantizer, input_quantizer="sign")
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert type(again.kernel_quantizer) is type(layer.kernel_quantizer)


@each_pair
def test_a_saved_model_comes_back_with_weights_and_alpha(
    case, quantizer, tmp_path
):
    model = model_of(case, kernel_quantizer=quantizer)
    model.compile(keras_lab.LABAdam(0.01), "mse", **MANY_STEPS)
    x = random_input((4, *model.input_shape[1:]))
    model.fit(x, random_input((4, model.output_shape[1]), 1), verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    for old, new in zip(model.get_weights(), again.get_weights()):
        np.testing.assert_array_equal(old, new)
    np.testing.assert_array_equal(model(x), again(x))


def test_a_file_of_another_layer_is_refused_with_the_names(tmp_path):
    model = keras.Sequential([keras.Input((7,)), keras_lab.BinaryDense(5)])
    model.save_weights(tmp_path / "model.weights.h5")
    other = keras.Sequential(
        [keras.Input((7,)), keras_lab.BinaryDense(5, use_bias=False)]
    )
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
    x = ops.convert_to_tensor(random_input(shape))
    sign = keras_lab.ops.sign_activation if input_quantizer else lambda x: x
    ours = gradients_of(
        lambda x: ops.sum(layer(x) ** 2), [x], [*variables, *alphas]
    )
    keras_ = gradients_of(
        lambda x: ops.sum(plain(sign(x)) ** 2), [x], plain.trainable_variables
    )
    for a, b in zip(ours, keras_):
        np.testing.assert_array_equal(a, b)
    for gradient in ours[len(keras_) :]:
        assert np.all(np.asarray(gradient) == 0)
    for alpha in alphas:
        assert alpha.trainable is backend.SCALE_IS_TRAINABLE


@each_pair
def test_a_training_step_moves_the_weights_and_keeps_alpha_true(
    case, quantizer
):
    model = model_of(case, kernel_quantizer=quantizer)
    layer = model.layers[0]
    # α is among them on JAX, and that of BinaryConnect stays 1.
    moved = [v for v in model.trainable_variables if "alpha" not in v.name]
    before = [v.numpy() for v in moved]
    optimizer = keras_lab.LABAdam(0.01)
    model.compile(optimizer, "mse", **MANY_STEPS)
    x = random_input((8, *model.input_shape[1:]))
    y = random_input((8, model.output_shape[1]), 1)
    model.fit(x, y, batch_size=2, verbose=0)
    for old, variable in zip(before, moved):
        assert not np.array_equal(old, variable.numpy())
    for weight in layer.binary_weights.values():
        expected = expected_alpha(weight, optimizer)
        np.testing.assert_allclose(weight.alpha, expected, rtol=1e-5)


def expected_alpha(weight, optimizer):
    w = np.abs(weight.latent.numpy().astype("float64"))
    axes = tuple(a for a in range(w.ndim) if a not in weight.keep)
    if isinstance(weight.quantizer, BinaryConnect):
        return np.ones(weight.alpha.shape)
    if isinstance(weight.quantizer, BWN) or optimizer is None:
        return w.mean(axis=axes)
    d = np.asarray(optimizer.curvature(weight.latent), "float64")
    return np.sum(d * w, axis=axes) / np.sum(d, axis=axes)


@each_layer
def test_a_frozen_layer_keeps_its_weights_and_alpha(case):
    model = model_of(case)
    model.add(keras_lab.BinaryDense(3))
    model.layers[0].trainable = False
    before = [w.copy() for w in model.layers[0].get_weights()]
    model.compile(keras_lab.LABAdam(0.01), "mse", **MANY_STEPS)
    x = random_input((8, *model.input_shape[1:]))
    model.fit(x, random_input((8, 3), 1), batch_size=2, verbose=0)
    for old, new in zip(before, model.layers[0].get_weights()):
        np.testing.assert_array_equal(old, new)


def test_latent_weights_are_clipped_by_default():
    inside = keras_lab.BinaryDense(5)
    outside = keras_lab.BinaryDense(5, kernel_constraint=None)
    wide = keras_lab.BinaryDense(
        5, kernel_constraint=keras_lab.constraints.WeightClip(2.0)
    )
    full_precision = keras_lab.BinaryDense(5, kernel_quantizer=None)
    limits = []
    for layer in (inside, outside, wide, full_precision):
        model = keras.Sequential([keras.Input((7,)), layer])
        model.compile(keras_lab.LABAdam(3.0), "mse", **MANY_STEPS)
        x = random_input((32, 7))
        model.fit(x, random_input((32, 5), 1) * 100, verbose=0, epochs=5)
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


def test_a_regularizer_acts_on_the_latent_weight():
    layer, _ = built("dense", kernel_regularizer=keras.regularizers.L2(0.5))
    expected = 0.5 * np.sum(layer.kernel.numpy() ** 2)
    np.testing.assert_allclose(layer.losses[0], expected, rtol=1e-6)


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
    name, arguments, _ = CASES[case]
    x = np.ones(shape, "int32")
    if NAME == "tensorflow":  # JAX takes them.
        with pytest.raises(Exception, match="int32"):
            getattr(keras.layers, name)(*arguments)(x)
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
