"""Names of layers in the names of a graph."""

import keras
import numpy as np
import pytest

import keras_lab
from tests.tflite_export.support import Exported, check_weights_are_read_back
from tflite_export.graph.names import layers_in, scope_of, unique_names


@pytest.mark.parametrize(
    "path", ["dense", "encoder/dense_1", "a/b/c", "a.b/c-d", "my layer/ä", "_x"]
)
def test_a_path_is_read_again_from_the_name_of_an_operation(path):
    name = f"model_1/{path}_1/{scope_of(path)}"
    assert layers_in(f"{name}/MatMul") == [path]
    # TensorFlow numbers scopes, and the converter joins names.
    assert layers_in(f"{name}_2/MatMul;{name}/Add") == [path, path]


def test_inner_layers_come_last():
    name = f"m/{scope_of('block')}/d_1/{scope_of('block/d')}/MatMul"
    assert layers_in(name) == ["block", "block/d"]
    assert layers_in("m/dense_1/MatMul") == []


def test_a_number_is_appended_to_a_name_that_occurred_before():
    names = ["a", "b", "a", "a_1", "a", "b"]
    assert unique_names(names) == ["a", "b", "a_2", "a_1", "a_3", "b_1"]


def test_layers_with_equal_kernels_and_odd_names_are_told_apart():
    model = keras.Sequential([keras.Input((2,))])
    for number, name in enumerate(["a.b", "a-b", "a_b"]):
        model.add(keras_lab.BinaryDense(2, use_bias=False, name=name))
        model.add(keras.layers.BatchNormalization(gamma_initializer="ones"))
        model.layers[-2].kernel.assign(np.array([[1, -1], [1, 1]]))
        model.layers[-2].alpha.assign(0.25 * (number + 1))
    check_weights_are_read_back(model, Exported(model).content("packed"))
