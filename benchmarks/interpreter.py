"""The time and memory that it takes to load and run a `.tflite` file.

Each measurement should have its own process: `in_fresh_process`.
"""

import gzip
import time
from pathlib import Path

import numpy as np

from benchmarks.worker import Cannot, Worker, forget_peak, memory

__all__ = ["THREADS", "alone", "in_fresh_process", "turns"]

THREADS = (1, 2)


class LiteRT:
    """The stock runtime, with XNNPACK."""

    def __init__(self, path, threads):
        from ai_edge_litert.interpreter import Interpreter

        if path.endswith(".gz"):
            content = gzip.decompress(Path(path).read_bytes())
            source = {"model_content": content}
        else:
            source = {"model_path": path}
        interpreter = Interpreter(**source, num_threads=threads)
        interpreter.allocate_tensors()
        (given,) = interpreter.get_input_details()
        wanted = interpreter.get_output_details()[0]["index"]
        self.invoke = interpreter.invoke

        def outputs(seed):
            data = _example(given["shape"], given["dtype"], seed)
            interpreter.set_tensor(given["index"], data)
            interpreter.invoke()
            return interpreter.get_tensor(wanted)

        self.outputs = outputs
        interpreter.set_tensor(
            given["index"], _example(given["shape"], given["dtype"])
        )


class ComputeEngine:
    """The runtime of larq-compute-engine, with XNNPACK for the rest."""

    def __init__(self, path, threads):
        from larq_compute_engine.tflite.python import interpreter

        content = Path(path).read_bytes()
        engine = interpreter.Interpreter(content, threads, use_xnnpack=True)
        kind = engine.input_shapes[0], engine.input_types[0]
        predict, data = engine.interpreter.predict, _example(*kind)
        self.invoke = lambda: predict([data])
        self.outputs = lambda seed: predict([_example(*kind, seed)])[0]


RUNTIMES = {"litert": LiteRT, "compute_engine": ComputeEngine}


def _example(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if np.issubdtype(dtype, np.integer):
        return rng.integers(0, 64, shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def alone(path, threads=1, runtime="litert"):
    """Returns load time and memory of one model, and its output.

    The output is the difference of two examples' outputs, so that biases do not
    hide what the weights do.

    Raises:
        Cannot: If the output is not finite.
    """
    _import(runtime)
    before = memory()
    forget_peak()
    start = time.perf_counter()
    model = RUNTIMES[runtime](path, threads)
    seconds = time.perf_counter() - start
    for _ in range(3):
        model.invoke()
    after = memory()
    output = np.ravel(model.outputs(0)) - np.ravel(model.outputs(1))
    if not np.isfinite(output).all():
        raise Cannot("outputs are NaN")
    return {
        "load_seconds": seconds,
        "memory_bytes": after.private - before.private,
        "peak_bytes": after.peak - before.resident,
        "output": output.tolist(),
    }


def turns(paths, threads, seconds, runtime="litert"):
    """Returns the seconds per inference of several models that take turns.

    The best turn of each counts: other programs can only slow it down.
    """
    models = [RUNTIMES[runtime](path, threads) for path in paths]
    times = [[] for _ in models]
    for model in models:
        model.invoke()
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds or len(times[0]) < 5:
        for model, results in zip(models, times):
            model.invoke()  # This brings the weights back into the cache.
            count, start = 0, time.perf_counter()
            while count < 3 or time.perf_counter() - start < 0.02:
                model.invoke()
                count += 1
            results.append((time.perf_counter() - start) / count)
    return [min(results) for results in times]


def in_fresh_process(task, python=None, **arguments):
    """Returns the result of `alone` or `turns`, run in its own process."""
    options = {"python": python} if python else {}
    with Worker("benchmarks.interpreter", **options) as worker:
        return worker.call(task, **arguments)


def _import(runtime):
    """Imports what should not be timed."""
    if runtime == "litert":
        from ai_edge_litert import interpreter
    else:
        from larq_compute_engine.tflite.python import (  # noqa: F401
            interpreter,
            interpreter_wrapper_lite,
        )
