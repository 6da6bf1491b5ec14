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
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from benchmarks import harness

FORMATS = ("float", "packed", "packed_float", "fast")
THREADS = (1, 2)
# The longest that a format may take, as a ratio to "float".
LIMITS = {
    "mlp": {"packed": 0.30, "fast": 0.20},
    "lstm": {"packed": 1.0, "fast": 0.30},
    "conv128": {"packed": 1.0, "fast": 0.30},
    "conv256": {"packed": 1.0, "fast": 0.30},
    "conv512": {"packed": 1.0, "fast": 0.30},
}
FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "asimddp")


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
            rows[network, format] = run_child("export", network, format, path)
            print(f"exported {network}, {format}", flush=True)
    return rows


def child_export(network, format, path):
    """Writes one file: seconds, and the most memory that the export added."""
    from tflite_export import export_tflite

    model = NETWORKS[network]()
    before = memory("VmRSS")
    start = time.perf_counter()
    report = export_tflite(model, path, format)
    return {
        "network": network,
        "format": format,
        "file_bytes": report.file_bytes,
        "export_seconds": time.perf_counter() - start,
        "export_memory_bytes": memory("VmHWM") - before,
        "max_error": report.agreement.max_error,
    }


def load(path, threads):
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path), num_threads=threads)
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()[0]
    rng = np.random.default_rng(0)
    data = rng.normal(size=details["shape"]).astype(np.float32)
    interpreter.set_tensor(details["index"], data)
    return interpreter


def memory(kind):
    """Bytes of this process: RssAnon are those that are not of a file."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError("The system does not tell the memory of a process.")


def child_alone(path, threads):
    """Load time and memory of one model."""
    from ai_edge_litert import interpreter  # noqa: F401, not to be timed

    before = memory("RssAnon")
    start = time.perf_counter()
    model = load(path, threads)
    seconds = time.perf_counter() - start
    for _ in range(3):
        model.invoke()
    return {"load_seconds": seconds, "bytes": memory("RssAnon") - before}


def child_turns(paths, threads, seconds):
    """Seconds an inference of several models, which take turns."""
    models = [load(path, threads) for path in paths]
    times = [[] for _ in models]
    for model in models:
        model.invoke()
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds or len(times[0]) < 5:
        for model, results in zip(models, times):
            model.invoke()  # brings the weights back into the cache
            count, start = 0, time.perf_counter()
            while count < 3 or time.perf_counter() - start < 0.02:
                model.invoke()
                count += 1
            results.append((time.perf_counter() - start) / count)
    return times


def run_child(task, *arguments):
    """The result of a function above, run in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.inference", "--child"]
    call = json.dumps([task, *arguments])
    done = subprocess.run(
        [*command, call], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def measure(networks, folder, arguments):
    exported = export(networks, folder)
    rows = []
    for network in networks:
        paths = [str(folder / f"{network}-{f}.tflite") for f in FORMATS]
        alone = {
            format: [
                run_child("alone", path, 1) for _ in range(arguments.processes)
            ]
            for format, path in zip(FORMATS, paths)
        }
        for threads in THREADS:
            print(f"{network}, {threads} threads", flush=True)
            processes = [
                run_child("turns", paths, threads, arguments.seconds)
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


def table(rows):
    lines = [
        "| network | format | file | load | memory | 1 thread | 2 threads "
        "| limit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    by_threads = [[r for r in rows if r["threads"] == n] for n in THREADS]
    for one, two in zip(*by_threads):
        limit = "" if one["limit"] is None else f"{one['limit']:.2f}"
        lines.append(
            f"| {one['network']} | {one['format']} "
            f"| {one['file_bytes'] / 1e6:.2f} MB "
            f"| {one['load_milliseconds']:.0f} ms "
            f"| {one['memory_bytes'] / 1e6:.0f} MB "
            f"| {one['ratio']:.2f} | {two['ratio']:.2f} | {limit} |"
        )
    return "\n".join(lines)


def export_table(rows):
    lines = ["| network | format | export | memory |", "|---|---|---|---|"]
    for row in rows:
        if row["threads"] == THREADS[0]:
            lines.append(
                f"| {row['network']} | {row['format']} "
                f"| {row['export_seconds']:.1f} s "
                f"| {row['export_memory_bytes'] / 1e6:.0f} MB |"
            )
    return "\n".join(lines)


def cpu_features():
    words = set(Path("/proc/cpuinfo").read_text().split())
    return [feature for feature in FEATURES if feature in words]


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--processes", type=int, default=5, help="fresh processes a row")
    add("--seconds", type=float, default=2, help="seconds a process")
    add("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    add("--output", default=str(harness.RESULTS / "inference.json"))
    add("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.processes < 1 or arguments.seconds <= 0:
        parser.error(
            "--processes must be at least 1 and --seconds positive. Received: "
            f"--processes {arguments.processes} --seconds {arguments.seconds}"
        )
    return arguments


def main(argv=None):
    arguments = parse(argv)
    if arguments.child:
        task, *values = json.loads(arguments.child)
        tasks = {
            "export": child_export,
            "alone": child_alone,
            "turns": child_turns,
        }
        print(json.dumps(tasks[task](*values)))
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(arguments.networks, Path(folder), arguments)
    print("\n" + table(rows))
    print("\n" + export_table(rows))
    environment = {
        **harness.environment(),
        "ai-edge-litert": importlib.metadata.version("ai-edge-litert"),
        "cpu_features": cpu_features(),
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


if __name__ == "__main__":
    main()
