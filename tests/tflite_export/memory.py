"""Prints, for each size, weights and bytes that an export adds to a process."""

import resource
import sys
import tempfile
from pathlib import Path

import keras

import keras_lab
from tflite_export import export_tflite


def resident():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError("The system does not tell the memory of a process.")


for units in map(int, sys.argv[1:]):
    model = keras.Sequential([keras.Input((units,))])
    model.add(keras_lab.BinaryDense(units, use_bias=False))
    model.add(keras.layers.BatchNormalization())
    before = resident()
    with tempfile.TemporaryDirectory() as folder:
        export_tflite(model, Path(folder) / "m.tflite")
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(units * units, peak - before)
