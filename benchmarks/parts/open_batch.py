"""Batches in packed files: an open batch size next to a fixed one.

The paper's MNIST network without training, batches of 100 in one thread. Each
file's time is a multiple of the float file's.
"""

import tempfile
from pathlib import Path

import numpy as np

from benchmarks import harness, networks
from benchmarks.interpreter import prepare
from benchmarks.tables import show_ratio
from examples.pages import markdown_table

OPTIONS = {"rounds": 31, "units": 2048, "batch": 100}
QUICK = {"rounds": 2, "units": 64, "batch": 10}


def measure(_, options, content):
    from benchmarks.peers import keras_lab as ours
    from tflite_export import export_tflite

    model, _ = ours.make(networks.describe("mnist", options.units), "lab")
    rng = np.random.default_rng(networks.SEED)
    x = rng.normal(size=(options.batch, 784)).astype("float32")
    runs = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, format, batch in (
            ("float", "float", None),
            ("packed, open", "packed", None),
            ("packed, fixed", "packed", options.batch),
            ("fast, open", "fast", None),
        ):
            path = Path(folder, "m.tflite")
            export_tflite(model, path, format, batch_size=batch)
            runs[name] = prepare(path, x).invoke
    seconds = harness.interleave(runs, options.rounds)
    return [
        {"file": name, "ratio": harness.ratio(seconds, name, "float")}
        for name in runs
    ]


def table(content):
    lines = [[row["file"], show_ratio(row)] for row in content["rows"]]
    return markdown_table(["file, batch size", "time (float = 1)"], lines)
