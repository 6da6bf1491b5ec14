"""Prints, for each size, weights and bytes that an export adds to a process."""

import sys
import tempfile
from pathlib import Path

import keras

import keras_lab
from tflite_export import export_tflite


def memory(field):
    """A field of /proc/self/status in bytes.

    `ru_maxrss` would begin with the peak of the process that started this one.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return 1024 * int(line.split()[1])


for units in map(int, sys.argv[1:]):
    model = keras.Sequential([keras.Input((units,))])
    model.add(keras_lab.BinaryDense(units, use_bias=False))
    model.add(keras.layers.BatchNormalization())
    before = memory("VmRSS")
    with tempfile.TemporaryDirectory() as folder:
        export_tflite(model, Path(folder) / "m.tflite")
    print(units * units, memory("VmHWM") - before)
