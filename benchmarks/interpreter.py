"""What a `.tflite` file costs to load and to run: a worker.

Its process should be a fresh one for each measurement.
"""

import gzip
import time
from pathlib import Path

import numpy as np

from benchmarks import memory
from benchmarks.workers import Cannot, Worker, serve

__all__ = ["alone", "in_fresh_process", "turns"]


class LiteRT:
    """The stock runtime, with XNNPACK."""

    def __init__(self, path, threads):
        from ai_edge_litert.interpreter import Interpreter

        if str(path).endswith(".gz"):
            content = gzip.decompress(Path(path).read_bytes())
            source = {"model_content": content}
        else:
            source = {"model_path": str(path)}
        interpreter = Interpreter(**source, num_threads=threads)
        interpreter.allocate_tensors()
        details = interpreter.get_input_details()[0]
        self.invoke = interpreter.invoke
        output = interpreter.get_output_details()[0]["index"]

        def give(seed):
            data = _example(details["shape"], details["dtype"], seed)
            interpreter.set_tensor(details["index"], data)

        def outputs(seed):
            give(seed)
            interpreter.invoke()
            return interpreter.get_tensor(output)

        self.outputs = outputs
        give(0)


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
    """Load time and memory of one model, and how two examples' outputs differ.

    In the difference there is nothing of what biases add to any output.

    Raises:
        Cannot: If what it computes is not finite.
    """
    _import(runtime)
    before = memory.now()
    memory.forget_peak()
    start = time.perf_counter()
    model = RUNTIMES[runtime](path, threads)
    seconds = time.perf_counter() - start
    for _ in range(3):
        model.invoke()
    after = memory.now()
    output = np.ravel(model.outputs(0)) - np.ravel(model.outputs(1))
    if not np.isfinite(output).all():
        raise Cannot("outputs are NaN")
    return {
        "load_seconds": seconds,
        "bytes": after.private - before.private,
        "peak_bytes": after.peak - before.resident,
        "output": output.tolist(),
    }


def turns(paths, threads, seconds, runtime="litert"):
    """Seconds an inference of several models, which take turns."""
    models = [RUNTIMES[runtime](path, threads) for path in paths]
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


def in_fresh_process(task, python=None, **arguments):
    """The result of `alone` or `turns`, run in a process of its own."""
    options = {"python": python} if python else {}
    with Worker("benchmarks.interpreter", **options) as worker:
        return worker.call(task, **arguments)


def _import(runtime):
    """What is not to be timed."""
    if runtime == "litert":
        from ai_edge_litert import interpreter
    else:
        from larq_compute_engine.tflite.python import (  # noqa: F401
            interpreter,
            interpreter_wrapper_lite,
        )


def main():
    serve(alone, turns)


if __name__ == "__main__":
    main()
