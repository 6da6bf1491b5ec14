"""The time of a dense layer with INT2 weights, over that with INT4 weights.

`"fast"` stores INT4. INT2 would take half the bytes in the expanded file and in
memory, and the same in a container.
"""

import tempfile
from pathlib import Path

import numpy as np

from benchmarks import harness
from benchmarks.interpreter import prepare
from benchmarks.networks import SEED
from benchmarks.tables import grid, lines_of

LAYERS = {
    "dense 2048-2048": ((2048,), 2048),
    "dense 512-2048": ((512,), 2048),
    "dense 512-512, 16 rows": ((16, 512), 512),
}
OPTIONS = {"layers": list(LAYERS), "rounds": 41, "runs": 50}
QUICK = {"layers": ["dense 512-2048"], "rounds": 2, "runs": 2}


def cells(options):
    return [
        {"layer": layer, "runtime": runtime, "threads": threads}
        for layer in options.layers
        for runtime in ("litert", "tf")
        for threads in (1, 2)
    ]


def measure(cell, options, _):
    import keras

    import keras_lab
    from tflite_export import export_tflite

    keras.utils.set_random_seed(SEED)
    shape, units = LAYERS[cell["layer"]]
    layers = [keras.Input(shape, batch_size=1), keras_lab.BinaryDense(units)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.tflite")
        export_tflite(keras.Sequential(layers), path, "fast")
        int4 = path.read_bytes()
    x = np.random.default_rng(SEED).normal(size=(1, *shape)).astype("float32")
    runtime = {"runtime": cell["runtime"], "threads": cell["threads"]}
    files = {"int4": int4, "int2": with_int2(int4)}
    models = {name: prepare(file, x, **runtime) for name, file in files.items()}
    outputs = [
        model.get_tensor(model.get_output_details()[0]["index"])
        for model in models.values()
    ]
    runs = {
        name: lambda model=model: [model.invoke() for _ in range(options.runs)]
        for name, model in models.items()
    }
    seconds = harness.interleave(runs, options.rounds)
    # Other programs can only slow a round down, so the best ones count.
    best = {name: min(times) for name, times in seconds.items()}
    error = np.abs(outputs[1] - outputs[0]).max() / np.abs(outputs[0]).max()
    return [
        {
            "ratio": best["int2"] / best["int4"],
            "of_rounds": harness.ratio(seconds, "int2", "int4"),
            "difference": float(error),
        }
    ]


def with_int2(content):
    """The file with its INT4 weights as INT2."""
    # Private API of the exporter, which has no format with INT2.
    from tflite_export.flatbuffer.model import FlatModel
    from tflite_export.flatbuffer.schema import pack_low_bits, schema

    model = FlatModel(content)
    for subgraph in model.subgraphs:
        for tensor in subgraph.tensors:
            if model.type_name(tensor) == "INT4":
                bits = pack_low_bits(model.constant(tensor), 2)
                tensor.type = schema.TensorType.INT2
                tensor.buffer = model.add_buffer(bits)
    return model.to_bytes()


def table(content):
    columns = {
        f"{title}, {threads} thread{'s' * (threads > 1)}": (
            {"runtime": runtime, "threads": threads},
            lambda row: f"{row['ratio']:.1f}",
        )
        for runtime, title in (("litert", "LiteRT"), ("tf", "TensorFlow"))
        for threads in (1, 2)
    }
    return grid(content, "layer", lines_of(content, "layer"), columns)
