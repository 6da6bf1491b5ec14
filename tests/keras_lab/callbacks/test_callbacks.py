"""The monitor tells the truth and changes nothing."""

import csv

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_lab
from keras_lab.analysis.history import CSV_COLUMNS, read_history
from keras_lab.analysis.measurements import QUANTITIES
from keras_lab.callbacks import BinaryMonitor


def network(optimizer=None, dropout=0.2, **compile_options):
    """A small network with all that could be disturbed: dropout, batch norm."""
    model = keras.Sequential(
        [
            keras.Input((20,)),
            keras_lab.BinaryDense(16, name="dense_1"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(dropout, seed=3),
            keras_lab.BinaryDense(10, name="dense_2"),
        ]
    )
    optimizer = optimizer or keras_lab.LABAdam(0.01)
    options = {"jit_compile": False, **compile_options}  # XLA takes its time.
    model.compile(optimizer, "squared_hinge", **options)
    return model


def data(samples=96):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(samples, 20)).astype("float32")
    labels = rng.integers(0, 10, (samples, 1))
    return x, np.where(labels == np.arange(10), 1.0, -1.0).astype("float32")


def look(monitor, model, change=lambda: None, epoch=0):
    """The logs of one epoch, in which `change` is all that happens."""
    monitor.set_model(model)
    monitor.on_train_begin()
    monitor.on_epoch_begin(epoch)
    change()
    logs = {}
    monitor.on_epoch_end(epoch, logs)
    return logs


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

    logs = look(BinaryMonitor(), model, flip)
    assert logs["dense_1/flips"] == flip.count / w.size
    assert logs["dense_2/flips"] == 0


