"""Keeps layers in float32 until int8 arithmetic is precise enough.

The runtime rounds the inputs of an int8 layer to 8 bits, with one range for the
whole tensor. In a deep network the errors of many layers add up, and some
layers add much more than others. `int8_errors` says how much. The worst ones
compute in float32 instead, as few as are needed.
"""

import dataclasses
import sys
from timeit import timeit

import numpy as np

from tflite_export.find import find_binary_constants
from tflite_export.flatbuffer.model import FlatModel
from tflite_export.int8_errors import shares_of_error
from tflite_export.interpreter import make_interpreter, run_batches
from tflite_export.metadata import read_metadata
from tflite_export.plan import plan
from tflite_export.recipe import Recipe
from tflite_export.report import Agreement, InFloat
from tflite_export.rewrite import rewrite
from tflite_export.validate import Reference, measure

# How often each of two files is run to compare their speed.
TIMED_RUNS = 5


def write_in_tolerance(
    content: bytes, recipe: Recipe, reference: Reference, tolerance: float
) -> tuple[bytes, Agreement, InFloat | None]:
    """Writes a float file as the recipe says, with float layers where needed.

    The number of files that are tried is about the logarithm of the number of
    layers. If none is within the tolerance, the result is that with all layers
    in float32.

    Returns:
        The bytes of the file, its agreement with the reference, and which
        layers compute in float32 for the sake of precision, or `None`.
    """
    in_int8 = rewrite(content, recipe)
    agreement = measure(in_int8, reference)
    error = agreement.relative_error
    if error <= tolerance or recipe.format.is_exact:
        return in_int8, agreement, None
    ranked = _ranked(content, recipe, in_int8, reference)
    if not ranked:
        return in_int8, agreement, None
    _say(
        f"int8 arithmetic is off by {error:.3g}, more than {tolerance:g}: "
        "looking for the layers to keep in float32."
    )

    def attempt(count):
        chosen = frozenset(ranked[:count])
        found = rewrite(content, dataclasses.replace(recipe, in_float=chosen))
        of_found = measure(found, reference)
        error = of_found.relative_error
        _say(f"{count} of {len(ranked)} in float32: {error:.3g}")
        return found, of_found, error <= tolerance

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
    weights = read_metadata(FlatModel(best[0]))["weights"]
    paths = {w["path"] for w in weights if w["arithmetic"] == "float32"}
    in_float = InFloat(
        paths=tuple(path for path in ranked if path in paths),
        int8_error=error,
        more_bytes=len(best[0]) - len(in_int8),
        time_ratio=_time_ratio(best[0], in_int8, reference.inputs),
    )
    return *best, in_float


def _say(text):
    print(text, file=sys.stderr, flush=True)


def _ranked(content, recipe, in_int8, reference):
    """The paths of kernels that compute in int8, the worst first."""
    model = FlatModel(content)
    constants = find_binary_constants(
        model, recipe.kernels, recipe.float_layers
    )
    sites = [s for s in plan(model, constants, recipe) if not s.note]
    shares = shares_of_error(model, in_int8, sites, reference.inputs)
    return sorted(shares, key=shares.get, reverse=True)


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
        mine, others = (timeit(i.invoke, number=1) for i in interpreters)
        ratios.append(mine / others)
    return float(np.median(ratios))
