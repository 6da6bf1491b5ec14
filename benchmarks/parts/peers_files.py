"""Size, load time, memory and latency of the files that users would ship.

Four networks of the paper: MNIST, CIFAR-10, SVHN with K = 64, and the LSTM of
512 cells over 100 steps. Ours in four formats; the float network in the formats
of TensorFlow's converter and of ai-edge-quantizer; tfmot's network with two
values per kernel, compressed with gzip; and larq's for its own runtime. Kernels
are new, biases and batch norms random. `containers.py` has the size of our
containers, which expand to the file of `fast`.

In each of several processes the formats take turns, at batch size 1, with one
and with two threads. Load time and memory come from processes that hold one
model only.
"""

import contextlib
import statistics
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.interpreter import RUNTIMES
from benchmarks.peers import environments
from benchmarks.tables import NETWORKS, grid, megabytes, show_times
from benchmarks.worker import Cannot, Worker

OPTIONS = {
    "processes": 5,
    "seconds_per_process": 2.0,
    "networks": ["mnist", "cifar10", "svhn", "lstm"],
    "width": None,
}
QUICK = {"processes": 1, "seconds_per_process": 0.1, "width": 16}
SOURCE = "tflite_float32"
# The formats that each peer writes.
FORMATS = {
    "keras_lab": (
        "packed",
        "packed_float",
        "fast",
        "float",
        SOURCE,
        "tflite_float16",
        "tflite_int8",
    ),
    "edge_quantizer": ("int4", "int2"),
    "tfmot": ("clusters", "clusters_int8"),
    "compute_engine": ("compute_engine",),
}
# These are made from `SOURCE`, so their outputs must be similar to its outputs.
QUANTIZED = ("tflite_float16", "tflite_int8", "int4", "int2")
# Two bits lose a lot. Less than this is an error of the runtime.
LEAST_COSINE = 0.1


def cells(options):
    return [{"network": network} for network in options.networks]


def measure(cell, options, content):
    """Returns a row for each format, missing ones included."""
    network = {**cell, "width": options.width}
    with environments.start("keras_lab", content["versions"]) as worker:
        count = worker.call("count", **network)
    rows = {
        format: {**count, "format": format, "peer": peer}
        for peer, formats in FORMATS.items()
        for format in formats
    }
    with tempfile.TemporaryDirectory() as folder:
        paths = write_files(rows, network, folder, content["versions"])
        measure_files(rows, paths, options)
    return list(rows.values())


def write_files(rows, network, folder, versions):
    """Makes each peer write its formats. Returns the paths of the files."""
    paths = {}
    for peer, formats in FORMATS.items():
        with contextlib.ExitStack() as stack:
            worker = None
            for format in formats:
                suffix = ".tflite.gz" if peer == "tfmot" else ".tflite"
                task = {"format": format, "path": f"{folder}/{format}{suffix}"}
                try:
                    worker = worker or stack.enter_context(
                        environments.start(peer, versions)
                    )
                    rows[format] |= worker.call("export", **task, **network)
                except Cannot as error:
                    rows[format] |= error.to_json()
                else:
                    paths[format] = task["path"]
    return paths


def measure_files(rows, paths, options):
    """Adds the measurements to the row of each file."""
    outputs, good = {}, {peer: [] for peer in RUNTIMES}
    for format, path in paths.items():
        peer = format if format in RUNTIMES else "keras_lab"
        try:
            runs = repeat("alone", peer, options.processes, path=path)
            found = {name: [run[name] for run in runs] for name in runs[0]}
            outputs[format] = found.pop("output")[0]
            if format in QUANTIZED and SOURCE in outputs:
                cosine = check_outputs(outputs[format], outputs[SOURCE])
                rows[format]["cosine_with_float32"] = cosine
        except Cannot as error:
            rows[format] |= error.to_json()
            continue
        good[peer].append(format)
        size = Path(path).stat().st_size
        rows[format] |= {"file_bytes": size, **found, "seconds": {}}
    for peer, formats in good.items():
        task = {
            "paths": [paths[format] for format in formats],
            "seconds": options.seconds_per_process,
        }
        for threads in (1, 2) if formats else ():
            task["threads"] = threads
            times = repeat("turns", peer, options.processes, **task)
            for format, seconds in zip(formats, zip(*times)):
                rows[format]["seconds"][str(threads)] = seconds


def repeat(function, peer, processes, **task):
    """Runs a function of `interpreter.py` in several processes of a peer."""
    python, results = environments.install(peer), []
    for _ in range(processes):
        with Worker("benchmarks.interpreter", python) as worker:
            results.append(worker.call(function, peer=peer, **task))
    return results


def check_outputs(quantized, source):
    """Returns the cosine of two outputs. Raises `Cannot` if it is small."""
    lengths = np.linalg.norm(quantized) * np.linalg.norm(source)
    cosine = float(np.dot(quantized, source) / lengths) if lengths else 0.0
    if cosine < LEAST_COSINE:
        detail = f"cosine with the outputs of float32: {cosine:.3f}"
        raise Cannot("outputs are wrong", detail)
    return cosine


TITLES = {
    "packed": "**packed**",
    "packed_float": "**packed_float**",
    "fast": "**fast**",
    "float": "**float**",
    "tflite_float32": "TFLite float32",
    "tflite_float16": "TFLite float16",
    "tflite_int8": "TFLite int8",
    "int4": "ai-edge-quantizer int4",
    "int2": "ai-edge-quantizer int2",
    "clusters": "tfmot 2 clusters, gzip",
    "clusters_int8": "tfmot 2 clusters, int8, gzip",
    "compute_engine": "larq-compute-engine",
}


def over_limit(row):
    """The file over one bit per binary weight and four bytes per float."""
    limit = row["binary_weights"] / 8 + 4 * row["float_parameters"]
    return f"{row['file_bytes'] / limit:.2f}"


COLUMNS = {
    "file": lambda row: megabytes(row["file_bytes"]),
    "file / limit": over_limit,
    "load, ms": lambda row: show_times(row["load_seconds"], 1000, 0),
    "memory": lambda row: megabytes(statistics.median(row["memory_bytes"])),
    "peak": lambda row: megabytes(statistics.median(row["peak_bytes"])),
    "1 thread, ms": lambda row: show_times(row["seconds"]["1"], 1000),
    "2 threads, ms": lambda row: show_times(row["seconds"]["2"], 1000),
}


def table(content):
    """A table for each network, with its title."""
    columns = {title: ({}, text) for title, text in COLUMNS.items()}
    parts = []
    for network, name in NETWORKS.items():
        lines = {
            title: {"network": network, "format": format}
            for format, title in TITLES.items()
        }
        parts += [f"{name}:", grid(content, "format", lines, columns)]
    return "\n\n".join(parts)
