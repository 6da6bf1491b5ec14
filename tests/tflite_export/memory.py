"""Prints, for each size, weights and bytes that an export adds to a process."""

import resource
import sys
import tempfile
from pathlib import Path

import keras

import keras_lab
from tflite_export import export_tflite


def resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


for units in map(int, sys.argv[1:]):
    model = keras.Sequential([keras.Input((units,))])
    model.add(keras_lab.BinaryDense(units, use_bias=False))
    model.add(keras.layers.BatchNormalization())
    before = resident()
    with tempfile.TemporaryDirectory() as folder:
        export_tflite(model, Path(folder) / "m.tflite")
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(units * units, peak - before)
