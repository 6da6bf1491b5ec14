"""The statistics of binary weights are those that NumPy computes."""

import keras
import numpy as np
import pytest

import keras_lab
from keras_lab.callbacks import BinaryMonitor
from tests.keras_lab.callbacks.support import data, network
from tests.keras_lab.support import sequential


def measured(model, change=lambda: None, **options):
    """The logs of one epoch, in which `change` is all that happens."""
    monitor = BinaryMonitor(log_quantities="all", **options)
    monitor.set_model(model)
    monitor.on_train_begin()
    monitor.on_epoch_begin(0)
    change()
    logs = {}
    monitor.on_epoch_end(0, logs)
    return logs


def test_flips_are_exactly_the_share_of_signs_that_were_flipped(rng):
    model = network()
    kernel = model.get_layer("dense_1").kernel
    w = rng.normal(size=kernel.shape).astype("float32")
    changed = w * rng.choice([1, -1], size=w.shape)
    # The sign of zero is +, as in the forward pass.
    w[0, :3], changed[0, :3] = 0, [1, 0, -1]
    kernel.assign(w)
    logs = measured(model, lambda: kernel.assign(changed))
    assert logs["dense_1/flips"] == np.mean((changed >= 0) != (w >= 0))
    assert logs["dense_2/flips"] == 0


@pytest.mark.parametrize("scale", ["tensor", "channel"])
def test_shares_at_the_clip_and_near_zero_are_those_of_numpy(rng, scale):
    layer = keras_lab.BinaryDense(
        7,
        kernel_quantizer=keras_lab.LAB(scale=scale),
        kernel_constraint=keras_lab.constraints.WeightClip(0.3),
        name="clipped",
    )
    free = keras_lab.BinaryDense(3, kernel_constraint=None, name="free")
    model = sequential((50,), layer, free)
    w = np.clip(rng.normal(size=(50, 7)), -0.3, 0.3).astype("float32")
    layer.kernel.assign(w)
    layer.binary_weights["kernel"].refresh()
    logs = measured(model, near_zero=0.25)
    alpha = layer.alpha.numpy()
    assert logs["clipped/clipped"] == np.mean(np.abs(w) >= np.float32(0.3))
    assert logs["clipped/near_zero"] == np.mean(np.abs(w) < 0.25 * alpha)
    assert 0 < logs["clipped/clipped"] < 1 > logs["clipped/near_zero"] > 0
    assert "free/clipped" not in logs and "free/near_zero" in logs
    np.testing.assert_allclose(logs["clipped/alpha"], alpha.mean(), rtol=1e-6)


def test_curvature_and_error_are_those_of_numpy():
    model = network()
    model.fit(*data(), verbose=0)
    logs = measured(model)
    layer = model.get_layer("dense_1")
    d = model.optimizer.curvature(layer.kernel)
    d = keras.ops.convert_to_numpy(d).astype("float64")
    for name in ("min", "median", "max"):
        expected = getattr(np, name)(d)
        assert logs[f"dense_1/d_{name}"] == pytest.approx(expected, rel=1e-5)
    w = layer.kernel.numpy().astype("float64")
    off = w - keras.ops.convert_to_numpy(layer.binary_kernel)
    error = np.sqrt(np.sum(d * off**2) / np.sum(d * w**2))
    assert logs["dense_1/error"] == pytest.approx(error, rel=1e-5)
    # At a learning rate of zero, d is infinite. The error is still known.
    model.optimizer.learning_rate = 0.0
    after = measured(model)
    assert after["dense_1/error"] == logs["dense_1/error"]
    assert np.isnan(after["dense_1/d_median"])


def test_without_a_curvature_the_error_is_that_of_a_uniform_one():
    model = network(keras.optimizers.SGD(0.01))
    with pytest.warns(UserWarning, match="BWN"):
        model.fit(*data(), verbose=0)
    logs = measured(model)
    # Nor does it have one before its first step.
    for each in (logs, measured(network())):
        assert not any("/d_" in name for name in each)
    w = model.get_layer("dense_1").kernel.numpy()
    off = np.abs(w) - np.mean(np.abs(w))
    error = np.linalg.norm(off) / np.linalg.norm(w)
    assert logs["dense_1/error"] == pytest.approx(error, rel=1e-5)


def test_a_recurrent_weight_has_an_entry_for_each_gate():
    layer = keras_lab.BinaryLSTM(5, name="lstm")
    model = sequential((4, 3), layer)
    cell = layer.cell
    changed = cell.recurrent_kernel.numpy()
    changed[1, 5:7] *= -1  # Two signs of the forget gate.
    logs = measured(model, lambda: cell.recurrent_kernel.assign(changed))
    for number, gate in enumerate("ifco"):
        assert logs[f"lstm/alpha_{gate}"] == cell.alpha.numpy()[number]
        recurrent = cell.recurrent_alpha.numpy()[number]
        assert logs[f"lstm/recurrent_alpha_{gate}"] == recurrent
        flips = 2 / 25 if gate == "f" else 0
        assert logs[f"lstm/recurrent_flips_{gate}"] == flips
