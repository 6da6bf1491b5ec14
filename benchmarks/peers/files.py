"""Size, load time, memory and latency of the files that users would ship.

    python -m benchmarks.peers.files

The four networks of the paper: MNIST, CIFAR-10, SVHN with K=64, and the LSTM of
512 cells over 100 steps. Ours in four formats; the float network in those of
TensorFlow's converter and of ai-edge-quantizer; tfmot's with two values a
kernel, in float32 and in int8, compressed with gzip; and larq's for its own
runtime. Kernels are fresh, biases and batch norms random: nothing here depends
on their values but what is equal, and what gzip makes of the signs.

In each of several fresh processes the formats take turns, at batch size 1, with
one thread and with two. Load time and memory are those of processes that hold
one model only.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import harness, interpreter, tables
from benchmarks.journal import Journal
from benchmarks.peers import environments
from benchmarks.workers import Cannot

NETWORKS = ("mnist", "cifar10", "svhn", "lstm")
FORMATS = {
    "packed": "keras_lab",
    "packed_float": "keras_lab",
    "fast": "keras_lab",
    "float": "keras_lab",
    "tflite_float32": "keras_lab",
    "tflite_float16": "keras_lab",
    "tflite_int8": "keras_lab",
    "int4": "edge_quantizer",
    "int2": "edge_quantizer",
    "clusters": "tfmot",
    "clusters_int8": "tfmot",
    "compute_engine": "compute_engine",
}
SOURCE = "tflite_float32"
# Made of it, and so comparable in what they compute.
QUANTIZED = ("tflite_float16", "tflite_int8", "int4", "int2")
# Two bits lose a lot. Less than this is no loss, but an error of the runtime.
LEAST_COSINE = 0.1


class Files:
    """The files of a network, and what could not be made."""

    def __init__(self, folder, environments_folder, journal):
        self.folder, self.journal = folder, journal
        self.environments = environments_folder
        self.paths, self.refused, self.more = {}, {}, {}

    def make(self, peer, formats, function, **arguments):
        """Has a peer write files; keeps why if it cannot."""
        try:
            with environments.start(peer, self.environments) as worker:
                self.journal.add_versions(peer, worker.versions)
                made = worker.call(
                    function, **arguments, folder=str(self.folder)
                )
        except Cannot as error:
            self.refuse(formats, error)
            return
        for format, result in made.items():
            details = result if isinstance(result, dict) else {"path": result}
            self.paths[format] = details.pop("path")
            self.more[format] = details

    def refuse(self, formats, error):
        """Keeps why some formats are missing."""
        print(f"  {', '.join(formats)}: {error.words}. {error.detail}")
        for format in formats:
            self.refused[format] = error
            self.paths.pop(format, None)


def make_files(network, folder, journal, arguments):
    """Writes a network in every format."""
    files = Files(folder, arguments.environments, journal)
    sizes = arguments.sizes(network)
    with environments.start("keras_lab", arguments.environments) as worker:
        layers = worker.call("describe", network=network, sizes=sizes)
        counts = worker.call("count", network=network, sizes=sizes)
    ours = ("packed", "packed_float", "fast", "float")
    stock = ("tflite_float32", "tflite_float16", "tflite_int8")
    files.make("keras_lab", ours, "export", network=network, sizes=sizes)
    files.make("keras_lab", stock, "export_tflite_formats", network=layers)
    for format in ("int4", "int2"):
        files.make(
            "edge_quantizer",
            [format],
            "export",
            format=format,
            source=files.paths.get(SOURCE, ""),
        )
    clusters = ["clusters", "clusters_int8"]
    files.make("tfmot", clusters, "export", network=layers)
    files.make("compute_engine", ["compute_engine"], "export", network=layers)
    return files, counts


def measure(files, arguments):
    """Adds what was measured to each file's details."""
    outputs = {}
    for format, path in list(files.paths.items()):
        runtime = _runtime(format, arguments)
        try:
            alone = [
                interpreter.in_fresh_process("alone", path=path, **runtime)
                for _ in range(arguments.processes)
            ]
        except Cannot as error:
            files.refuse([format], error)
            continue
        files.more[format] |= {
            "file_bytes": Path(path).stat().st_size,
            "load_seconds": [run["load_seconds"] for run in alone],
            "memory_bytes": [run["bytes"] for run in alone],
            "peak_bytes": [run["peak_bytes"] for run in alone],
            "seconds": {str(threads): [] for threads in tables.THREADS},
        }
        outputs[format] = alone[0]["output"]
    if SOURCE in outputs:
        check_quantized(files, outputs)
    for threads in tables.THREADS:
        for _ in range(arguments.processes):
            _take_turns(files, threads, arguments)


