"""The file is compared with the given model, and what that means."""

import keras
import numpy as np
import pytest
from keras import layers

from tests.tflite_export.models import (
    conv,
    dense,
    lstm,
    net,
    norm,
    rnn,
    sign,
)
from tests.tflite_export.support import (
    FORMATS,
    change_files,
    change_sign_bits,
    mostly_slow,
    slow_param,
)
from tflite_export import (
    ConversionError,
    ValidationError,
    export_tflite,
    inspect,
    run,
)
from tflite_export.validate import compare


@pytest.mark.parametrize(
    ("size", "actual", "max_error"), [(1e-6, -1e-6, 2), (0, 1e-3, 1e-9)]
)
def test_an_output_is_compared_by_its_own_size_unless_it_is_zero(
    size, actual, max_error
):
    large = np.full((2, 3), 1e6)
    result = compare(
        {"large": large, "small": np.full((2, 3), size)},
        {"large": large, "small": np.full((2, 3), actual)},
        "runtime",
        "given",
    )
    assert result.max_error == pytest.approx(max_error)
    assert np.isfinite(result.relative_error)


@keras.saving.register_keras_serializable("tests")
class Annealed(layers.Layer):
    """A layer with a state that is neither in its config nor its weights."""

    temperature = 1.0

    def call(self, x):
        return keras.ops.tanh(self.temperature * x)


@pytest.mark.parametrize("format", ["packed", slow_param("float")])
def test_a_state_that_is_not_in_the_config_is_an_error(tmp_path, format):
    """A difference of a few percent is not taken for rounding."""
    layer = Annealed(name="annealed")
    layer.temperature = 1.05
    model = net((8,), dense(6), layer)()
    with pytest.raises(ConversionError, match="`get_config`: 'annealed' is"):
        export_tflite(model, tmp_path / "m.tflite", format)
    assert not list(tmp_path.iterdir())


def test_a_stateful_model_is_compared_before_its_states_are_inputs(path):
    annealed = Annealed(name="annealed")
    model = net((4, 6), lstm(5, stateful=True), annealed, batch_size=3)()
    model(np.ones((3, 4, 6), "f"))
    states = [state.numpy() for state in model.layers[0].states]
    export_tflite(model, path, "packed_float")
    annealed.temperature = 1.05
    with pytest.raises(ConversionError, match="'annealed' is a layer"):
        export_tflite(model, path, "packed_float")
    for state, value in zip(model.layers[0].states, states):
        assert np.any(value)
        np.testing.assert_array_equal(state, value)


def test_the_difference_may_be_on_the_last_sample_only(path):
    """`relu(x) + annealed(x − 9)` differs where an input is large."""

    @keras.saving.register_keras_serializable("tests")
    class Late(Annealed):
        def call(self, x):
            return x + self.temperature * keras.ops.relu(x - 9)

    late = Late(name="late")
    late.temperature = 2.0
    model = net((8,), late, dense(6))()
    x = np.ones((300, 8), "f")
    x[-1] = 20
    with pytest.raises(ConversionError, match="'late' is a layer"):
        export_tflite(model, path, validation_data=x)


@pytest.mark.parametrize(
    "policy",
    ["mixed_float16", slow_param("mixed_bfloat16")],
)
def test_mixed_precision_is_compared_in_float32(path, rng, policy):
    options = {"dtype": policy}
    model = net((32,), dense(64, **options), dense(6, **options))()
    x = rng.normal(size=(20, 32)).astype("f")
    before = np.asarray(model(x))
    report = export_tflite(model, path, "packed_float", validation_data=x)
    assert report.agreement.computed_in == "float32"
    assert "with Keras in float32 on 20 given inputs" in str(report)
    assert report.agreement.relative_error < 1e-5
    # The given model is as it was.
    assert [layer.dtype_policy.name for layer in model.layers] == [policy] * 2
    np.testing.assert_array_equal(model(x), before)
    (y,) = run(path, x).values()
    error = np.linalg.norm(y - before) / np.linalg.norm(before)
    assert 1e-4 < error < 0.05


