"""The time and memory that it takes to load and run a `.tflite` file.

`alone` and `turns` run in a worker with the runtime of a peer.
"""

import gzip
import importlib
import time
from pathlib import Path

import numpy as np

from benchmarks.worker import Cannot, forget_peak, memory

ENGINE = "larq_compute_engine.tflite.python"


def litert():
    """The stock runtime, with XNNPACK."""
    from ai_edge_litert.interpreter import Interpreter

    def load(path, threads):
        source = {"model_path": path}
        if path.endswith(".gz"):
            source = {"model_content": gzip.decompress(Path(path).read_bytes())}
        interpreter = Interpreter(**source, num_threads=threads)
        interpreter.allocate_tensors()
        (given,) = interpreter.get_input_details()
        wanted = interpreter.get_output_details()[0]["index"]

        def outputs(seed):
            data = _example(given["shape"], given["dtype"], seed)
            interpreter.set_tensor(given["index"], data)
            interpreter.invoke()
            return interpreter.get_tensor(wanted)

        return interpreter.invoke, outputs

    return load


def compute_engine():
    """The runtime of larq-compute-engine, with XNNPACK for the rest."""
    # It needs its wrapper to be imported.
    importlib.import_module(f"{ENGINE}.interpreter_wrapper_lite")
    engine = importlib.import_module(f"{ENGINE}.interpreter")

    def load(path, threads):
        content = Path(path).read_bytes()
        model = engine.Interpreter(content, threads, use_xnnpack=True)
        kind = model.input_shapes[0], model.input_types[0]
        predict, data = model.interpreter.predict, _example(*kind, seed=0)
        return (
            lambda: predict([data]),
            lambda seed: predict([_example(*kind, seed)])[0],
        )

    return load


# Each imports a runtime and returns a function that loads a file. That function
# returns one that runs the model again, and one that returns its outputs for an
# example.
RUNTIMES = {"keras_lab": litert, "compute_engine": compute_engine}


def prepare(file, x, **options):
    """Returns an interpreter of our own file that has run with inputs x."""
    from tflite_export import make_interpreter

    interpreter = make_interpreter(file, **options)
    (given,) = interpreter.get_input_details()
    interpreter.resize_tensor_input(given["index"], x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(given["index"], x)
    interpreter.invoke()
    return interpreter


def _example(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    if np.issubdtype(dtype, np.integer):
        return rng.integers(0, 64, shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def alone(peer, path):
    """Returns load time and memory of one model, and its output.

    The output is that of one example less that of another: so it shows what the
    weights do, not only the biases.
    """
    load = RUNTIMES[peer]()
    before = memory()
    forget_peak()
    start = time.perf_counter()
    _, outputs = load(path, 1)
    seconds = time.perf_counter() - start
    for _ in range(3):
        outputs(0)
    after = memory()
    output = np.ravel(outputs(0)) - np.ravel(outputs(1))
    if not np.isfinite(output).all():
        raise Cannot("outputs are NaN")
    return {
        "load_seconds": seconds,
        "memory_bytes": after.private - before.private,
        "peak_bytes": after.peak - before.resident,
        "output": output.tolist(),
    }


def turns(peer, paths, threads, seconds):
    """Returns the seconds per inference of several models that take turns."""
    load = RUNTIMES[peer]()
    models = []
    for path in paths:
        invoke, outputs = load(path, threads)
        outputs(0)
        models.append(invoke)
    times = [[] for _ in models]
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds or len(times[0]) < 5:
        for invoke, results in zip(models, times):
            invoke()  # This brings the weights back into the cache.
            count, start = 0, time.perf_counter()
            while count < 3 or time.perf_counter() - start < 0.02:
                invoke()
                count += 1
            results.append((time.perf_counter() - start) / count)
    # Other programs can only slow a turn down, so the best ones count.
    return [min(results) for results in times]
