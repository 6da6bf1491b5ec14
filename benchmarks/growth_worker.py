"""A training step and an export of a network of some size: a worker."""

import tempfile
import time
from pathlib import Path

from benchmarks import harness, memory, stepping, train_step
from benchmarks.workers import serve
from tflite_export import export_tflite

LAYERS = 3


def describe(weights):
    """Square layers with about so many weights, as a list of layers."""
    width = round((weights / LAYERS) ** 0.5 / 4) * 4
    norm = ["BatchNormalization", {"momentum": 0.9, "epsilon": 1e-5}]
    layers = [["Input", {"shape": [width]}]]
    for _ in range(LAYERS):
        dense = ["Dense", {"units": width, "use_bias": False}]
        layers += [dense, norm, ["ReLU", {}]]
    return [*layers, ["Dense", {"units": 10, "use_bias": False}]]


def train(weights, scheme, rounds):
    """Seconds of some training steps, and the peak of memory."""
    memory.forget_peak()
    model, optimizer = train_step.make(describe(weights), scheme)
    step = stepping.stepper(model, optimizer, jit_compile=True, steps=1)
    seconds = harness.interleave({scheme: step}, rounds)[scheme]
    return _result(model, seconds)


def export(weights, rounds):
    """Seconds of some exports of a packed file, and the peak of memory."""
    model, _ = train_step.make(describe(weights), "lab")
    memory.forget_peak()
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "packed.tflite"
        for _ in range(rounds):
            start = time.perf_counter()
            export_tflite(model, path, "packed")
            seconds.append(time.perf_counter() - start)
        return {
            **_result(model, seconds),
            "file_bytes": path.stat().st_size,
        }


def _result(model, seconds):
    kernels = [w.shape for w in model.weights if w.path.endswith("/kernel")]
    return {
        "kernel_weights": sum(rows * columns for rows, columns in kernels),
        "seconds": seconds,
        "peak_bytes": memory.now().peak,
    }


def main():
    serve(train, export)


if __name__ == "__main__":
    main()