def check_quantized(files, outputs):
    """Refuses the files whose outputs have nothing to do with float32's."""
    for format in QUANTIZED:
        if format not in outputs:
            continue
        cosine = _cosine(outputs[format], outputs[SOURCE])
        files.more[format]["cosine_with_float32"] = cosine
        if cosine < LEAST_COSINE:
            detail = f"cosine with the outputs of float32: {cosine:.3f}"
            files.refuse([format], Cannot("outputs are wrong", detail))


def _cosine(a, b):
    """Of the angle between two outputs: 1 if they agree, 0 if one is zero."""
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    return float(np.dot(a, b) / lengths) if lengths else 0.0


def _take_turns(files, threads, arguments):
    """One round: the stock runtime's formats, and then the other runtime's.

    The best turn of each counts: other programs only ever slow it down.
    """
    stock = [f for f in files.paths if f != "compute_engine"]
    other = [f for f in files.paths if f == "compute_engine"]
    for formats in filter(None, (stock, other)):
        times = interpreter.in_fresh_process(
            "turns",
            paths=[files.paths[format] for format in formats],
            threads=threads,
            seconds=arguments.seconds,
            **_runtime(formats[0], arguments),
        )
        for format, results in zip(formats, times):
            files.more[format]["seconds"][str(threads)].append(min(results))


def _runtime(format, arguments):
    if format != "compute_engine":
        return {}
    python = environments.install(format, arguments.environments)
    return {"python": python, "runtime": "compute_engine"}


def rows_of(network, files, counts):
    """A row for each format, those that could not be made among them."""
    cell = {"network": network, **counts}
    return [
        {
            **cell,
            "format": format,
            "peer": peer,
            **(
                files.refused[format].to_json()
                if format in files.refused
                else files.more[format]
            ),
        }
        for format, peer in FORMATS.items()
    ]


def run(arguments):
    """Measures the networks that the file does not have yet."""
    journal = Journal(
        arguments.output,
        "peers_files",
        {
            "processes": arguments.processes,
            "seconds_a_process": arguments.seconds,
            "width": arguments.width,
        },
        keys=("network", "format"),
    )
    for network in arguments.networks:
        if not journal.misses(network=network):
            continue
        print(network, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            made = make_files(network, folder, journal, arguments)
            measure(made[0], arguments)
            journal.add(*rows_of(network, *made))
    # Some networks only are not the whole part.
    if {row["network"] for row in journal.content["rows"]} >= set(NETWORKS):
        journal.finish()


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    positive = harness.at_least(1)
    add("--processes", type=positive, default=5, help="fresh processes a row")
    add("--seconds", type=float, default=2, help="seconds a process")
    add("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    add("--width", type=positive, help="of the networks; default: the paper's")
    add("--output", default=str(harness.RESULTS / "peers_files.json"))
    environments.add_option(parser)
    arguments = parser.parse_args(argv)
    arguments.sizes = lambda network: (
        {"cells" if network == "lstm" else "width": arguments.width}
        if arguments.width
        else {}
    )
    return arguments


def main(argv=None) -> int:
    return harness.report_errors(lambda: run(parse(argv)))


if __name__ == "__main__":
    sys.exit(main())
