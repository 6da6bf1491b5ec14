"""How a training step and an export grow with the number of weights.

    python -m benchmarks.growth

Three square dense layers with batch norm, 10⁵ to 10⁸ weights in all, at batch
100. Each size has its own process, so its peak of memory is its own.
"""

import sys
import tempfile
import time
from pathlib import Path

from benchmarks import harness, networks
from benchmarks.worker import Cannot, Worker, forget_peak, memory

SMALLEST, LARGEST = 10**5, 10**8
TASKS = ("keras", "lab", "export")
LAYERS = 3


def sizes(most):
    """Returns numbers of weights, two per factor of ten."""
    found, number = [], 0
    while (weights := round(SMALLEST * 10 ** (number / 2))) <= most:
        found.append(weights)
        number += 1
    return found


def describe(weights):
    """Returns square layers with about this many weights."""
    width = round((weights / LAYERS) ** 0.5 / 4) * 4
    output = ["Dense", {"units": 10, "use_bias": False}]
    hidden = LAYERS * networks.dense_block(width)
    return [["Input", {"shape": [width]}], *hidden, output]


def train(weights, method, rounds):
    """Times some training steps; runs in a worker."""
    import keras_lab
    from benchmarks.peers import ours, shared

    keras_lab.config.keep_memory()
    forget_peak()
    model, optimizer = ours.make(describe(weights), method)
    step = shared.stepper(model, optimizer, jit_compile=True, count=1)
    seconds = harness.interleave({method: step}, rounds)[method]
    return _result(model, seconds)


def export(weights, rounds):
    """Times some exports of a packed file; runs in a worker."""
    import keras_lab
    from benchmarks.peers import ours
    from tflite_export import export_tflite

    keras_lab.config.keep_memory()
    model, _ = ours.make(describe(weights), "lab")
    forget_peak()
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "packed.tflite"
        for _ in range(rounds):
            start = time.perf_counter()
            export_tflite(model, path, "packed")
            seconds.append(time.perf_counter() - start)
        file_bytes = path.stat().st_size
    return {**_result(model, seconds), "file_bytes": file_bytes}


def _result(model, seconds):
    kernels = [w.shape for w in model.weights if w.path.endswith("/kernel")]
    return {
        "kernel_weights": sum(rows * columns for rows, columns in kernels),
        "seconds": seconds,
        "peak_bytes": memory().peak,
    }


def measure(task, weights, arguments):
    """Returns a row, measured in its own process."""
    options = {"method": task, "rounds": arguments.rounds}
    if task == "export":
        options = {"rounds": arguments.exports}
    with Worker("benchmarks.growth") as worker:
        function = "export" if task == "export" else "train"
        return worker.call(function, weights=weights, **options)


def run(arguments):
    """Measures what is not in the file yet, small sizes first."""
    names = ("rounds", "exports", "most")
    configuration = {name: getattr(arguments, name) for name in names}
    configuration["seed"] = networks.SEED
    with harness.Journal(
        arguments.output, "growth", configuration, ("task", "weights")
    ) as journal:
        for weights in sizes(arguments.most):
            for task in TASKS:
                cell = {"task": task, "weights": weights}
                if not journal.misses(**cell):
                    continue
                print(f"{task}, {weights:,} weights", flush=True)
                try:
                    result = measure(task, weights, arguments)
                except Cannot as error:
                    result = error.to_json()
                journal.add({**cell, **result})


def parse(argv=None):
    parser = harness.parser(__doc__, "growth")
    add, at_least = parser.add_argument, harness.at_least
    add("--rounds", type=at_least(2), default=21, help="steps per size")
    add("--exports", type=at_least(1), default=3, help="exports per size")
    add("--most", type=at_least(SMALLEST), default=LARGEST, help="weights")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(harness.main(lambda: run(parse())))
