"""`summary`: the bits, bytes and operations of each layer."""

import math
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import keras

from keras_lab.analysis.macs import layer_calls
from keras_lab.analysis.summary_columns import COLUMNS, LayerFacts, about_marks
from keras_lab.analysis.summary_table import render
from keras_lab.binary_weight import binary_weights, weights_of
from keras_lab.layer_tree import leaf_layers
from keras_lab.model_checks import (
    check_is_model,
    is_built,
    no_binary_weights,
    no_weights_yet,
)

__all__ = ["EXPORT_ERRORS", "summary", "trial_export"]

# What the exporter raises for a custom layer that it cannot convert, a full
# disk or a wrong option.
EXPORT_ERRORS = (ArithmeticError, AttributeError, ImportError, LookupError)
EXPORT_ERRORS += (OSError, RuntimeError, TypeError, ValueError)


def summary(
    model: keras.Model,
    exported: bool = True,
    print_fn=None,
    return_dict: bool = False,
) -> dict | None:
    """Prints a table of a model's layers: bits, α, bytes, operations.

    - Parameters: the weights of binary kernels count as 1-bit, all others as
      32-bit, including the scales α. A shared weight counts once.
    - Bytes now: the size of the variables. Bytes exported: the size in the
      packed `.tflite` file, which is written to a temporary folder. A layer
      shows the bytes of its kernels. The second-to-last line shows α, biases,
      batch norm and the graph. A binary kernel that the file stores with 32
      bits per weight is marked.
    - Multiply-accumulates (MACs) of the kernels, per example. A 1-bit MAC has a
      binary weight, so it needs no multiplication. If its inputs are signs,
      too, it is an XNOR. A layer that is called twice counts twice.

    Models inside the model are shown layer by layer.

    Args:
        model: A built model.
        exported: Whether to export the model to measure the file. It takes a
            second, or ten and more for a large network. Defaults to `True`.
        print_fn: A function to call with the text instead of `print`.
        return_dict: Whether to return the numbers instead of printing them.
            Defaults to `False`.

    Returns:
        `None`, or with `return_dict` a dict with `layers`, a list of dicts;
        `totals`, a dict; and `notes`, a list of sentences. Unknown numbers are
        `None`. `open` says whether the MACs are those of one position on an
        axis of open size. `complete`, in the totals, says whether the MACs of
        all layers are known.

    Example:

    >>> keras_lab.summary(model)
    >>> keras_lab.summary(model, return_dict=True)["totals"]["compression"]
    """
    check_is_model(model)
    content = _describe(model, exported)
    if return_dict:
        return content
    (print_fn or print)(render(model.name, content))
    return None


def _describe(model, exported):
    layers = leaf_layers(model)
    if not is_built(model):
        notes = [no_weights_yet(model)]
        return {"layers": [], "totals": _totals([], None), "notes": notes}
    notes = []
    unbuilt = [name for name, layer in layers.items() if not layer.built]
    if unbuilt:
        notes.append(f"Not built, so without weights: {', '.join(unbuilt)}")
    report = None
    if not weights_of(model.weights):
        notes.append(no_binary_weights(model))
    elif exported:
        report, problems = _export(model)
        notes += problems
    stored = _stored_bytes(model, report) if report else None
    rows = [
        {column.key: column.value(facts) for column in COLUMNS}
        for facts in _facts(model, layers, stored)
    ]
    totals = _totals(rows, report)
    return {
        "layers": rows,
        "totals": totals,
        "notes": notes + about_marks(rows),
    }


def _facts(model, layers, stored):
    """What is known about each layer.

    A weight that several layers share belongs to the first of them.
    """
    calls, seen = defaultdict(list), set()
    for call in layer_calls(model):
        calls[id(call.layer)].append(call)
    for name, layer in layers.items():
        weights = [w for w in layer.weights if id(w) not in seen]
        seen.update(map(id, weights))
        yield LayerFacts(name, layer, calls[id(layer)], weights, stored)


def _export(model):
    """The report about the packed file, or `None`, and a list of notes."""
    try:
        # Any tolerance will do: the file is only measured.
        return trial_export(model, tolerance=math.inf), []
    except EXPORT_ERRORS as error:
        # The table is useful without the size of the file.
        problem = str(error).strip().split("\n")[0]
        return None, [f"The model cannot be exported: {problem}"]


def trial_export(model, format="packed", **options):
    """Exports a model to a temporary file; returns the `ExportReport`."""
    import tflite_export

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        return tflite_export.export_tflite(model, path, format, **options)


def _stored_bytes(model, report):
    """The bytes of each binary kernel in the file, and if they are floats.

    The keys are the `id`s of the weights.
    """
    in_file = Counter()
    for row in report.layers:
        if row.kind == "binary":
            in_file[row.layer] += row.bytes
    return {
        id(weight): (4 * math.prod(weight.latent.shape), True)
        if path in report.not_packed
        else (in_file[path], False)
        for path, weight in binary_weights(model).items()
    }


def _totals(rows, report):
    totals = {
        column.key: column.total(row[column.key] or 0 for row in rows)
        for column in COLUMNS
        if column.total is not None
    }
    totals["complete"] = all(row["binary_macs"] is not None for row in rows)
    totals["exported_bytes"] = totals["compression"] = None
    if report is not None:
        totals["exported_bytes"] = report.file_bytes
        totals["compression"] = totals["bytes"] / report.file_bytes
    return totals
