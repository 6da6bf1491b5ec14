"""The time of an inference in each of our formats, relative to `"float"`.

The networks are the paper's MNIST network, an LSTM of 512 cells over 32 steps
of 512 inputs, and three convolutions of the CIFAR-10 network. Everything runs
in the stock interpreter with XNNPACK at batch size 1, with one and with two
threads. In each of several processes the formats take turns, and the best turns
are compared; the ratio is the median over the processes. Load time and memory
come from processes that hold one model only.
"""

import statistics
import tempfile
import time

from benchmarks import networks
from benchmarks.interpreter import measure_alone, measure_turns
from benchmarks.worker import Worker, forget_peak, memory

FORMATS = ("float", "packed", "packed_float", "fast")


def conv(channels, size):
    options = {"filters": channels, "kernel_size": 3, "padding": "same"}
    return [["Input", {"shape": [size, size, channels]}], ["Conv2D", options]]


NETWORKS = {
    "mlp": [
        ["Input", {"shape": [784]}],
        *3 * networks.dense_block(2048),
        ["Dense", {"units": 10}],
    ],
    "lstm": [["Input", {"shape": [32, 512]}], ["LSTM", {"units": 512}]],
    "conv128": conv(128, 32),
    "conv256": conv(256, 16),
    "conv512": conv(512, 8),
}
ALL = list(NETWORKS)
OPTIONS = {"processes": 5, "seconds_per_process": 2.0, "networks": ALL}
QUICK = {"processes": 1, "seconds_per_process": 0.1, "networks": ["conv128"]}


def cells(options):
    return [{"network": network} for network in options.networks]


def measure(cell, options, _):
    """Returns a row per format and number of threads."""
    costs = []
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{format}.tflite" for format in FORMATS]
        for format, path in zip(FORMATS, paths):
            with Worker("benchmarks.inference") as worker:
                task = {**cell, "format": format, "path": path}
                cost = worker.call("export", **task)
            alone = measure_alone(path, options.processes)
            cost["load_milliseconds"] = 1000 * min(alone["load_seconds"])
            cost["memory_bytes"] = max(alone["memory_bytes"])
            costs.append({"format": format, **cost})
        seconds = measure_turns(
            paths, options.processes, options.seconds_per_process
        )
    return [
        {**cost, "threads": int(threads), **compare(times, seconds[0][threads])}
        for cost, found in zip(costs, seconds)
        for threads, times in found.items()
    ]


def compare(times, baseline):
    ratios = [ours / float for ours, float in zip(times, baseline)]
    return {
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "milliseconds": 1000 * min(times),
    }


def export(network, format, path):
    """Writes a file and measures that; runs in a worker."""
    import keras_lab
    from benchmarks.peers import keras_lab as ours
    from tflite_export import export_tflite

    keras_lab.config.keep_memory()
    model, _ = ours.make(NETWORKS[network], "lab")
    forget_peak()
    before, start = memory().resident, time.perf_counter()
    report = export_tflite(model, path, format)
    return {
        "file_bytes": report.file_bytes,
        "export_seconds": time.perf_counter() - start,
        "export_memory_bytes": memory().peak - before,
        "max_error": report.agreement.max_error,
    }
