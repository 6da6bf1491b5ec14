"""From Keras to a flatbuffer: names, batch sizes, precision, sizes, memory."""

import logging
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_lab
from tests.tflite_export.models import dense, lstm, net
from tests.tflite_export.support import (
    FORMATS,
    Exported,
    randomize,
    tolerance,
)
from tflite_export import (
    export_tflite,
    make_interpreter,
    run,
)
from tflite_export.flatbuffer.model import FlatModel


def states():
    x = keras.Input((4, 5))
    return keras.Model(x, keras_lab.BinaryLSTM(6, return_state=True)(x))


def shared():
    x, y = keras.Input((5,)), keras.Input((5,))
    layer = keras_lab.BinaryDense(3, name="dense")
    return keras.Model([x, y], [layer(x), layer(y)])


def twice():
    x = keras.Input((5,))
    y = keras_lab.BinaryDense(3, name="dense")(x)
    return keras.Model(x, [y, y])


def by_key():
    b, a = keras.Input((6,), name="b"), keras.Input((3, 4), name="a")
    q = keras_lab.BinaryDense(3, name="left")(b)
    p = keras_lab.BinaryDense(2)(keras.layers.Flatten()(a))
    return keras.Model({"b": b, "a": a}, {"q": q, "p": p, "list": [b, q]})


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (states, ["binary_lstm", "binary_lstm_1", "binary_lstm_2"]),
        (shared, ["dense", "dense_1"]),
        (twice, ["dense", "dense_1"]),
        (by_key, ["b", "left", "p", "q"]),
    ],
)
def test_every_input_and_output_has_its_own_name_and_value(make, names):
    keras.utils.clear_session()
    model = Exported(randomize(make()))
    inputs, _ = model.samples(3)
    given = list(inputs.values())
    expected = model.model(
        keras.tree.pack_sequence_as(model.model.input, given)
    )
    for format in FORMATS:
        content = model.content(format)
        inputs_in_file, outputs_in_file = FlatModel(content).signature()
        assert sorted(inputs_in_file) == sorted(inputs)
        assert list(outputs_in_file) == names
        actual = run(content, inputs)
        for name, y in zip(names, keras.tree.flatten(expected), strict=True):
            error = np.abs(actual[name] - y).max() / np.abs(y).max()
            assert error <= tolerance(format), name


@pytest.mark.parametrize(
    ("make", "batch_size", "expected"),
    [
        (net((5,), dense(3)), 3, 3),
        (net((5,), dense(3), batch_size=2), None, 2),
        (net((4, 5), lstm(3)), None, 1),
    ],
)
def test_the_batch_size_is_the_given_one_or_that_of_the_input(
    path, make, batch_size, expected
):
    model = make()
    data = np.ones((7, *model.input_shape[1:]), "f")
    report = export_tflite(
        model, path, batch_size=batch_size, validation_data=data
    )
    assert report.agreement.samples == 7
    (details,) = make_interpreter(path.read_bytes()).get_input_details()
    assert details["shape_signature"][0] == expected


def test_an_export_logs_nothing_and_leaves_the_model_as_it_was(path, caplog):
    model = net((4,), dense(3))()
    logging.getLogger("absl").propagate = True
    with caplog.at_level(logging.WARNING):
        export_tflite(model, path)
    assert not caplog.records
    assert "call" not in vars(model.layers[0])


MEMORY = """
import sys
import keras, keras_lab, tflite_export
from benchmarks.worker import memory

model = keras.Sequential([keras.Input((3162,))])
model.add(keras_lab.BinaryDense(3162, use_bias=False))
model.add(keras.layers.BatchNormalization())
before = memory().resident
tflite_export.export_tflite(model, sys.argv[1])
print(memory().peak - before)
"""


@pytest.mark.slow
def test_an_export_takes_at_most_60_bytes_of_memory_per_weight(path):
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, path],
        check=True,
        capture_output=True,
        text=True,
    )
    assert int(done.stdout) < 60 * 3162**2
