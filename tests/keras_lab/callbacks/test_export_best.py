"""`ExportBest`: the file of the best epoch, and a training that goes on."""

import keras
import numpy as np
import pytest

import keras_lab
import tflite_export
from keras_lab.callbacks import ExportBest
from tests.keras_lab.callbacks.support import data, network
from tests.keras_lab.support import assert_same


class Endless(keras.utils.PyDataset):
    num_batches = None


def end_epochs(callback, model, values, name="val_loss"):
    """Ends an epoch with each value, and other weights each time."""
    rng = np.random.default_rng(7)
    kernels = []
    callback.set_model(model)
    callback.on_train_begin()
    for epoch, value in enumerate(values):
        for layer in ("dense_1", "dense_2"):
            kernel = model.get_layer(layer).kernel
            kernel.assign(rng.normal(size=kernel.shape))
        keras_lab.refresh(model)
        kernels.append(kernel.numpy())
        callback.on_epoch_end(epoch, {name: value})
    return kernels


def assert_signs(path, kernel):
    signs = tflite_export.read_packed(path)[-1].signs
    np.testing.assert_array_equal(signs > 0, kernel >= 0)


@pytest.mark.parametrize(
    ("monitor", "mode", "values"),
    [
        ("val_loss", "auto", [1.0, 0.5, float("nan"), 0.7]),
        ("val_score", "max", [0.1, 0.9, float("nan"), 0.3]),
    ],
)
def test_the_file_is_that_of_the_best_epoch(
    tmp_path, monitor, mode, values, capsys
):
    path = tmp_path / "best.tflite"
    callback = ExportBest(path, monitor, mode, verbose=1)
    kernels = end_epochs(callback, network(), values, monitor)
    assert (callback.best, callback.best_epoch) == (values[1], 1)
    assert_signs(path, kernels[1])
    assert callback.report.file_bytes == path.stat().st_size
    assert [file.name for file in tmp_path.iterdir()] == ["best.tflite"]
    assert f"{path.stat().st_size:,} bytes" in capsys.readouterr().out


def test_an_export_that_fails_leaves_the_file_before(tmp_path):
    path = tmp_path / "best.tflite"
    callback, model = ExportBest(path), network()
    end_epochs(callback, model, [1.0])
    before = path.read_bytes()
    callback.options["tolerance"] = 0.0
    with pytest.warns(UserWarning, match="Epoch 0 was not exported"):
        end_epochs(callback, model, [0.5])
    assert path.read_bytes() == before
    assert callback.best == 1.0
    assert [file.name for file in tmp_path.iterdir()] == ["best.tflite"]


def test_exporting_does_not_change_the_training(tmp_path):
    def train(callbacks):
        keras.utils.set_random_seed(8)
        model = network()
        model.fit(*data(), epochs=2, verbose=0, callbacks=callbacks)
        model.add(keras_lab.BinaryDense(4))  # Draws initial weights.
        return model.get_weights()

    with_export = train([ExportBest(tmp_path / "best.tflite", "loss")])
    assert_same(with_export, train([]))


def test_auto_is_what_the_metric_says(tmp_path):
    model = network(metrics=["accuracy"], run_eagerly=True)
    model.fit(*data(), verbose=0)
    callback = ExportBest(tmp_path / "best.tflite", "val_accuracy")
    callback.set_model(model)
    with pytest.warns(UserWarning, match="finds no"):
        callback.on_epoch_end(0, {"loss": 1.0})
    assert callback.mode == "max"
    callback = ExportBest(tmp_path / "best.tflite", "dense_1/alpha")
    callback.set_model(model)
    with pytest.raises(ValueError, match="'dense_1/alpha' should be small or"):
        callback.on_epoch_end(0, {"dense_1/alpha": 1.0})


def test_a_model_that_its_first_step_builds_is_exported(tmp_path):
    model = keras.Sequential([keras_lab.BinaryDense(10, name="dense_1")])
    model.compile(keras_lab.LABAdam(0.01), "squared_hinge", run_eagerly=True)
    path = tmp_path / "best.tflite"
    model.fit(*data(), verbose=0, callbacks=[ExportBest(path, "loss")])
    assert_signs(path, model.get_layer("dense_1").kernel.numpy())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("recalibrate", data()),
        ("recalibrate", "data.npz"),
        ("recalibrate", 3),
        ("format", "zip"),
        ("batchsize", 3),
        ("batch_size", 0),
        ("mode", "best"),
        ("model", None),
    ],
)
def test_wrong_options_are_an_error_before_training(tmp_path, name, value):
    model = network()
    message = "`data` must be" if name == "recalibrate" else name
    with pytest.raises((TypeError, ValueError), match=message):
        callback = ExportBest(tmp_path / "best.tflite", **{name: value})
        model.fit(*data(), verbose=0, callbacks=[callback])
    assert model.optimizer.iterations == 0


def test_batch_norm_is_measured_before_it_judges_and_exports(tmp_path):
    path, (x, y) = tmp_path / "best.tflite", data()
    callback, model = ExportBest(path, "val_loss", recalibrate=x), network()
    logs = model.fit(
        x, y, validation_data=(x, y), verbose=0, callbacks=[callback]
    ).history
    norm = model.layers[1]
    seen = np.asarray(model.layers[0](x), "float64")
    np.testing.assert_allclose(norm.moving_mean, seen.mean(0), atol=1e-5)
    np.testing.assert_allclose(norm.moving_variance, seen.var(0), rtol=1e-4)
    # The validation and the file have these statistics, too.
    loss = model.evaluate(x, y, verbose=0)
    assert callback.best == logs["val_loss"][0] == pytest.approx(loss, rel=1e-5)
    (outputs,) = tflite_export.run(path, x).values()
    np.testing.assert_allclose(outputs, model(x), atol=0.05 * np.ptp(outputs))
    with pytest.raises(TypeError, match="more than once"):
        ExportBest(path, recalibrate=iter([x]))
    with pytest.raises(ValueError, match="must have an end"):
        ExportBest(path, recalibrate=Endless())