@pytest.mark.parametrize(
    "policy",
    ["float64", *(slow_param(name) for name in ("float16", "bfloat16"))],
)
def test_variables_of_any_float_type_are_cast_to_float32(path, policy):
    """A convolution takes no weights of another type than its inputs."""
    options = {"dtype": policy}
    model = net((6, 6, 2), conv(3, 3, **options), dense(3, **options))()
    report = export_tflite(model, path, "packed_float")
    assert report.agreement.computed_in == "float32" and not report.not_packed
    assert report.agreement.relative_error < 1e-5
    assert {layer.dtype_policy.name for layer in model.layers} == {policy}


UNTRAINED = {
    "dense": net(
        (64,),
        dense(128, **sign),
        norm,
        dense(128, **sign),
        norm,
        dense(64, **sign),
        dense(10, **sign),
    ),
    "conv": net(
        (10, 10, 3),
        conv(16, 3),
        norm,
        conv(16, 3, **sign),
        norm,
        layers.Flatten,
        dense(10, **sign),
    ),
}


@pytest.mark.parametrize("case", mostly_slow(UNTRAINED, ["dense"]))
@pytest.mark.parametrize("format", mostly_slow(FORMATS, ["packed"]))
def test_ties_before_a_sign_are_counted_and_not_errors(path, case, format):
    """A sum of ±α that is zero up to rounding has no sign of its own."""
    keras.utils.set_random_seed(0)
    model = UNTRAINED[case]()
    report = export_tflite(model, path, format)
    agreement = report.agreement
    assert 0.005 < agreement.ties < 0.2 and agreement.relative_error < 1e-5
    assert f"{agreement.ties:.2%} of the values before a sign" in str(report)
    assert inspect(path).file_bytes == report.file_bytes


@pytest.mark.parametrize("quantizer", ["binary_connect", slow_param("lab")])
def test_sums_of_signs_without_an_offset_are_those_of_keras(path, quantizer):
    """Many of them are zero, and sign(0) = +1."""
    keras.utils.set_random_seed(0)
    options = {"kernel_quantizer": quantizer, "use_bias": False, **sign}
    model = net((16,), *(dense(64, **options) for _ in range(3)))()
    x = np.random.default_rng(0).normal(size=(32, 16)).astype("float32")
    report = export_tflite(model, path, "fast", validation_data=x)
    (y,) = run(path, x).values()
    np.testing.assert_allclose(y, model(x), atol=1e-4)
    assert not report.agreement.ties


def test_ties_do_not_hide_a_state_that_is_not_in_the_config(path):
    keras.utils.set_random_seed(0)
    annealed = Annealed(name="annealed")
    annealed.temperature = 1.02
    model = UNTRAINED["dense"]()
    model.add(annealed)
    with pytest.raises((ConversionError, ValidationError)):
        export_tflite(model, path, "packed", tolerance=0.002)
    x = np.random.default_rng(0).normal(size=(8, 64)).astype("float32")
    report = export_tflite(
        model, path, "packed", tolerance=2, validation_data=x
    )
    (y,) = run(path, x).values()
    error = np.linalg.norm(y - model(x)) / np.linalg.norm(model(x))
    assert report.agreement.relative_error == pytest.approx(error, rel=1e-3)


def test_a_wrong_sign_that_is_no_tie_is_an_error(path, monkeypatch):
    def change(flat):
        # The first 100 words.
        change_sign_bits(flat, lambda w: np.append(w[:100] ^ 0x7FFF, w[100:]))

    keras.utils.set_random_seed(0)
    change_files(monkeypatch, change)
    with pytest.raises(ValidationError, match="zero up to rounding"):
        export_tflite(UNTRAINED["dense"](), path, "packed")


def test_ties_in_a_loop_are_named_as_the_cause(path):
    keras.utils.set_random_seed(0)
    signs = rnn(16, binarize_inputs=True, **sign)
    model = net((6, 8), signs, dense(6, **sign))()
    with pytest.raises(ValidationError, match="values before a sign are zero"):
        export_tflite(model, path, "packed_float")
