"""LABModel: the same training, written out."""

import keras
import numpy as np
import pytest

import keras_lab
from tests.keras_lab.engine import NAME, can_compile, slow_on_tensorflow
from tests.keras_lab.test_algorithm import batches, dense_network


@pytest.mark.parametrize(
    "jit_compile",
    [
        pytest.param(jit, marks=slow_on_tensorflow if jit else ())
        for jit in can_compile
    ],
)
def test_lab_model_follows_the_same_trajectory_to_the_bit(jit_compile):
    results = []
    for model_class in (keras.Model, keras_lab.LABModel):
        keras.utils.set_random_seed(3)
        model, _ = dense_network("float32", model_class)
        model.compile(
            keras_lab.LABAdam(0.01), "squared_hinge", jit_compile=jit_compile
        )
        x, y = batches(np.random.default_rng(3), model)
        x, y = x.reshape(-1, 20), y.reshape(-1, 10)
        history = model.fit(x, y, batch_size=32, epochs=3, verbose=0)
        results.append((model.get_weights(), history.history["loss"]))
    for plain, written_out in zip(results[0][0], results[1][0]):
        np.testing.assert_array_equal(plain, written_out)
    assert results[0][1] == results[1][1]


def test_lab_model_logs_alpha_on_request(rng):
    model, _ = dense_network("float32")
    model = keras_lab.LABModel(model.inputs, model.outputs, log_alpha=True)
    model.compile(keras_lab.LABAdam(0.01), "squared_hinge")
    x, y = batches(rng, model)
    logs = model.fit(x[0], y[0], verbose=0).history
    for layer in model.layers:
        if hasattr(layer, "alpha"):
            assert logs[layer.alpha.path] == [float(layer.alpha)]
    restored = keras_lab.LABModel.from_config(model.get_config())
    assert restored.log_alpha


def test_lab_model_is_saved_and_loaded(rng, tmp_path):
    model, _ = dense_network("float32", keras_lab.LABModel)
    model.compile(keras_lab.LABAdam(0.01), "squared_hinge")
    x, y = batches(rng, model)
    model.fit(x[0], y[0], verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(again, keras_lab.LABModel)
    np.testing.assert_array_equal(again(x[0]), model(x[0]))
    again.fit(x[0], y[0], verbose=0)
    model.fit(x[0], y[0], verbose=0)
    # The others may round the last bit in another way.
    rtol = 0 if NAME == "tensorflow" else 1e-6
    for a, b in zip(again.get_weights(), model.get_weights()):
        np.testing.assert_allclose(a, b, rtol=rtol)


def subclassed(base, **options):
    class Network(base):
        def __init__(self):
            super().__init__(**options)
            self.dense = keras_lab.BinaryDense(10)

        def call(self, inputs):
            return self.dense(inputs)

    return Network()


@pytest.mark.parametrize("run_eagerly", [True, False])
def test_an_unbuilt_subclass_follows_the_same_trajectory(rng, run_eagerly):
    x, y = rng.normal(size=(64, 20)), np.sign(rng.normal(size=(64, 10)))
    weights = []
    for base in (keras.Model, keras_lab.LABModel):
        keras.utils.set_random_seed(4)
        model = subclassed(base)
        model.compile(
            keras_lab.LABAdam(0.01), "squared_hinge", run_eagerly=run_eagerly
        )
        model.fit(x, y, batch_size=16, verbose=0)
        assert int(model.optimizer.iterations) == 4
        weights.append(model.get_weights())
    for plain, written_out in zip(*weights):
        np.testing.assert_array_equal(plain, written_out)


def test_a_subclass_of_lab_model_trains_as_any_model(rng):

    dense_network("float32", keras_lab.LABModel)  # A functional one before it.
    model = subclassed(keras_lab.LABModel, log_alpha=True)
    model.compile(
        keras_lab.LABAdam(0.01), "squared_hinge", metrics=["accuracy"]
    )
    x, y = rng.normal(size=(64, 20)), np.sign(rng.normal(size=(64, 10)))
    history = model.fit(x, y, epochs=5, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    assert history[model.dense.alpha.path][-1] == float(model.dense.alpha)
