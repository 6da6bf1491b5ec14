"""`ExportBest`: the file of the best epoch, and a training that goes on."""

import keras
import numpy as np
import pytest

import keras_lab
import tflite_export
from keras_lab.callbacks import ExportBest
from tests.keras_lab.callbacks.support import data, network


def signs(path):
    return [weight.signs for weight in tflite_export.read_packed(path)]


def export_epochs(callback, model, values, name="val_loss"):
    """Ends an epoch with each value, and other weights each time."""
    rng = np.random.default_rng(7)
    kernels = []
    callback.set_model(model)
    callback.on_train_begin()
    for epoch, value in enumerate(values):
        for layer in ("dense_1", "dense_2"):
            kernel = model.get_layer(layer).kernel
            kernel.assign(rng.normal(size=kernel.shape))
        kernels.append(kernel.numpy())
        callback.on_epoch_end(epoch, {name: value})
    return kernels


@pytest.mark.parametrize(
    ("monitor", "mode", "values"),
    [
        ("val_loss", "auto", [1.0, 0.5, float("nan"), 0.7]),
        ("val_score", "max", [0.1, 0.9, float("nan"), 0.3]),
    ],
)
def test_the_file_is_that_of_the_best_epoch(tmp_path, monitor, mode, values):
    path = tmp_path / "best.tflite"
    callback = ExportBest(path, monitor, mode)
    kernels = export_epochs(callback, network(), values, monitor)
    assert (callback.best, callback.best_epoch) == (values[1], 1)
    np.testing.assert_array_equal(signs(path)[-1] > 0, kernels[1] >= 0)
    assert callback.report.file_bytes == path.stat().st_size
    assert [file.name for file in tmp_path.iterdir()] == ["best.tflite"]


def test_an_export_that_fails_leaves_the_file_before(tmp_path):
    path = tmp_path / "best.tflite"
    callback, model = ExportBest(path), network()
    export_epochs(callback, model, [1.0])
    before = path.read_bytes()
    callback.options["tolerance"] = 0.0
    with pytest.warns(UserWarning, match="Epoch 0 was not exported"):
        export_epochs(callback, model, [0.5])
    assert path.read_bytes() == before
    assert callback.best == 1.0
    assert [file.name for file in tmp_path.iterdir()] == ["best.tflite"]


def test_exporting_does_not_change_the_training(tmp_path):
    def train(callbacks):
        keras.utils.set_random_seed(8)
        model = network()
        model.fit(*data(), epochs=3, verbose=0, callbacks=callbacks)
        model.add(keras_lab.BinaryDense(4))  # Draws initial weights.
        return model.get_weights()

    with_export = train([ExportBest(tmp_path / "best.tflite", "loss")])
    for a, b in zip(with_export, train([])):
        np.testing.assert_array_equal(a, b)


def test_export_best_says_what_is_wrong(tmp_path):
    path = tmp_path / "best.tflite"
    with pytest.raises(ValueError, match="mode='best'"):
        ExportBest(path, mode="best")
    with pytest.raises(ValueError, match=r"best\.onnx"):
        ExportBest(tmp_path / "best.onnx")
    with pytest.raises(ValueError, match="format='zip'"):
        ExportBest(path, format="zip")
    with pytest.raises(TypeError, match="batchsize"):
        ExportBest(path, batchsize=3)
    with pytest.raises(TypeError, match="monitor=None"):
        ExportBest(path, monitor=None)
    plain = keras.Sequential([keras.Input((20,)), keras.layers.Dense(10)])
    plain.compile("sgd", "mse")
    with pytest.raises(ValueError, match="no binary weights"):
        plain.fit(*data(), verbose=0, callbacks=[ExportBest(path)])
    with pytest.warns(UserWarning, match=r"no 'val_loss'.*\['loss'\]"):
        network().fit(*data(), verbose=0, callbacks=[ExportBest(path)])
    assert not path.exists()


@pytest.mark.parametrize(
    ("metric", "mode"),
    [
        ("accuracy", "max"),
        (keras.metrics.R2Score(), "max"),
        (keras.metrics.MeanSquaredError(name="accuracy_loss"), "min"),
    ],
    ids=lambda x: getattr(x, "name", x),
)
def test_auto_is_what_the_metric_says(tmp_path, metric, mode):
    model = network(metrics=[metric])
    logs = model.fit(*data(), verbose=0).history
    name = metric if isinstance(metric, str) else metric.name
    assert name in logs
    callback = ExportBest(tmp_path / "best.tflite", f"val_{name}")
    callback.set_model(model)
    with pytest.warns(UserWarning, match="finds no"):
        callback.on_epoch_end(0, {"loss": 1.0})
    assert callback.mode == mode
    assert not model.stop_training


def test_auto_for_an_unknown_name_is_an_error(tmp_path):
    callback = ExportBest(tmp_path / "best.tflite", "dense_1/alpha")
    callback.set_model(network())
    with pytest.raises(ValueError, match="'dense_1/alpha' should be small or"):
        callback.on_epoch_end(0, {"dense_1/alpha": 1.0})


def test_a_model_that_its_first_step_builds_is_exported(tmp_path):
    model = keras.Sequential([keras_lab.BinaryDense(10, name="dense_1")])
    model.compile(keras_lab.LABAdam(0.01), "squared_hinge", jit_compile=False)
    path = tmp_path / "best.tflite"
    model.fit(*data(), verbose=0, callbacks=[ExportBest(path, "loss")])
    kernel = model.get_layer("dense_1").kernel.numpy()
    np.testing.assert_array_equal(signs(path)[0] > 0, kernel >= 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"validation_data": np.zeros((4, 7))}, r"\(4, 7\)"),
    ],
)
def test_options_that_cannot_work_are_an_error_before_training(
    tmp_path, options, message
):
    callback = ExportBest(tmp_path / "best.tflite", "loss", **options)
    model = network()
    with pytest.raises(ValueError, match=message):
        model.fit(*data(), verbose=0, callbacks=[callback])
    assert model.optimizer.iterations == 0


def test_a_folder_that_disappears_does_not_end_the_training(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()

    class Remove(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if folder.exists():
                folder.rmdir()

    callback = ExportBest(folder / "best.tflite", "loss")
    model = network()
    with pytest.warns(UserWarning, match="Epoch 1 was not exported"):
        model.fit(*data(), epochs=2, verbose=0, callbacks=[Remove(), callback])
    assert model.optimizer.iterations == 6
    assert callback.best is None
