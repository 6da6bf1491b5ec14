"""`summary`: what a binary network is made of, and what it takes."""

import dataclasses
import math
import tempfile
from collections import Counter
from pathlib import Path

import keras
import numpy as np

from keras_lab.binary_weight import binary_weights
from keras_lab.costs import calls, products
from keras_lab.names import leaf_layers
from keras_lab.rendering import render

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
      is made in memory to be measured. For a layer these are its kernels; α,
      biases, the batch norm and the graph are the last line but one.
    - Multiply-accumulates of the kernels, for one example: 1-bit ones have a
      binary weight, so nothing is multiplied; where the inputs are signs too,
      they are XNORs. A layer that is called twice counts twice.

    Nested models are shown layer by layer.

    Args:
        model: A built model.
        exported: Whether to measure the exported file. It takes about a second,
            several for a large network. Defaults to `True`.
        print_fn: Called with the text instead of `print`.
        return_dict: Whether to return the numbers and print nothing. Defaults
            to `False`.

    Returns:
        `None`, or a dict: `layers`, a list of dicts; `totals`, a dict; and
        `notes`, a list of sentences. What is not known is `None`; `open` says
        whether a layer's operations are those of one position on an axis of
        open size.

    Example:

    >>> keras_lab.summary(model)
    >>> keras_lab.summary(model, return_dict=True)["totals"]["compression"]
    """
    if not isinstance(model, keras.Model):
        raise TypeError(
            "`model` must be a Keras model. "
            f"Received: model={model!r} of type {type(model).__name__}"
        )
    content = _describe(model, exported)
    if return_dict:
        return content
    (print_fn or print)(render(model.name, content))
    return None


def _describe(model, exported):
    notes = []
    if not model.built:
        notes.append(
            "The model is not built yet, so it has no weights: give it a "
            "`keras.Input`, build it, or call it on data first."
        )
        return {"layers": [], "totals": _totals([], None), "notes": notes}
    report = None
    if not binary_weights(model.weights):
        notes.append("The model has no binary weights: nothing to pack.")
    elif exported:
        report, problems = _export(model)
        notes += problems
    packed = _packed_bytes(model, report)
    rows = [_row(entry, packed) for entry in _entries(model)]
    if any(row["binary_macs"] is None for row in rows):
        notes.append(
            "MACs marked ? are those of a layer of another kind. They are not "
            "in the totals."
        )
    if any(row["open"] for row in rows):
        notes.append(
            "MACs marked * are for one position on each axis of open size, "
            "such as a time step."
        )
    return {"layers": rows, "totals": _totals(rows, report), "notes": notes}


@dataclasses.dataclass(frozen=True)
class _Entry:
    """A layer, the input shapes of its calls, and its weights.

    Of weights that layers share, the first layer has them.
    """

    name: str
    layer: keras.Layer
    shapes: list
    weights: list

    @property
    def binary(self):
        return binary_weights(self.weights)

    @property
    def other(self):
        latents = {id(weight.latent) for weight in self.binary}
        return [w for w in self.weights if id(w) not in latents]


def _entries(model):
    seen, entries = set(), []
    shapes = calls(model)
    for name, layer in leaf_layers(model).items():
        weights = [w for w in layer.weights if id(w) not in seen]
        seen.update(map(id, weights))
        entries.append(_Entry(name, layer, shapes[id(layer)], weights))
    return entries


def _row(entry, packed):
    alphas = [weight.alpha.numpy().ravel() for weight in entry.binary]
    exported = None
    if packed is not None:
        # Vectors are folded into one another; matrices stay as they are.
        matrices = [w for w in entry.other if len(w.shape) > 1]
        exported = sum(packed[id(weight)] for weight in entry.binary)
        exported += 4 * _size(matrices)
    return {
        "name": entry.name,
        "type": type(entry.layer).__name__,
        "output_shape": _output_shape(entry),
        "calls": len(entry.shapes),
        "binary_params": _size([w.latent for w in entry.binary]),
        "float_params": _size(entry.other),
        "alpha": np.concatenate(alphas).tolist() if alphas else None,
        "bytes": sum(w.numpy().nbytes for w in entry.weights),
        "exported_bytes": exported,
        **_macs(entry),
    }


def _size(variables):
    return sum(math.prod(variable.shape) for variable in variables)


def _output_shape(entry):
    try:
        outputs = entry.layer.output
        return keras.tree.map_structure(lambda x: tuple(x.shape), outputs)
    except (AttributeError, ValueError):
        pass  # It was never called on a `keras.Input`, or more than once.
    try:
        return tuple(entry.layer.compute_output_shape(entry.shapes[0]))
    except (NotImplementedError, TypeError, ValueError):
        return None


def _macs(entry):
    lists = [products(entry.layer, shape) for shape in entry.shapes]
    parts = [part for parts in lists for part in parts or []]
    if None in lists or any(part.macs is None for part in parts):
        return {**dict.fromkeys(MACS), "open": False}
    # Not only its own weights: a shared one is multiplied here all the same.
    latents = {id(w.latent) for w in binary_weights(entry.layer.weights)}
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
    import tflite_export

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        try:
            # However well it agrees with Keras: it is only measured.
            return tflite_export.export_tflite(
                model, path, tolerance=math.inf
            ), []
        except (
            AttributeError,
            ImportError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            # A table of the model is worth more than no table.
            problem = str(error).strip().split("\n")[0]
            return None, [f"The model cannot be exported: {problem}"]


def _packed_bytes(model, report):
    """The bytes of each binary kernel in the file, by the `id` of its weight.

    The file knows kernels by their paths, which nested models may share.
    """
    if report is None:
        return None
    of_path, sizes = Counter(), Counter()
    for row in report.layers:
        if row.kind == "binary":
            of_path[row.layer] += row.bytes
    weights = binary_weights(model.weights)
    for weight in weights:
        sizes[weight.latent.path] += _size([weight.latent])
    return {
        id(w): of_path[w.latent.path]
        * _size([w.latent])
        // sizes[w.latent.path]
        for w in weights
    }


def _totals(rows, report):
    names = ("binary_params", "float_params", "bytes", *MACS)
    totals = {name: sum(row[name] or 0 for row in rows) for name in names}
    totals["exported_bytes"] = totals["compression"] = None
    if report is not None:
        totals["exported_bytes"] = report.file_bytes
        totals["compression"] = totals["bytes"] / report.file_bytes
    return totals
