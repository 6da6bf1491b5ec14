"""The statistics of binary weights are those that NumPy computes."""

import keras
import numpy as np
import pytest

import keras_lab
from keras_lab.analysis.measurements import (
    QUANTITIES,
    parse_quantity,
    parts_of,
)
from keras_lab.callbacks import BinaryMonitor
from tests.keras_lab.callbacks.support import data, measured, network


def test_flips_are_exactly_the_share_of_signs_that_were_flipped(rng):
    model = network()
    kernel = model.get_layer("dense_1").kernel
    w = rng.normal(size=kernel.shape).astype("float32")
    w[0, :3] = 0  # The sign of zero is +, as in the forward pass.
    kernel.assign(w)

    def flip():
        changed = w.copy()
        changed.ravel()[rng.choice(w.size, 37, replace=False)] *= -1
        assert np.sum((changed >= 0) != (w >= 0)) in range(34, 38)
        changed[0, :3] = [1, 0, -1]
        flip.count = np.sum((changed >= 0) != (w >= 0))
        kernel.assign(changed)

    logs = measured(model, flip)
    assert logs["dense_1/flips"] == flip.count / w.size
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
    model = keras.Sequential([keras.Input((50,)), layer, free])
    w = np.clip(rng.normal(size=(50, 7)), -0.3, 0.3).astype("float32")
    layer.kernel.assign(w)
    layer.binary_weights["kernel"].refresh()
    logs = measured(model, near_zero=0.25)
    alpha = layer.alpha.numpy()
    assert logs["clipped/clipped"] == np.mean(np.abs(w) >= np.float32(0.3))
    assert 0 < logs["clipped/clipped"] < 1
    assert logs["clipped/near_zero"] == np.mean(np.abs(w) < 0.25 * alpha)
    assert 0 < logs["clipped/near_zero"] < 1
    assert "free/clipped" not in logs and "free/near_zero" in logs
    np.testing.assert_allclose(logs["clipped/alpha"], alpha.mean(), rtol=1e-6)


def test_curvature_and_error_are_those_of_numpy():
    model = network()
    monitor = BinaryMonitor(log_quantities="all")
    logs = model.fit(*data(), verbose=0, callbacks=[monitor]).history
    layer = model.get_layer("dense_1")
    d = model.optimizer.curvature(layer.kernel).numpy().astype("float64")
    for name in ("min", "median", "max"):
        expected = getattr(np, name)(d)
        np.testing.assert_allclose(
            logs[f"dense_1/d_{name}"], expected, rtol=1e-5
        )
    w = layer.kernel.numpy().astype("float64")
    off = w - layer.binary_kernel.numpy()
    error = np.sqrt(np.sum(d * off**2) / np.sum(d * w**2))
    np.testing.assert_allclose(logs["dense_1/error"], error, rtol=1e-5)


def test_at_a_learning_rate_of_zero_the_error_is_known_and_d_is_not():
    model = network()
    model.fit(*data(), verbose=0)
    before = measured(model)
    model.optimizer.learning_rate = 0.0
    after = measured(model)
    assert after["dense_1/error"] == before["dense_1/error"]
    assert np.isnan(after["dense_1/d_median"])


def test_without_a_curvature_its_columns_are_empty():
    model = network(keras.optimizers.SGD(0.01))
    monitor = BinaryMonitor()
    with pytest.warns(UserWarning, match="BWN"):
        model.fit(*data(), verbose=0, callbacks=[monitor])
    row = monitor.history[0]
    assert row["d_min"] is row["d_median"] is row["d_max"] is None
    w = model.get_layer("dense_1").kernel.numpy()
    off = np.abs(w) - np.mean(np.abs(w))
    error = np.linalg.norm(off) / np.linalg.norm(w)
    np.testing.assert_allclose(row["error"], error, rtol=1e-5)


def test_a_weight_that_is_not_trained_has_no_curvature():
    model = network()
    model.get_layer("dense_1").trainable = False
    model.compile(keras_lab.LABAdam(0.01), "squared_hinge", jit_compile=False)
    model.fit(*data(), verbose=0)
    logs = measured(model)
    assert "dense_1/d_min" not in logs and "dense_2/d_min" in logs
    assert logs["dense_1/flips"] == 0


def test_a_recurrent_weight_has_an_entry_for_each_gate(rng):
    layer = keras_lab.BinaryLSTM(5, name="lstm")
    model = keras.Sequential([keras.Input((4, 3)), layer])
    cell = layer.cell
    kernel = cell.recurrent_kernel

    def flip_two_of_the_forget_gate():
        w = kernel.numpy()
        w[1, 5:7] *= -1
        kernel.assign(w)

    logs = measured(model, flip_two_of_the_forget_gate)
    for number, gate in enumerate("ifco"):
        assert logs[f"lstm/alpha_{gate}"] == cell.alpha.numpy()[number]
        recurrent = cell.recurrent_alpha.numpy()[number]
        assert logs[f"lstm/recurrent_alpha_{gate}"] == recurrent
        flips = 2 / 25 if gate == "f" else 0
        assert logs[f"lstm/recurrent_flips_{gate}"] == flips


def test_nested_and_shared_layers_have_unique_names():
    def block(name):
        inputs = keras.Input((4,))
        dense = keras_lab.BinaryDense(4, name="dense")
        return keras.Model(inputs, dense(inputs), name=name)

    inputs = keras.Input((4,))
    shared = keras_lab.BinaryDense(4, name="dense")
    x = shared(shared(block("left")(inputs)))
    model = keras.Model(inputs, block("right")(x))
    names = {n for n in measured(model) if n.endswith("alpha")}
    assert names == {"dense/alpha", "left/dense/alpha", "right/dense/alpha"}


def test_the_name_in_the_logs_leads_back_to_the_weight():
    layers = [
        keras_lab.BinaryLSTM(3, name="lstm", return_sequences=True),
        keras_lab.BinaryGRU(3, name="gru"),
        keras_lab.BinaryDense(3, name="error_alpha"),
    ]
    model = keras.Sequential([keras.Input((4, 2)), *layers])
    for part in parts_of(model):
        for name in QUANTITIES:
            assert parse_quantity(part.quantity(name)) == (name, part.name)
    assert parse_quantity("val_loss") is None
