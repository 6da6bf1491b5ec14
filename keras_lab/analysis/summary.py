"""`summary`: what a binary network is made of, and what it takes."""

import dataclasses
import math
from collections import Counter, defaultdict

import keras
import numpy as np

from keras_lab.analysis.macs import Call, calls, products
from keras_lab.analysis.names import leaf_layers
from keras_lab.analysis.summary_table import render
from keras_lab.binary_weight import weights_of
from keras_lab.checks import check_is_model, no_weights_yet, nothing_binary
from keras_lab.exporting import rehearse_export

__all__ = ["summary"]

MACS = ("binary_macs", "float_macs", "xnor_macs")


def summary(
    model: keras.Model,
    exported: bool = True,
    print_fn=None,
    return_dict: bool = False,
) -> dict | None:
    """Prints a table of a model's layers: bits, α, bytes, operations.

    - Parameters: the weights of binary kernels count as 1-bit; all others, the
      scales α among them, as 32-bit. A shared weight counts once.
    - Bytes now: of the variables. Exported: of the packed `.tflite` file, which
      is made to be measured, and thrown away. For a layer these are its
      kernels; α, biases, the batch norm and the graph are the last line but
      one. A binary kernel that the file holds in 32 bits is marked.
    - Multiply-accumulates of the kernels, for one example: 1-bit ones have a
      binary weight, so nothing is multiplied; where the inputs are signs too,
      they are XNORs. A layer that is called twice counts twice.

    Nested models are shown layer by layer.

    Args:
        model: A built model.
        exported: Whether to measure the exported file. That takes as long as
            to export it: a second, ten or more for a large network. Defaults to
            `True`.
        print_fn: Called with the text instead of `print`.
        return_dict: Whether to return the numbers and print nothing. Defaults
            to `False`.

    Returns:
        `None`, or a dict: `layers`, a list of dicts; `totals`, a dict; and
        `notes`, a list of sentences. What is not known is `None`; `open` says
        whether operations are those of one position on an axis of open size,
        and `complete`, of the totals, whether those of all layers are known.

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
    unbuilt = [name for name, layer in layers.items() if not layer.built]
    if not model.built or (unbuilt and not model.weights):
        notes = [no_weights_yet(model)]
        return {"layers": [], "totals": _totals([], None), "notes": notes}
    notes = []
    if unbuilt:
        notes.append(f"Not built yet, so without weights: {', '.join(unbuilt)}")
    report = None
    if not weights_of(model.weights):
        notes.append(nothing_binary(model))
    elif exported:
        report, problems = _export(model)
        notes += problems
    stored = _stored_bytes(model, report) if report else None
    rows = [_row(entry, stored) for entry in _entries(model, layers)]
    totals = _totals(rows, report)
    return {"layers": rows, "totals": totals, "notes": notes + _marks(rows)}


def _marks(rows):
    """What the marks in the table mean."""
    notes = []
    if any(row["binary_macs"] is None for row in rows):
        notes.append(
            "MACs marked ? are those of a layer of another kind, or not built. "
            "They are not in the totals."
        )
    if any(row["open"] for row in rows):
        notes.append(
            "MACs marked * are for one position on each axis of open size, "
            "such as a time step."
        )
    if any(row["stored_as_float"] for row in rows):
        notes.append(
            "Bytes marked ! are of a binary kernel that the file holds in 32 "
            "bits a weight: the converter folded a batch norm into it."
        )
    return notes


@dataclasses.dataclass(frozen=True)
class _Entry:
    """A layer, its calls, and its weights.

    Of weights that layers share, the first layer has them.
    """

    name: str
    layer: keras.Layer
    calls: list[Call]
    weights: list

    @property
    def binary(self):
        return weights_of(self.weights)

    @property
    def other(self):
        latents = {id(weight.latent) for weight in self.binary}
        return [w for w in self.weights if id(w) not in latents]


def _entries(model, layers):
    seen, entries = set(), []
    of_layer = defaultdict(list)
    for call in calls(model):
        of_layer[id(call.layer)].append(call)
    for name, layer in layers.items():
        weights = [w for w in layer.weights if id(w) not in seen]
        seen.update(map(id, weights))
        entries.append(_Entry(name, layer, of_layer[id(layer)], weights))
    return entries


def _row(entry, stored):
    alphas = [weight.alpha.numpy().ravel() for weight in entry.binary]
    return {
        "name": entry.name,
        "type": type(entry.layer).__name__,
        "output_shape": _output_shape(entry),
        "calls": len(entry.calls),
        "binary_params": _size([w.latent for w in entry.binary]),
        "float_params": _size(entry.other),
        "alpha": np.concatenate(alphas).tolist() if alphas else None,
        "bytes": sum(w.numpy().nbytes for w in entry.weights),
        **_exported(entry, stored),
        **_macs(entry),
    }


def _exported(entry, stored):
    if stored is None:
        return {"exported_bytes": None, "stored_as_float": False}
    kernels = [stored[id(weight)] for weight in entry.binary]
    # Vectors are folded into one another; matrices stay as they are.
    matrices = [w for w in entry.other if len(w.shape) > 1]
    return {
        "exported_bytes": sum(n for n, _ in kernels) + 4 * _size(matrices),
        "stored_as_float": any(in_float for _, in_float in kernels),
    }


def _size(variables):
    return sum(math.prod(variable.shape) for variable in variables)


def _output_shape(entry):
    if not entry.calls:
        # An input, or a layer that nobody calls.
        return getattr(entry.layer, "batch_shape", None)
    call = entry.calls[0]
    if call.output_shape is not None or call.shape is None:
        return call.output_shape
    try:
        return tuple(entry.layer.compute_output_shape(call.shape))
    except (NotImplementedError, TypeError, ValueError):
        return None


def _macs(entry):
    lists = [products(entry.layer, call.shape) for call in entry.calls]
    parts = [part for parts in lists for part in parts or []]
    if None in lists or any(part.macs is None for part in parts):
        return {**dict.fromkeys(MACS), "open": False}
    # Not only its own weights: a shared one is multiplied here all the same.
    latents = {id(w.latent) for w in weights_of(entry.layer.weights)}
    binary = [part for part in parts if id(part.kernel) in latents]
    binary_macs = sum(part.macs for part in binary)
    return {
        "binary_macs": binary_macs,
        "float_macs": sum(part.macs for part in parts) - binary_macs,
        "xnor_macs": sum(part.macs for part in binary if part.sign_inputs),
        "open": any(part.is_open for part in parts),
    }


def _export(model):
    """The report on the packed file, or `None`, and why there is none."""
    broken = [
        weight.path
        for weight in model.weights
        if not np.all(np.isfinite(weight.numpy()))
    ]
    if broken:
        return None, [
            "The model cannot be exported: there is a NaN or an infinite "
            f"number in {', '.join(broken)}"
        ]
    # However well it agrees with Keras: it is only measured.
    report, error = rehearse_export(model, tolerance=math.inf)
    if error is None:
        return report, []
    # A table of the model is worth more than no table.
    problem = str(error).strip().split("\n")[0]
    return None, [f"The model cannot be exported: {problem}"]


def _stored_bytes(model, report):
    """The bytes of each binary kernel in the file, and if they are floats.

    By the `id` of the weight. The file knows kernels by their paths, which
    nested models may share.
    """
    in_path, weights_of_path = Counter(), Counter()
    for row in report.layers:
        if row.kind == "binary":
            in_path[row.layer] += row.bytes
    weights = weights_of(model.weights)
    for weight in weights:
        weights_of_path[weight.latent.path] += _size([weight.latent])

    def stored(weight):
        path, size = weight.latent.path, _size([weight.latent])
        if path in report.not_packed:
            return 4 * size, True
        return in_path[path] * size // weights_of_path[path], False

    return {id(weight): stored(weight) for weight in weights}


def _totals(rows, report):
    names = ("binary_params", "float_params", "bytes", *MACS)
    totals = {name: sum(row[name] or 0 for row in rows) for name in names}
    totals["open"] = any(row["open"] for row in rows)
    totals["complete"] = all(row["binary_macs"] is not None for row in rows)
    totals["exported_bytes"] = totals["compression"] = None
    if report is not None:
        totals["exported_bytes"] = report.file_bytes
        totals["compression"] = totals["bytes"] / report.file_bytes
    return totals
