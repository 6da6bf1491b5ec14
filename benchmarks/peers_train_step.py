"""The time of a training step with each library, relative to plain Keras.

The networks are those of `train_step.py`. TensorFlow keeps its memory in all
processes, as `keras_lab.config.keep_memory()` makes it do.
"""

import functools

from benchmarks import train_step

OPTIONS = {**train_step.OPTIONS, "rounds": 11}
QUICK = train_step.QUICK
METHODS = {
    "keras_lab": ("keras", "lab", "bwn", "binary_connect", "lab2"),
    "larq": ("tf_keras", "larq_weights", "larq"),
    "tfmot": ("qat", "clusters"),
}

cells = functools.partial(train_step.cells, allocators=["bfc"])
measure = functools.partial(train_step.measure, methods=METHODS)
