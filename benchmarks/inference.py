"""The time of an inference in each of our formats, relative to `"float"`.

    python -m benchmarks.inference

The networks are the paper's MNIST network, an LSTM of 512 cells over 32 steps
of 512 inputs, and three convolutions of the CIFAR-10 network. Everything runs
in the stock interpreter with XNNPACK at batch size 1, with one and with two
threads. In each of several processes the formats take turns, and the best turns
are compared; the ratio is the median over the processes. Load time and memory
come from processes that hold one model only.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import harness, networks
from benchmarks.interpreter import THREADS, in_fresh_process
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


def export(network, format, path):
    """Writes a file and measures that; runs in a worker."""
    import keras_lab
    from benchmarks.peers import ours
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


def measure(network, folder, arguments):
    """Returns the rows of a network, one per format and number of threads."""
    count = range(arguments.processes)
    paths = [str(folder / f"{network}-{f}.tflite") for f in FORMATS]
    costs = []
    for format, path in zip(FORMATS, paths):
        with Worker("benchmarks.inference") as worker:
            cost = worker.call(
                "export", network=network, format=format, path=path
            )
        alone = [in_fresh_process("alone", path=path) for _ in count]
        load = min(run["load_seconds"] for run in alone)
        cost["load_milliseconds"] = 1000 * load
        cost["memory_bytes"] = max(run["memory_bytes"] for run in alone)
        costs.append(cost)
    rows = []
    for threads in THREADS:
        options = {"threads": threads, "seconds": arguments.seconds}
        times = [
            in_fresh_process("turns", paths=paths, **options) for _ in count
        ]
        for number, format in enumerate(FORMATS):
            ratios = [run[number] / run[0] for run in times]
            rows.append(
                {
                    "network": network,
                    "format": format,
                    **costs[number],
                    "threads": threads,
                    "ratio": statistics.median(ratios),
                    "ratios": ratios,
                    "milliseconds": 1000 * min(run[number] for run in times),
                }
            )
    return rows


def run(arguments):
    """Measures the networks that are not in the file yet."""
    configuration = {
        "processes": arguments.processes,
        "seconds_per_process": arguments.seconds,
        "seed": networks.SEED,
    }
    keys = ("network", "format", "threads")
    with harness.Journal(
        arguments.output, "inference", configuration, keys
    ) as journal:
        for network in arguments.networks:
            if journal.misses(network=network):
                print(network, flush=True)
                with tempfile.TemporaryDirectory() as folder:
                    journal.add(*measure(network, Path(folder), arguments))


def parse(argv=None):
    parser = harness.parser(__doc__, "inference")
    add, positive = parser.add_argument, harness.at_least(1)
    add("--processes", type=positive, default=5, help="processes per row")
    add("--seconds", type=float, default=2, help="seconds per process")
    add("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(harness.main(lambda: run(parse())))
