"""LABModel: the same training, written out."""

import keras
import numpy as np
import pytest

import keras_lab
from tests.keras_lab.engine import can_compile, slow_on_tensorflow
from tests.keras_lab.networks import check_alphas
from tests.keras_lab.support import assert_same
from tests.keras_lab.test_algorithm import dense_network


def functional(base, **options):
    model, _ = dense_network("float32")
    return base(model.inputs, model.outputs, **options)


def subclassed(base, **options):
    class Network(base):
        def __init__(self):
            super().__init__(**options)
            self.dense = keras_lab.BinaryDense(10)

        def call(self, inputs):
            return self.dense(inputs)

    return Network()


def data(rng):
    return rng.normal(size=(64, 20)), np.sign(rng.normal(size=(64, 10)))


@pytest.mark.parametrize(
    ("make", "options"),
    [
        *(
            pytest.param(
                functional,
                {"jit_compile": jit},
                marks=slow_on_tensorflow if jit else (),
            )
            for jit in can_compile
        ),
        (subclassed, {"run_eagerly": True}),
        (subclassed, {"run_eagerly": False}),
    ],
)
def test_lab_model_follows_the_same_trajectory_to_the_bit(make, options, rng):
    results, (x, y) = [], data(rng)
    for base in (keras.Model, keras_lab.LABModel):
        keras.utils.set_random_seed(3)
        model = make(base)
        model.compile(keras_lab.LABAdam(0.01), "squared_hinge", **options)
        history = model.fit(x, y, batch_size=16, epochs=3, verbose=0).history
        assert int(model.optimizer.iterations) == 12
        check_alphas(model)
        results.append([*model.get_weights(), history["loss"]])
    assert_same(*results)


@pytest.mark.parametrize("make", [functional, subclassed])
def test_lab_model_logs_alpha_on_request(make, rng):
    functional(keras_lab.LABModel)  # A functional one before a subclass.
    model = make(keras_lab.LABModel, log_alpha=True)
    model.compile(
        keras_lab.LABAdam(0.01), "squared_hinge", metrics=["accuracy"]
    )
    logs = model.fit(*data(rng), epochs=5, verbose=0).history
    assert logs["loss"][-1] < logs["loss"][0]
    for weight in keras_lab.binary_weights(model).values():
        assert logs[weight.alpha.path][-1] == float(weight.alpha)
    if make is functional:
        restored = keras_lab.LABModel.from_config(model.get_config())
        assert restored.log_alpha
