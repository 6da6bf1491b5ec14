"""The statements of the paper's Section 3, on random cases."""

import itertools
import math

import keras
import numpy as np
import pytest

from keras_lab import ops
from keras_lab._backend import backend
from tests.keras_lab import oracle
from tests.keras_lab.engine import compiled


def objective(w, d, alpha, b):
    """The proximal objective of Proposition 3.1 up to a constant."""
    return np.sum(d * (alpha * b - w) ** 2)


def random_case(rng, shape):
    w = rng.normal(size=shape) * rng.choice([0.01, 1.0, 30.0])
    d = rng.gamma(0.5, size=shape) + 1e-3
    return w, d


@pytest.mark.parametrize("n", range(1, 11))
def test_proposition_1_no_binary_weight_beats_the_closed_form(rng, n):
    for _ in range(3):
        w, d = random_case(rng, n)
        alpha = float(ops.lab_scale(w, d))
        best = objective(w, d, alpha, oracle.sign(w))
        grid = np.linspace(1e-6, 3 * np.abs(w).max(), 400)[:, None]
        for b in itertools.product([-1.0, 1.0], repeat=n):
            others = np.sum(d * (grid * np.array(b) - w) ** 2, axis=1)
            assert others.min() >= best * (1 - 1e-9)


def test_proposition_1_holds_for_each_channel(rng):
    kernel, curvature = random_case(rng, (7, 4))
    alphas = np.asarray(ops.lab_scale(kernel, curvature, keep=(1,)))
    for alpha, w, d in zip(alphas, kernel.T, curvature.T):
        best = objective(w, d, alpha, oracle.sign(w))
        grid = np.linspace(1e-3, 4, 400)[:, None] * alpha
        for b in itertools.product([-1.0, 1.0], repeat=7):
            others = np.sum(d * (grid * np.array(b) - w) ** 2, axis=1)
            assert others.min() >= best * (1 - 1e-9)


ANY_SHAPE_AND_AXES = pytest.mark.parametrize(
    ("shape", "keep"),
    [
        ((5,), ()),
        ((16, 3), ()),
        ((48, 5), (1,)),
        ((3, 3, 2, 4), (3,)),
        ((3, 3, 2, 4), (2, 3)),
        ((3, 3, 4, 2), (2,)),
        ((32, 4, 6), (1,)),
        ((17, 13), ()),
        ((4, 3), (0, 1)),
        ((4, 3), (1, 0)),
        ((3, 2, 4), (-1, 0)),
    ],
)


@ANY_SHAPE_AND_AXES
def test_scales_equal_the_formula_for_any_shape_and_axes(rng, shape, keep):
    w, d = random_case(rng, shape)
    rank = len(shape)
    axes = tuple(a for a in range(rank) if not {a, a - rank} & {*keep})
    lab = np.sum(d * np.abs(w), axis=axes) / np.sum(d, axis=axes)
    lazy = ops.Elementwise(lambda x: keras.ops.sqrt(x), d**2)
    np.testing.assert_allclose(ops.lab_scale(w, d, keep), lab, rtol=1e-12)
    np.testing.assert_allclose(ops.lab_scale(w, lazy, keep), lab, rtol=1e-12)
    np.testing.assert_allclose(
        ops.bwn_scale(w, keep), np.mean(np.abs(w), axis=axes), rtol=1e-12
    )
    one = np.asarray(ops.binary_connect_scale(w, keep))
    np.testing.assert_array_equal(one, np.ones(lab.shape))
    aligned = np.asarray(ops.align_scale(one, rank, keep))
    assert np.broadcast_shapes(aligned.shape, shape) == shape


@ANY_SHAPE_AND_AXES
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_compiled_scale_equals_the_formula(rng, shape, keep, dtype):
    # Compiled, both sums are computed in one pass.
    w, d = (keras.ops.cast(x, dtype) for x in random_case(rng, shape))
    found = compiled(lambda w, d: ops.lab_scale(w, d, keep))(w, d)
    w, d = (np.asarray(keras.ops.cast(x, "float32"), "float64") for x in (w, d))
    rank = len(shape)
    axes = tuple(a for a in range(rank) if not {a, a - rank} & {*keep})
    lab = np.sum(d * np.abs(w), axis=axes) / np.sum(d, axis=axes)
    found = keras.ops.convert_to_numpy(keras.ops.cast(found, "float32"))
    tolerance = 1e-6 if dtype == "float32" else 0.05
    np.testing.assert_allclose(found, lab, rtol=tolerance)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("keep", [(), (0,), (1,), (0, 1)])
def test_the_mean_of_no_weights_is_not_a_number(shape, keep):
    w = np.ones(shape, "float32")
    count = math.prod(n for axis, n in enumerate(shape) if axis not in keep)
    lengths = [shape[axis] for axis in keep]
    expected = np.full(lengths, 1.0 if count else np.nan)
    for scale in (ops.lab_scale(w, w, keep), ops.bwn_scale(w, keep)):
        np.testing.assert_array_equal(scale, expected)


def test_remark_1_uniform_curvature_gives_bwn(rng):
    w, _ = random_case(rng, (20, 3))
    for curvature in (1e-8, 1.0, 1e6):
        d = np.full_like(w, curvature)
        np.testing.assert_allclose(
            ops.lab_scale(w, d), ops.bwn_scale(w), rtol=1e-12
        )


