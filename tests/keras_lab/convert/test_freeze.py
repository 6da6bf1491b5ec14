"""`freeze`: the same network in plain Keras layers."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from keras_lab.quantizers import SignActivation
from tests.keras_lab.convert import test_blocks
from tests.keras_lab.interpreter import run
from tests.keras_lab.layers.cases import OPTIONS, make
from tests.keras_lab.support import (
    Holder,
    assert_same,
    random,
    saved_and_loaded,
    sequential,
)


def check_freeze(model, inputs, tolerance=0):
    """`freeze` keeps the outputs and leaves the model alone."""
    before = [weight.numpy() for weight in model.weights]
    expected = model(inputs)
    frozen = keras_lab.freeze(model)
    keras.tree.map_structure(
        lambda x, y: np.testing.assert_allclose(x, y, 0, tolerance),
        frozen(inputs),
        expected,
    )
    assert_same(before, model.weights)
    assert "keras_lab" not in frozen.to_json()
    assert not frozen.compiled
    names = [layer.name for layer in model.layers]
    assert [layer.name for layer in frozen.layers] == names
    return frozen


@pytest.mark.parametrize(
    ("case", "options"),
    # TensorFlow has no convolutions with channels first on a CPU.
    [(c, options) for c, options in OPTIONS if "data_format" not in options],
)
@pytest.mark.parametrize(
    ("quantizer", "inputs"),
    [("lab", "sign"), (keras_lab.LAB(scale="channel"), None), (None, None)],
)
def test_a_frozen_layer_is_the_keras_layer_with_the_binary_kernel(
    case, options, quantizer, inputs
):
    layer, (_, *shape) = make(
        case, **options, kernel_quantizer=quantizer, input_quantizer=inputs
    )
    model = sequential(shape, layer)
    frozen = check_freeze(model, random((2, *shape)))
    if quantizer is not None:
        kernels = [w.numpy() for w in frozen.weights if "kernel" in w.name]
        binary = keras_lab.binary_weights(model).values()
        assert_same(kernels, [weight.value() for weight in binary])


CELLS = keras_lab.BinaryGRUCell, keras_lab.BinarySimpleRNNCell
RECURRENT = {
    "lstm": lambda: keras_lab.BinaryLSTM(5),
    "gru": lambda: keras_lab.BinaryGRU(5, reset_after=False),
    "simple_rnn": lambda: keras_lab.BinarySimpleRNN(5, return_sequences=True),
    "bidirectional": lambda: layers.Bidirectional(keras_lab.BinaryLSTM(5)),
    "cell": lambda: layers.RNN(keras_lab.BinaryLSTMCell(5)),
    "cells": lambda: layers.RNN([cell(5) for cell in CELLS]),
    "binary cells": lambda: keras_lab.BinaryRNN([cell(5) for cell in CELLS]),
    "full precision": lambda: keras_lab.BinaryLSTM(5, kernel_quantizer=None),
    "one hot": lambda: keras_lab.BinaryLSTM(5, one_hot=7),
    "one hot, bidirectional": lambda: layers.Bidirectional(
        keras_lab.BinaryLSTM(5, one_hot=7)
    ),
    "time distributed": lambda: layers.TimeDistributed(
        keras_lab.BinaryDense(3, input_quantizer="sign")
    ),
}


@pytest.mark.parametrize("case", RECURRENT)
def test_recurrent_layers_and_wrappers_are_frozen(case, rng):
    shape, dtype, inputs = (6, 4), "float32", random((3, 6, 4))
    if case.startswith("one hot"):
        shape, dtype, inputs = (6, 1), "int32", rng.integers(0, 7, (3, 6, 1))
    model = sequential(shape, RECURRENT[case](), dtype=dtype)
    check_freeze(model, inputs, tolerance=1e-6)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_signs_are_kept_wherever_they_stand_and_those_of_zero_are_plus(policy):
    sign = SignActivation()
    model = sequential(
        (6, 6, 2),
        keras_lab.BinaryConv2D(4, 3, activation=sign, input_quantizer="sign"),
        layers.Activation(sign),
        layers.Flatten(),
        layers.Dense(5, activation=sign),
        keras_lab.BinaryDense(3, input_quantizer="sign", dtype=policy),
    )
    x = random((5, 6, 6, 2))
    x[0], x[1] = 0.0, -0.0
    check_freeze(model, x)


@keras.saving.register_keras_serializable("test_freeze")
class Shifted(keras_lab.quantizers.SignActivation):
    def __call__(self, x):
        return super().__call__(x - 0.5)


def test_a_quantizer_of_inputs_that_is_not_the_sign_is_not_lost():
    model = sequential(
        (8,), keras_lab.BinaryDense(4, input_quantizer=Shifted())
    )
    with pytest.raises(ValueError, match="no counterpart in plain Keras"):
        keras_lab.freeze(model)
    x = random((5, 8))
    frozen = keras_lab.freeze(model, strict=False)
    np.testing.assert_array_equal(frozen(x), model(x))


def test_nested_and_shared_models_keep_their_structure():
    inner = sequential(
        (8,),
        keras_lab.BinaryDense(8),
        layers.BatchNormalization(),
        name="inner",
    )
    a, b = keras.Input((8,), name="a"), keras.Input((8,), name="b")
    shared = keras_lab.BinaryDense(8, input_quantizer="sign", name="shared")
    deep = sequential((8,), keras_lab.BinaryDense(8), name="deep")
    block = keras.Model(a, deep(deep(a)), name="block")
    x = layers.Add()([inner(block(a)), inner(shared(a))]) * 0.5
    model = keras.Model({"a": a, "b": b}, {"sum": shared(x), "b": shared(b)})
    inputs = {"a": random((5, 8)), "b": random((5, 8), 1)}
    frozen = check_freeze(model, inputs)
    assert len(frozen.weights) == len(model.weights) - 3  # without the α


@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (lambda **o: keras_lab.BinaryConv2D(3, 3, **o), [(6, 6, 2), (9, 7, 2)]),
        (lambda **o: keras_lab.BinaryDense(6, **o), [(6,), (3, 6)]),
    ],
)
def test_a_shared_layer_with_sign_inputs_takes_inputs_of_several_shapes(
    make, shapes, tmp_path
):
    shared, inputs = (
        make(input_quantizer="sign"),
        list(map(keras.Input, shapes)),
    )
    model = keras.Model(inputs, list(map(shared, inputs)))
    x = [random((2, *shape)) for shape in shapes]
    frozen = keras_lab.freeze(model)
    again = saved_and_loaded(frozen, tmp_path)
    for other in (frozen, again):
        assert_same(other(x), model(x))


def attention():
    inputs = keras.Input((5, 8))
    layer = keras_lab.BinaryMultiHeadAttention(2, 4, input_quantizer="sign")
    return keras.Model(inputs, layer(inputs, inputs))


SIGNS_INSIDE = {
    "output": lambda: sequential((6, 4), keras_lab.BinaryLSTM(5, "sign")),
    "state": lambda: sequential(
        (6, 4), keras_lab.BinaryLSTM(5, input_quantizer="sign")
    ),
    "attention": attention,
    "block": lambda: keras_lab.binarize_model(
        test_blocks.model_of(test_blocks.Block()), "lab", "sign"
    ),
}


@pytest.mark.parametrize("case", SIGNS_INSIDE)
def test_the_sign_of_a_value_inside_a_layer_has_no_counterpart_in_keras(case):
    model = SIGNS_INSIDE[case]()
    x = random((3, *model.input_shape[1:]))
    with pytest.raises(ValueError, match="has no counterpart"):
        keras_lab.freeze(model)
    frozen = keras_lab.freeze(model, strict=False)
    np.testing.assert_allclose(frozen(x), model(x), atol=1e-6)
    assert not keras_lab.binary_weights(frozen)


def test_a_trained_model_loads_where_keras_lab_cannot_be_imported(tmp_path):
    parts = sequential(
        (8, 7, 3),
        keras_lab.BinarySeparableConv2D(4, 3, activation="relu"),
        layers.BatchNormalization(),
        keras_lab.BinaryConv2D(4, 3, input_quantizer="sign"),
        layers.Flatten(),
        keras_lab.BinaryDense(5),
    )
    model = keras_lab.LABModel(parts.inputs[0], parts.outputs[0])
    model.compile(keras_lab.LABAdam(), "mse", run_eagerly=True)
    inputs = random((5, 8, 7, 3))
    model.fit(inputs, random((5, 5)), verbose=0)
    frozen = check_freeze(model, inputs)
    assert not isinstance(frozen, keras_lab.LABModel)
    frozen.save(tmp_path / "plain.keras")
    np.save(tmp_path / "inputs.npy", inputs)
    run(
        f"""
        import os, sys
        sys.modules["keras_lab"] = None
        import keras, numpy
        os.chdir({str(tmp_path)!r})
        model = keras.models.load_model("plain.keras")
        outputs = model(numpy.load("inputs.npy"))
        numpy.save("outputs.npy", keras.ops.convert_to_numpy(outputs))
        """
    )
    assert_same(np.load(tmp_path / "outputs.npy"), model(inputs))


def test_binary_layers_that_no_config_includes_are_refused_or_kept():
    model = sequential((6,), Holder(name="block"), keras_lab.BinaryDense(3))
    for weight in model.weights:
        weight.assign(random(weight.shape))
    with pytest.raises(ValueError, match=r"'block'.*of type Holder"):
        keras_lab.freeze(model)
    x = random((2, 6))
    frozen = keras_lab.freeze(model, strict=False)
    np.testing.assert_array_equal(frozen(x), model(x))
