"""From Keras to a float flatbuffer: names, batch sizes, kernels, errors."""

import itertools
import logging
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.tflite_export.models import inputs, norm, part
from tests.tflite_export.support import Exported, randomize
from tflite_export import (
    ConversionError,
    export_tflite,
    inspect,
    make_interpreter,
    run,
)
from tflite_export.flatbuffer.model import FlatModel


def states():
    x = keras.Input((4, 5))
    return keras.Model(x, keras_lab.BinaryLSTM(6, return_state=True)(x))


def shared():
    x, y = keras.Input((5,)), keras.Input((5,))
    dense = keras_lab.BinaryDense(3, name="dense")
    return keras.Model([x, y], [dense(x), dense(y)])


def twice():
    x = keras.Input((5,))
    y = keras_lab.BinaryDense(3, name="dense")(x)
    return keras.Model(x, [y, y])


def by_key():
    x = keras.Input((5,))
    parts = {n: keras_lab.BinaryDense(k)(x) for n, k in (("q", 3), ("p", 2))}
    return keras.Model(x, {**parts, "list": [x, parts["q"]]})


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (states, ["binary_lstm", "binary_lstm_1", "binary_lstm_2"]),
        (shared, ["dense", "dense_1"]),
        (twice, ["dense", "dense_1"]),
        (by_key, ["input_layer", "binary_dense", "p", "q"]),
    ],
)
def test_every_output_has_its_own_name_and_is_compared(tmp_path, make, names):
    keras.utils.clear_session()
    model = randomize(make())
    path = tmp_path / "m.tflite"
    export_tflite(model, path, "packed_float")
    rng = np.random.default_rng(0)
    data = [
        rng.normal(size=(3, *x.shape[1:])).astype("f") for x in model.inputs
    ]
    names_in, names_out = FlatModel(path.read_bytes()).signature()
    assert list(names_out) == names
    actual = run(path, dict(zip(names_in, data)))
    expected = keras.tree.flatten(
        model(keras.tree.pack_sequence_as(model.input, data))
    )
    assert len(expected) == len(names)
    for name, y in zip(names, expected):
        np.testing.assert_allclose(actual[name], y, rtol=1e-5, atol=1e-6)


BEFORE_A_DENSE_LAYER = {
    "first": (inputs(20), norm, part("BinaryDense", 6)),
    "between": (
        inputs(20),
        part("BinaryDense", 8),
        norm,
        part("BinaryDense", 6),
        norm,
    ),
    "rescaling": (
        inputs(20),
        part("Rescaling", list(np.linspace(0.1, 2, 20))),
        part("BinaryDense", 6),
    ),
    "nested": (
        inputs(20),
        norm,
        lambda: keras.Sequential([keras_lab.BinaryDense(6)]),
    ),
    "in_time": (
        inputs(3, 20),
        norm,
        lambda: layers.TimeDistributed(keras_lab.BinaryDense(6)),
    ),
    "signs": (
        inputs(20),
        norm,
        part("BinaryDense", 6, input_quantizer="sign"),
    ),
}


@pytest.mark.parametrize("case", BEFORE_A_DENSE_LAYER)
def test_a_scale_of_its_inputs_leaves_a_dense_layer_binary(case):
    model = randomize(
        keras.Sequential([make() for make in BEFORE_A_DENSE_LAYER[case]])
    )
    exported = Exported(model)
    data = exported.inputs(5)
    content = exported.content("packed_float")
    for row in inspect(content).layers:
        assert row.kind == "binary" and row.bytes == 2 * -(-row.weights // 15)
    assert "MAXIMUM" not in inspect(content).operators
    (expected,), (actual,) = (
        outputs.values()
        for outputs in (exported.expected(data), run(content, data))
    )
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@keras.saving.register_keras_serializable("tests")
class Volume(layers.Layer):
    def call(self, x):
        return x * keras.ops.reshape(keras.ops.det(x), (-1, 1, 1))


def test_the_layer_of_a_missing_operator_is_named_whatever_its_name(tmp_path):
    # Keras' scope of the layer "volume" is "volume_1" in the graph.
    parts = [layers.ReLU(name="volume_1"), Volume(name="volume_2")]
    inner = [keras.Input((4, 4)), Volume(name="volume")]
    model = keras.Sequential(
        [
            keras.Input((4, 4)),
            keras_lab.BinaryDense(4),
            *parts,
            keras.Sequential(inner, name="inner_7"),
        ]
    )
    named = "in layer 'inner_7/volume', layer 'volume_2'."
    with pytest.raises(ConversionError, match=named):
        export_tflite(model, tmp_path / "m.tflite")


def test_layers_are_called_as_before_after_an_export(tmp_path):
    model = keras.Sequential([keras.Input((4,)), keras_lab.BinaryDense(3)])
    export_tflite(model, tmp_path / "m.tflite")
    assert "call" not in vars(model.layers[0])


def test_the_batch_size_of_an_input_is_that_of_the_file(tmp_path):
    path = tmp_path / "m.tflite"
    for layer, shape in (
        (keras_lab.BinaryDense(3), (2, 5)),
        (keras_lab.BinaryLSTM(3), (2, 4, 5)),
    ):
        model = keras.Sequential([keras.Input(batch_shape=shape), layer])
        data = np.ones((3, *shape[1:]), "f")
        export_tflite(model, path, validation_data=data)
        interpreter = make_interpreter(path.read_bytes())
        (details,) = interpreter.get_input_details()
        assert details["shape_signature"].tolist() == list(shape)
    with pytest.raises(ValueError, match="Received: batch_size=3"):
        export_tflite(model, path, batch_size=3)


def test_a_conversion_logs_nothing(tmp_path, caplog):
    model = keras.Sequential([keras.Input((4,)), keras_lab.BinaryDense(3)])
    logging.getLogger("absl").propagate = True
    with caplog.at_level(logging.WARNING):
        export_tflite(model, tmp_path / "m.tflite")
    assert not caplog.records


@pytest.mark.slow
def test_memory_grows_with_the_weights_and_no_faster():
    sizes = [1024, 2048, 3162]  # units of a square kernel; the last is 10 M
    done = subprocess.run(
        [sys.executable, "-m", "tests.tflite_export.memory", *map(str, sizes)],
        check=True,
        capture_output=True,
        text=True,
    )
    rows = [[*map(int, line.split())] for line in done.stdout.splitlines()]
    for (fewer, before), (more, after) in itertools.pairwise(rows):
        assert (after - before) / (more - fewer) < 50
    assert rows[-1][1] < 600e6
