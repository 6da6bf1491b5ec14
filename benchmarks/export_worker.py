"""Exports a network of `inference.py`: a worker, whose memory is its own."""

import time

from benchmarks import memory
from benchmarks.inference import NETWORKS
from benchmarks.workers import serve
from tflite_export import export_tflite


def export(network, format, path):
    """Writes a file: seconds, and the most memory that it took at a time."""
    model = NETWORKS[network]()
    memory.forget_peak()
    before, start = memory.now().resident, time.perf_counter()
    report = export_tflite(model, path, format)
    return {
        "file_bytes": report.file_bytes,
        "export_seconds": time.perf_counter() - start,
        "export_memory_bytes": memory.now().peak - before,
        "max_error": report.agreement.max_error,
    }


if __name__ == "__main__":
    serve(export)
