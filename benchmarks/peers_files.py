"""Size, load time, memory and latency of the files that users would ship.

    python -m benchmarks.peers_files

Four networks of the paper: MNIST, CIFAR-10, SVHN with K = 64, and the LSTM of
512 cells over 100 steps. Ours in four formats; the float network in the formats
of TensorFlow's converter and of ai-edge-quantizer; tfmot's network with two
values per kernel, in float32 and int8, compressed with gzip; and larq's for its
own runtime. Kernels are new, biases and batch norms random.

In each of several processes the formats take turns, at batch size 1, with one
and with two threads. Load time and memory come from processes that hold one
model only.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import harness, networks
from benchmarks.interpreter import measure_alone, measure_turns
from benchmarks.peers import environments
from benchmarks.worker import Cannot

NETWORKS = ("mnist", "cifar10", "svhn", "lstm")
OURS = ("packed", "packed_float", "fast", "float")
STOCK = ("tflite_float32", "tflite_float16", "tflite_int8")
# All formats, by the peer that writes them.
FORMATS = {
    **dict.fromkeys((*OURS, *STOCK), "keras_lab"),
    "int4": "edge_quantizer",
    "int2": "edge_quantizer",
    "clusters": "tfmot",
    "clusters_int8": "tfmot",
    "compute_engine": "compute_engine",
}
SOURCE = "tflite_float32"
# These are made from it, so their outputs must be similar to its outputs.
QUANTIZED = ("tflite_float16", "tflite_int8", "int4", "int2")
# Two bits lose a lot. Less than this is an error of the runtime.
LEAST_COSINE = 0.1


class Files:
    """The files of a network, and the reasons for those that are missing.

    Attributes:
        rows: What is known about each format: measurements, or a reason.
        paths: The files that exist.
    """

    def __init__(self, folder, versions):
        self.folder, self.versions = folder, versions
        self.rows, self.paths = {}, {}

    def make(self, peer, formats, function, **arguments):
        """Lets a peer write files."""
        try:
            with environments.start(peer) as worker:
                self.versions[peer] = worker.versions
                made = worker.call(
                    function, **arguments, folder=str(self.folder)
                )
        except Cannot as error:
            self.refuse(formats, error)
            return
        for format, row in made.items():
            self.paths[format] = row.pop("path")
            self.rows[format] = row

    def refuse(self, formats, error):
        """Notes why some formats are missing."""
        print(f"  {', '.join(formats)}: {error.words}. {error.detail}")
        for format in formats:
            self.rows[format] = error.to_json()
            self.paths.pop(format, None)


def make_files(network, width, files):
    """Writes a network in every format."""
    layers = networks.describe(network, width)
    files.make("keras_lab", OURS, "export", network=network, width=width)
    files.make("keras_lab", STOCK, "export_tflite_formats", network=layers)
    source = files.paths.get(SOURCE, "")
    for format in ("int4", "int2"):
        arguments = {"format": format, "source": source}
        files.make("edge_quantizer", [format], "export", **arguments)
    clusters = ("clusters", "clusters_int8")
    files.make("tfmot", clusters, "export", network=layers)
    files.make("compute_engine", ["compute_engine"], "export", network=layers)


def measure_files(files, arguments):
    """Adds the measurements to the row of each file."""
    outputs = {}
    for format, path in list(files.paths.items()):
        try:
            alone = measure_alone(path, arguments.processes, **_runtime(format))
        except Cannot as error:
            files.refuse([format], error)
            continue
        outputs[format] = alone.pop("output")[0]
        file_bytes = Path(path).stat().st_size
        files.rows[format] |= {"file_bytes": file_bytes, **alone}
    check_quantized(files, outputs)
    other = [f for f in files.paths if f == "compute_engine"]
    stock = [f for f in files.paths if f not in other]
    for formats in filter(None, (stock, other)):
        times = measure_turns(
            [files.paths[format] for format in formats],
            arguments.processes,
            arguments.seconds_per_process,
            **_runtime(formats[0]),
        )
        for format, seconds in zip(formats, times):
            files.rows[format]["seconds"] = seconds


def check_quantized(files, outputs):
    """Refuses the files whose outputs have nothing to do with float32's."""
    for format in QUANTIZED:
        if format not in outputs or SOURCE not in outputs:
            continue
        a, b = outputs[format], outputs[SOURCE]
        lengths = np.linalg.norm(a) * np.linalg.norm(b)
        cosine = float(np.dot(a, b) / lengths) if lengths else 0.0
        files.rows[format]["cosine_with_float32"] = cosine
        if cosine < LEAST_COSINE:
            detail = f"cosine with the outputs of float32: {cosine:.3f}"
            files.refuse([format], Cannot("outputs are wrong", detail))


def _runtime(format):
    if format != "compute_engine":
        return {}
    python = str(environments.install(format))
    return {"python": python, "runtime": "compute_engine"}


def cells(arguments):
    return [{"network": network} for network in arguments.networks]


def measure(cell, arguments, journal):
    """Returns a row for each format, missing ones included."""
    task = {"network": cell["network"], "width": arguments.width}
    with environments.start("keras_lab") as worker:
        count = worker.call("count", **task)
    with tempfile.TemporaryDirectory() as folder:
        files = Files(folder, journal.content["versions"])
        make_files(**task, files=files)
        measure_files(files, arguments)
    return [
        {**count, "format": format, "peer": peer, **files.rows[format]}
        for format, peer in FORMATS.items()
    ]


OPTIONS = {
    "processes": 5,
    "seconds_per_process": 2.0,
    "networks": list(NETWORKS),
    "width": None,
}
BENCHMARK = harness.Benchmark("peers_files", __doc__, OPTIONS, cells, measure)


if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