def test_remark_2_a_scale_of_one_gives_binary_connect(rng):
    w, _ = random_case(rng, (20, 3))
    scale = ops.binary_connect_scale(keras.ops.convert_to_tensor(w))
    binary = ops.binarize(keras.ops.convert_to_tensor(w), scale)
    np.testing.assert_array_equal(binary, oracle.sign(w))


def test_the_scale_does_not_change_with_the_unit_of_the_curvature(rng):
    w, d = random_case(rng, (50,))
    np.testing.assert_allclose(
        ops.lab_scale(w, d * 1e7), ops.lab_scale(w, d), rtol=1e-12
    )


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 3), (5, 17), (64, 64)])
def test_proposition_2_the_largest_singular_value_is_at_least_sqrt_n(rng, m, n):
    for _ in range(20):
        w = np.asarray(ops.sign(rng.normal(size=(m, n))))
        assert np.linalg.svd(w, compute_uv=False)[0] >= np.sqrt(n) * (1 - 1e-12)


def test_theorem_1_the_loss_falls_and_converges_where_d_exceeds_beta(rng):
    n = 12
    a = rng.normal(size=(n, n))
    hessian = a @ a.T
    beta = np.linalg.eigvalsh(hessian)[-1]
    target = rng.normal(size=n)

    def loss(w):
        return 0.5 * (w - target) @ hessian @ (w - target)

    d = beta * (1.01 + rng.random(n))
    binary = 0.3 * oracle.sign(rng.normal(size=n))
    losses = [loss(binary)]
    for _ in range(300):
        w = binary - hessian @ (binary - target) / d
        alpha = ops.lab_scale(w, d)
        binary = np.asarray(ops.binarize(keras.ops.convert_to_tensor(w), alpha))
        losses.append(loss(binary))
    assert np.all(np.diff(losses) <= 1e-9 * losses[0])
    assert losses[-2] - losses[-1] <= 1e-9 * losses[0]
    assert losses[-1] < losses[0]


def test_sign_of_zero_is_plus_one_and_a_nan_stays():
    x = np.array([-2.0, -0.0, 0.0, 1e-37, -1e-37, np.nan], "float32")
    expected = np.array([-1, 1, 1, 1, -1, np.nan], "float32")
    np.testing.assert_array_equal(
        ops.sign(keras.ops.convert_to_tensor(x)), expected
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_forward_value_is_exactly_plus_or_minus_alpha(rng, dtype):
    w = keras.ops.convert_to_tensor(rng.normal(size=(30, 30)).astype("float32"))
    alpha = keras.ops.cast(0.1234567, dtype)
    binary = ops.binarize(w, alpha)
    assert binary.dtype == alpha.dtype
    expected = np.where(to_float(w) >= 0, to_float(alpha), -to_float(alpha))
    np.testing.assert_array_equal(to_float(binary), expected)


def test_only_a_weight_that_is_at_least_zero_is_plus_alpha():
    w = np.array([0.0, -0.0, np.inf, -np.inf], "float32")
    alpha = keras.ops.convert_to_tensor(np.float32(0.3))
    binary = ops.binarize(keras.ops.convert_to_tensor(w), alpha)
    signs = np.array([1, 1, 1, -1])
    np.testing.assert_array_equal(binary, np.float32(0.3) * signs)


def to_float(x):
    # NumPy has no bfloat16; float64 holds every value of every type.
    return keras.ops.convert_to_numpy(keras.ops.cast(x, "float64"))


def test_the_gradient_at_w_is_the_gradient_at_the_binary_weight(rng):
    w = keras.Variable(rng.normal(size=(6, 5)).astype("float32") * 3)
    alpha = keras.Variable(0.37)
    upstream = rng.normal(size=(6, 5)).astype("float32")

    def loss():
        binary = ops.binarize(w.value, alpha.value)
        return keras.ops.sum(binary * keras.ops.convert_to_tensor(upstream))

    to_w, to_alpha = backend.gradients(loss, [w, alpha])
    np.testing.assert_array_equal(to_w, upstream)
    assert to_alpha is None or float(to_alpha) == 0


def test_the_gradient_of_a_sign_activation_passes_up_to_one():
    x = keras.Variable([-1.5, -1.0, -0.3, 0.0, 1.0, 1.0001])
    factors = keras.ops.convert_to_tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    (gradient,) = backend.gradients(
        lambda: keras.ops.sum(ops.sign_activation(x.value) * factors), [x]
    )
    y = keras.ops.convert_to_numpy(ops.sign_activation(x.value))
    np.testing.assert_array_equal(y, [-1, -1, -1, 1, 1, 1])
    np.testing.assert_array_equal(gradient, [0, 2, 3, 4, 5, 0])


@pytest.mark.parametrize("keep", [(), (1,)])
@pytest.mark.parametrize("shape", [(20_000, 4), (1024, 1024)])
@pytest.mark.parametrize("run", [compiled, lambda function: function])
def test_the_scale_of_equal_weights_keeps_its_digits(run, shape, keep):
    w = keras.ops.convert_to_tensor(np.full(shape, 1 / 3, "float32"))
    d = keras.ops.convert_to_tensor(np.full(shape, 0.3, "float32"))
    for scale in (
        run(lambda w, d: ops.lab_scale(w, d, keep))(w, d),
        run(lambda w: ops.bwn_scale(w, keep))(w),
    ):
        found = keras.ops.convert_to_numpy(scale)
        np.testing.assert_allclose(found, np.float32(1 / 3), rtol=2e-6)
