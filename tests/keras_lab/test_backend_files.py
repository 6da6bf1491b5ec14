"""A file that was saved on one backend is read on the others."""

import os

import keras
import numpy as np
import pytest

import keras_lab
from tests.keras_lab.engine import MANY_STEPS, each_other_backend
from tests.keras_lab.interpreter import run
from tests.keras_lab.networks import check_alphas
from tests.keras_lab.support import random, sequential

SAMPLES = random((8, 6, 5, 2))


def trained():
    keras.utils.set_random_seed(1)
    model = sequential(
        (6, 5, 2),
        keras_lab.BinaryConv2D(4, 3, kernel_quantizer="lab"),
        keras.layers.BatchNormalization(),
        keras.layers.Reshape((4, 12)),
        keras_lab.BinaryLSTM(5),
        keras_lab.BinaryDense(3, kernel_quantizer="bwn"),
    )
    model.compile(keras_lab.LABAdam(0.01), "mse", **MANY_STEPS)
    model.fit(SAMPLES, np.ones((8, 3)), epochs=3, verbose=0)
    return model


def describe(model):
    """What must be the same on every backend."""
    weights = keras_lab.binary_weights(model).values()
    found = [model.predict(SAMPLES, verbose=0)]
    for weight in weights:
        found += [weight.latent, weight.alpha]
        found.append(model.optimizer.curvature(weight.latent))
    return [keras.ops.convert_to_numpy(x) for x in found]


def save(path):
    """Writes a trained model and what it holds."""
    model = trained()
    model.save(f"{path}.keras")
    np.savez(f"{path}.npz", *describe(model))


def check(path):
    """Reads a model and compares it. Then it goes on training."""
    model = keras.models.load_model(f"{path}.keras")
    with np.load(f"{path}.npz") as expected:
        for a, b in zip(describe(model), expected.values(), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    model.fit(SAMPLES, np.ones((8, 3)), verbose=0)
    check_alphas(model)


def on(backend, call, path):
    module = "from tests.keras_lab.test_backend_files import check, save"
    run(f"{module}\n{call}({str(path)!r})", KERAS_BACKEND=backend)


def test_a_saved_model_is_the_same_when_it_is_loaded(tmp_path):
    save(tmp_path / "model")
    check(tmp_path / "model")


@each_other_backend
def test_a_file_of_one_backend_is_read_on_another(other, tmp_path):
    save(tmp_path / "ours")
    on(other, "check", tmp_path / "ours")
    on(other, "save", tmp_path / "theirs")
    check(tmp_path / "theirs")


def test_nothing_imports_tensorflow_on_another_backend(tmp_path):
    if keras.config.backend() == "tensorflow":
        pytest.skip("this is the TensorFlow backend")
    printed = run(
        f"""
        import sys
        from tests.keras_lab.test_backend_files import save
        from keras_lab_command import main
        save({str(tmp_path / "model")!r})
        print("|")
        main(["inspect", {str(tmp_path / "model.keras")!r}])
        print("|", [m for m in sys.modules if m.startswith("tensorflow")])
        """,
        KERAS_BACKEND=os.environ["KERAS_BACKEND"],
    )
    words = " ".join(printed)
    assert "conv2d" in words and words.endswith("| []")
