"""The time of a training step with each library, relative to plain Keras.

    python -m benchmarks.peers_train_step

The networks are those of `train_step.py`. TensorFlow keeps its memory in all
processes, as `keras_lab.config.keep_memory()` makes it do.
"""

import functools
import sys

from benchmarks import harness, train_step

METHODS = {
    "keras_lab": ("keras", "lab", "bwn", "binary_connect", "lab2"),
    "larq": ("tf_keras", "larq_weights", "larq"),
    "tfmot": ("qat", "clusters"),
}
BENCHMARK = harness.Benchmark(
    "peers_train_step",
    __doc__,
    {**train_step.OPTIONS, "rounds": 11},
    functools.partial(train_step.cells, allocators=["bfc"]),
    functools.partial(train_step.measure, methods=METHODS),
)


if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
