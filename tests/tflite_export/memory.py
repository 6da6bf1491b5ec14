"""Prints, for each size, weights and bytes that an export adds to a process."""

import sys
import tempfile
from pathlib import Path

import keras

import keras_lab
from benchmarks.worker import memory
from tflite_export import export_tflite

for units in map(int, sys.argv[1:]):
    model = keras.Sequential([keras.Input((units,))])
    model.add(keras_lab.BinaryDense(units, use_bias=False))
    model.add(keras.layers.BatchNormalization())
    before = memory().resident
    with tempfile.TemporaryDirectory() as folder:
        export_tflite(model, Path(folder) / "m.tflite")
    print(units * units, memory().peak - before)
