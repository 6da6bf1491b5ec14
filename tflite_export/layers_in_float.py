"""Keeps layers in float32 until int8 arithmetic is precise enough.

The runtime rounds the inputs of an int8 layer to 8 bits, with one range for the
whole tensor. In a deep network the errors of many layers add up, and some
layers add much more than others. `int8_errors` says how much. The worst ones
compute in float32 instead, as few as are needed.
"""

import copy
import sys
import time

import numpy as np

from tflite_export.agreement import Agreement, InFloat
from tflite_export.find import find_binary_constants
from tflite_export.flatbuffer.model import FlatModel
from tflite_export.int8_errors import shares_of_error
from tflite_export.interpreter import make_interpreter, run_batches
from tflite_export.metadata import read_metadata
from tflite_export.plan import plan
from tflite_export.rewrite import rewrite
from tflite_export.validate import Reference, measure

# How often each of two files is run to compare their speed.
TIMED_RUNS = 5


def write_in_tolerance(
    model: FlatModel, options: dict, reference: Reference, tolerance: float
) -> tuple[bytes, Agreement, InFloat | None]:
    """Writes a float model in a format, with float layers where needed.

    The number of files that are tried is about the logarithm of the number of
    layers. If none is within the tolerance, the result is that with all layers
    in float32.

    Args:
        model: The float model.
        options: The arguments of `rewrite` by name, except `in_float`.
        reference: What the file must compute.
        tolerance: The largest relative error.

    Returns:
        The bytes of the file, its agreement with the reference, and which
        layers compute in float32 for the sake of precision, or `None`.
    """

    def write(in_float=()):
        new = copy.deepcopy(model)
        return rewrite(new, **options, in_float=frozenset(in_float))

    content = write()
    agreement = measure(content, reference)
    if agreement.relative_error <= tolerance or options["format"].is_exact:
        return content, agreement, None
    ranked = _ranked(model, content, reference, **options)
    if not ranked:
        return content, agreement, None
    progress = _Progress(agreement.relative_error, tolerance, len(ranked))

    def attempt(count):
        found = write(ranked[:count])
        of_found = measure(found, reference)
        progress.tried(count, of_found)
        return found, of_found, of_found.relative_error <= tolerance

    # With `most` in float32 the tolerance holds, with `fewest` it does not.
    fewest, most = 0, len(ranked)
    *best, holds = attempt(most)
    while holds and most - fewest > 1:
        count = (fewest + most) // 2
        *tried, is_enough = attempt(count)
        if is_enough:
            most, best = count, tried
        else:
            fewest = count
    # A small file may have more layers in float32, to take fewer bytes.
    in_float32 = _in_float32(best[0])
    in_float = InFloat(
        paths=tuple(path for path in ranked if path in in_float32),
        int8_error=agreement.relative_error,
        more_bytes=len(best[0]) - len(content),
        time_ratio=_time_ratio(best[0], content, reference.inputs),
    )
    return *best, in_float


def _ranked(
    model, content, reference, format, kernels, float_layers, runtime, **_
):
    """The paths of kernels that compute in int8, the worst first."""
    constants = find_binary_constants(model, kernels, float_layers)
    sites = plan(model, constants, format, runtime)
    in_int8 = [site for site in sites if not site.note]
    shares = shares_of_error(model, content, in_int8, reference.inputs)
    return sorted(shares, key=shares.get, reverse=True)


def _in_float32(content):
    """The paths of the kernels of a file that compute in float32."""
    weights = read_metadata(FlatModel(content))["weights"]
    return {w["path"] for w in weights if w["arithmetic"] == "float32"}


def _time_ratio(content, other, inputs):
    """How long a file takes for one sample, as a multiple of another."""
    interpreters = []
    for part in (content, other):
        interpreter = make_interpreter(part)
        names, _ = FlatModel(part).signature()
        values = {names[name]: x[:1] for name, x in inputs.items()}
        run_batches(interpreter, values, (), 1)
        interpreters.append(interpreter)
    ratios = []
    for _ in range(TIMED_RUNS):
        times = []
        for interpreter in interpreters:
            start = time.perf_counter()
            interpreter.invoke()
            times.append(time.perf_counter() - start)
        ratios.append(times[0] / times[1])
    return float(np.median(ratios))


class _Progress:
    """Says on the standard error what is tried."""

    def __init__(self, error, tolerance, layers):
        self.layers = layers
        self._print(
            f"int8 arithmetic is off by {error:.3g}, more than {tolerance:g}: "
            "looking for the layers to keep in float32."
        )

    def tried(self, count, agreement):
        error = agreement.relative_error
        self._print(f"{count} of {self.layers} in float32: {error:.3g}")

    def _print(self, text):
        print(text, file=sys.stderr, flush=True)