def test_alpha_in_the_logs_is_that_of_the_layer_at_that_moment():
    seen = []

    class Watch(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            for name in ("dense_1", "dense_2"):
                alpha = float(self.model.get_layer(name).alpha.numpy())
                seen.append((logs[f"{name}/alpha"], alpha))

    model = network()
    model.fit(
        *data(), epochs=3, verbose=0, callbacks=[BinaryMonitor(), Watch()]
    )
    assert len(seen) == 6 and len(set(seen)) == 6
    assert all(logged == alpha for logged, alpha in seen)


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
    logs = look(BinaryMonitor(near_zero=0.25), model)
    alpha = layer.alpha.numpy()
    assert logs["clipped/clipped"] == np.mean(np.abs(w) >= np.float32(0.3))
    assert 0 < logs["clipped/clipped"] < 1
    assert logs["clipped/near_zero"] == np.mean(np.abs(w) < 0.25 * alpha)
    assert 0 < logs["clipped/near_zero"] < 1
    assert "free/clipped" not in logs and "free/near_zero" in logs
    np.testing.assert_allclose(logs["clipped/alpha"], alpha.mean(), rtol=1e-6)


def test_curvature_and_error_are_those_of_numpy():
    model = network()
    monitor = BinaryMonitor()
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
    before = look(BinaryMonitor(), model)
    model.optimizer.learning_rate = 0.0
    after = look(BinaryMonitor(), model)
    assert after["dense_1/error"] == before["dense_1/error"]
    assert np.isnan(after["dense_1/d_median"])


def test_without_a_curvature_its_columns_are_empty(tmp_path):
    model = network(keras.optimizers.SGD(0.01))
    path = tmp_path / "monitor.csv"
    with pytest.warns(UserWarning, match="BWN"):
        model.fit(*data(), verbose=0, callbacks=[BinaryMonitor(path)])
    row = read_history(path)[0]
    assert row["d_min"] is row["d_median"] is row["d_max"] is None
    w = model.get_layer("dense_1").kernel.numpy()
    off = np.abs(w) - np.mean(np.abs(w))
    error = np.linalg.norm(off) / np.linalg.norm(w)
    np.testing.assert_allclose(row["error"], error, rtol=1e-5)


def test_a_weight_that_is_not_trained_has_no_curvature():
    model = network()
    model.get_layer("dense_1").trainable = False
    model.compile(keras_lab.LABAdam(0.01), "squared_hinge", jit_compile=False)
    logs = model.fit(*data(), verbose=0, callbacks=[BinaryMonitor()]).history
    assert "dense_1/d_min" not in logs and "dense_2/d_min" in logs
    assert logs["dense_1/flips"] == [0]


def test_a_recurrent_weight_has_an_entry_for_each_gate(rng):
    layer = keras_lab.BinaryLSTM(5, name="lstm")
    model = keras.Sequential([keras.Input((4, 3)), layer])
    cell = layer.cell
    kernel = cell.recurrent_kernel

    def flip_two_of_the_forget_gate():
        w = kernel.numpy()
        w[1, 5:7] *= -1
        kernel.assign(w)

    logs = look(BinaryMonitor(), model, flip_two_of_the_forget_gate)
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
    names = {n for n in look(BinaryMonitor(), model) if n.endswith("alpha")}
    assert names == {"dense/alpha", "left/dense/alpha", "right/dense/alpha"}


TRAININGS = {
    "jit_compile": {"jit_compile": True},
    "steps_per_execution": {"steps_per_execution": 4},
    "MirroredStrategy": {},
}


@pytest.mark.parametrize(
    ("kind", "every"),
    [
        ("jit_compile", "epoch"),
        ("steps_per_execution", "epoch"),
        ("steps_per_execution", 3),
        ("MirroredStrategy", "epoch"),
        ("MirroredStrategy", 3),
    ],
)
def test_a_monitored_training_is_the_same_to_the_bit(
    kind, every, strategy, tmp_path
):
    def train(callbacks):
        keras.utils.set_random_seed(5)
        if kind == "MirroredStrategy":
            with strategy.scope():
                model = network(**TRAININGS[kind])
        else:
            model = network(**TRAININGS[kind])
        model.fit(
            *data(), batch_size=8, epochs=2, verbose=0, callbacks=callbacks
        )
        return model

    monitor = BinaryMonitor(
        tmp_path / "monitor.csv", tmp_path / "events", every
    )
    watched, alone = train([monitor]), train([])
    for a, b in zip(watched.get_weights(), alone.get_weights()):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(watched.optimizer.variables, alone.optimizer.variables):
        a, b = keras.ops.convert_to_numpy(a), keras.ops.convert_to_numpy(b)
        np.testing.assert_array_equal(a, b)
    assert len(watched.variables) == len(alone.variables)
    steps = {row["step"] for row in monitor.history}
    expected = {"epoch": {12, 24}, 3: {3, 6, 9, 12, 15, 18, 21, 24}}[every]
    if kind == "steps_per_execution" and every == 3:
        expected = {4, 8, 12, 16, 20, 24}
    assert steps == expected
    last = monitor.history[-1]
    alpha = alone.get_layer("dense_2").alpha
    assert last["alpha"] == keras.ops.convert_to_numpy(alpha)


def fit(model, monitor, epochs, first=0):
    x, y = data()
    model.fit(
        x,
        y,
        batch_size=16,
        initial_epoch=first,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=[monitor],
    )


def saved(model, path):
    model.save(path)
    return keras.models.load_model(path)


def start():
    keras.utils.set_random_seed(6)
    return network(dropout=0.0)  # Keras drops out anew in a loaded model.


def test_after_a_resume_the_history_goes_on(tmp_path):
    whole, parts = tmp_path / "whole.csv", tmp_path / "parts.csv"
    fit(start(), BinaryMonitor(whole), 4)
    model = start()
    fit(model, BinaryMonitor(parts), 2)
    model = saved(model, tmp_path / "model.keras")
    fit(model, BinaryMonitor(parts), 4, first=2)
    assert parts.read_text() == whole.read_text()
    assert any(row["flips"] > 0 for row in read_history(parts)[4:])


def test_rows_beyond_the_resumed_checkpoint_come_again(tmp_path):
    path = tmp_path / "monitor.csv"
    model = start()
    fit(model, BinaryMonitor(path), 2)
    checkpoint = saved(model, tmp_path / "model.keras")
    fit(model, BinaryMonitor(path), 3, first=2)
    first_time = path.read_text()
    fit(checkpoint, BinaryMonitor(path), 3, first=2)
    assert path.read_text() == first_time


def test_flips_across_a_gap_are_honestly_empty(tmp_path):
    path = tmp_path / "monitor.csv"
    model = start()
    fit(model, BinaryMonitor(path), 1)
    fit(model, BinaryMonitor(), 2, first=1)  # An epoch that the file misses.
    fit(model, BinaryMonitor(path), 4, first=2)
    flips = [r["flips"] for r in read_history(path) if "dense_1" in r["weight"]]
    assert flips[1] is None and None not in (flips[0], flips[2])


def test_a_training_from_the_start_starts_the_file_anew(tmp_path):
    path = tmp_path / "monitor.csv"
    fit(start(), BinaryMonitor(path), 2)
    first_time = path.read_text()
    fit(start(), BinaryMonitor(path), 2)
    assert path.read_text() == first_time


def test_the_same_monitor_goes_on_in_a_second_fit(tmp_path):
    monitor, model = BinaryMonitor(), start()
    fit(model, monitor, 2)
    fit(model, monitor, 2)
    assert [row["step"] for row in monitor.history[::2]] == [6, 12, 18, 24]
    assert all(row["flips"] is not None for row in monitor.history)


def test_what_keras_and_the_csv_see(tmp_path):
    path, log = tmp_path / "monitor.csv", tmp_path / "log.csv"
    monitor = BinaryMonitor(path, quantities=["alpha", "flips"])
    history = network().fit(
        *data(),
        epochs=2,
        verbose=0,
        callbacks=[monitor, keras.callbacks.CSVLogger(str(log))],
    )
    names = [f"dense_{n}/{q}" for n in (1, 2) for q in ("alpha", "flips")]
    assert sorted(history.history) == sorted(["loss", *names])
    with open(log) as file:
        logged = list(csv.DictReader(file))
    with open(path) as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert [row["weight"] for row in rows] == 2 * [
        "dense_1/kernel",
        "dense_2/kernel",
    ]
    for epoch in (0, 1):
        assert rows[2 * epoch]["epoch"] == str(epoch)
        assert float(rows[2 * epoch]["alpha"]) == float(
            logged[epoch]["dense_1/alpha"]
        )
    assert read_history(path) == monitor.history


def test_tensorboard_gets_scalars_and_histograms(tmp_path):
    monitor = BinaryMonitor(log_dir=tmp_path)
    model = network()
    model.fit(*data(), epochs=2, verbose=0, callbacks=[monitor])
    (file,) = tmp_path.iterdir()
    found = {}
    for event in tf.compat.v1.train.summary_iterator(str(file)):
        for value in event.summary.value:
            plugin = value.metadata.plugin_data.plugin_name
            tensor = tf.make_ndarray(value.tensor)
            found[plugin, value.tag, event.step] = tensor
    for quantity in QUANTITIES:
        value = found["scalars", f"dense_1/{quantity}", 6]
        np.testing.assert_allclose(
            value, monitor.history[-2][quantity], rtol=1e-6
        )
    w = model.get_layer("dense_1").kernel.numpy()
    buckets = found["histograms", "dense_1/kernel", 6]
    counts, edges = np.histogram(w, len(buckets))
    np.testing.assert_array_equal(buckets[:, 2], counts)
    np.testing.assert_allclose(buckets[:, 0], edges[:-1])


def test_a_model_without_binary_layers_is_trained_all_the_same(tmp_path):
    model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(10)])
    model.compile("sgd", "mse")
    path = tmp_path / "monitor.csv"
    with pytest.warns(UserWarning, match="no binary weights"):
        model.fit(*data(), verbose=0, callbacks=[BinaryMonitor(path)])
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"every": 0}, "every=0"),
        ({"every": "step"}, "every='step'"),
        ({"quantities": "alpha"}, "quantities='alpha'"),
        ({"quantities": ["beta"]}, r"quantities=\['beta'\]"),
        ({"near_zero": -1}, "near_zero=-1"),
        ({"filename": "monitor.txt"}, "monitor.txt"),
        ({"filename": "nowhere/monitor.csv"}, "does not exist"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        BinaryMonitor(**arguments)


def test_a_file_of_another_origin_is_not_overwritten(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"mine\.csv.*not the CSV"):
        BinaryMonitor(path)
    assert path.read_text() == "a,b\n1,2\n"
