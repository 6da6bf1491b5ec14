"""What inference costs in each format, as a ratio to the float one.

    python -m benchmarks.inference

The networks are the paper's MNIST network, an LSTM layer of 512 cells over 32
steps of 512 inputs, and three convolutions of its CIFAR-10 network. Everything
runs in the stock interpreter with XNNPACK, at batch size 1, with one thread and
with two. In each of several fresh processes the formats take turns, and the
best turns are compared; the ratio is the median of the processes. Load time and
memory are those of processes that hold one model only.
"""

import argparse
import importlib.metadata
import os
import statistics
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks import harness, tables
from benchmarks.interpreter import in_fresh_process
from benchmarks.workers import Worker

FORMATS = ("float", "packed", "packed_float", "fast")
# The longest that a format may take, as a ratio to "float".
LIMITS = {
    "mlp": {"packed": 0.30, "fast": 0.20},
    "lstm": {"packed": 1.0, "fast": 0.30},
    "conv128": {"packed": 1.0, "fast": 0.30},
    "conv256": {"packed": 1.0, "fast": 0.30},
    "conv512": {"packed": 1.0, "fast": 0.30},
}


def mlp():
    import keras

    import keras_lab

    model = keras.Sequential([keras.Input((784,))])
    for units in (2048, 2048, 2048):
        model.add(keras_lab.BinaryDense(units, use_bias=False))
        model.add(keras.layers.BatchNormalization())
        model.add(keras.layers.ReLU())
    model.add(keras_lab.BinaryDense(10))
    return model


def lstm():
    import keras

    import keras_lab

    layer = keras_lab.BinaryLSTM(512)
    return keras.Sequential([keras.Input((32, 512)), layer])


def conv(channels, size):
    import keras

    import keras_lab

    layer = keras_lab.BinaryConv2D(channels, 3, padding="same")
    return keras.Sequential([keras.Input((size, size, channels)), layer])


NETWORKS = {
    "mlp": mlp,
    "lstm": lstm,
    "conv128": lambda: conv(128, 32),
    "conv256": lambda: conv(256, 16),
    "conv512": lambda: conv(512, 8),
}


def export(networks, folder):
    """Writes each file in a process of its own, and measures that."""
    rows = {}
    for network in networks:
        for format in FORMATS:
            path = str(folder / f"{network}-{format}.tflite")
            with Worker("benchmarks.export_worker") as worker:
                result = worker.call(
                    "export", network=network, format=format, path=path
                )
            rows[network, format] = {
                "network": network,
                "format": format,
                **result,
            }
            print(f"exported {network}, {format}", flush=True)
    return rows


def measure(networks, folder, arguments):
    exported = export(networks, folder)
    rows = []
    for network in networks:
        paths = [str(folder / f"{network}-{f}.tflite") for f in FORMATS]
        alone = {
            format: [
                in_fresh_process("alone", path=path)
                for _ in range(arguments.processes)
            ]
            for format, path in zip(FORMATS, paths)
        }
        for threads in tables.THREADS:
            print(f"{network}, {threads} threads", flush=True)
            processes = [
                in_fresh_process(
                    "turns",
                    paths=paths,
                    threads=threads,
                    seconds=arguments.seconds,
                )
                for _ in range(arguments.processes)
            ]
            for number, format in enumerate(FORMATS):
                # The best turn of each: other programs only ever slow it down.
                ratios = [
                    min(times[number]) / min(times[0]) for times in processes
                ]
                rows.append(
                    {
                        **exported[network, format],
                        "threads": threads,
                        "ratio": statistics.median(ratios),
                        "ratios": ratios,
                        "milliseconds": 1e3
                        * min(min(times[number]) for times in processes),
                        "load_milliseconds": 1e3
                        * min(run["load_seconds"] for run in alone[format]),
                        "memory_bytes": max(
                            run["bytes"] for run in alone[format]
                        ),
                        "limit": LIMITS[network].get(format),
                    }
                )
    return rows


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--processes", type=int, default=5, help="fresh processes a row")
    add("--seconds", type=float, default=2, help="seconds a process")
    add("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    add("--output", default=str(harness.RESULTS / "inference.json"))
    arguments = parser.parse_args(argv)
    if arguments.processes < 1 or arguments.seconds <= 0:
        parser.error(
            "--processes must be at least 1 and --seconds positive. Received: "
            f"--processes {arguments.processes} --seconds {arguments.seconds}"
        )
    return arguments


def run(arguments):
    """Measures all, and writes the file."""
    harness.check_output(arguments.output)
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(arguments.networks, Path(folder), arguments)
    print("\n" + tables.inference(rows))
    environment = {
        **harness.environment(),
        "ai-edge-litert": importlib.metadata.version("ai-edge-litert"),
    }
    harness.write_json(
        arguments.output,
        {
            "benchmark": "inference",
            "configuration": {
                "processes": arguments.processes,
                "seconds_a_process": arguments.seconds,
            },
            "environment": environment,
            "rows": rows,
        },
    )
    print(f"\nwrote {arguments.output}")


def main(argv=None) -> int:
    return harness.report_errors(lambda: run(parse(argv)))


if __name__ == "__main__":
    sys.exit(main())
