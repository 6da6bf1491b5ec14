"""What `summary` says about a layer. To add a column, add it to `COLUMNS`."""

import dataclasses
import math
from collections.abc import Callable

import keras
import numpy as np

from keras_lab.analysis.macs import products_of_calls
from keras_lab.binary_weight import weights_of

__all__ = ["COLUMNS", "Column", "LayerFacts", "number"]

UNKNOWN = "?"


class LayerFacts:
    """A layer, and what its numbers are computed from.

    Args:
        name: Its path.
        layer: The layer.
        calls: Its calls in the model.
        weights: Its weights without those that belong to a layer before it.
        stored: For the `id` of each binary weight, its bytes in the exported
            file and whether they are floats. `None` if there is no file.
    """

    def __init__(self, name, layer, calls, weights, stored):
        self.name, self.layer, self.calls = name, layer, calls
        self.weights, self.stored = weights, stored
        self.binary = weights_of(weights)
        self.latents = [weight.latent for weight in self.binary]
        latents = set(map(id, self.latents))
        self.others = [w for w in weights if id(w) not in latents]
        self.products = products_of_calls(layer, calls)
        # Not only its own weights: a shared one is multiplied here all the
        # same.
        self.multiplied = {id(w.latent) for w in weights_of(layer.weights)}

    def macs(self, is_binary=True, only_signs=False):
        """The MACs of some of the products; `None` if they are not known."""
        if self.products is None:
            return None
        return sum(
            part.macs
            for part in self.products
            if (id(part.kernel) in self.multiplied) == is_binary
            and (part.sign_inputs or not only_signs)
        )


def number(count, row=None) -> str:
    """A number as text."""
    return UNKNOWN if count is None else f"{count:,}"


@dataclasses.dataclass(frozen=True)
class Column:
    """A number of each layer.

    Attributes:
        key: Its name in the dicts of `summary`.
        value: A function that computes it from the `LayerFacts`.
        header: The header in the table; `None` if it is not shown.
        text: A function of the number and the dict it is in, for the table.
        total: A function of the numbers of all layers, such as `sum`.
    """

    key: str
    value: Callable
    header: str | None = None
    text: Callable = number
    total: Callable | None = None


def _size(variables):
    return sum(math.prod(variable.shape) for variable in variables)


def _name_and_type(name, row):
    calls = f" × {row['calls']}" if row["calls"] > 1 else ""
    return f"{name} ({row['type']}){calls}"


def _output_shape(facts):
    if not facts.calls:
        # An input, or a layer that is never called.
        return getattr(facts.layer, "batch_shape", None)
    call = facts.calls[0]
    if call.outputs is not None:
        return keras.tree.map_structure(lambda x: tuple(x.shape), call.outputs)
    try:
        return tuple(facts.layer.compute_output_shape(call.input_shape))
    except (AttributeError, NotImplementedError, TypeError, ValueError):
        return None


def _alphas(facts):
    alphas = [weight.alpha.numpy().ravel() for weight in facts.binary]
    return np.concatenate(alphas).tolist() if alphas else None


def _range(alphas, row):
    if alphas is None:
        return ""
    low, high = min(alphas), max(alphas)
    return f"{low:.4f}" if low == high else f"{low:.4f}–{high:.4f}"


def _exported_bytes(facts):
    if facts.stored is None:
        return None
    # The converter folds vectors into one another, but keeps matrices.
    matrices = [weight for weight in facts.others if len(weight.shape) > 1]
    kernels = sum(facts.stored[id(weight)][0] for weight in facts.binary)
    return kernels + 4 * _size(matrices)


def _is_stored_as_float(facts):
    if facts.stored is None:
        return False
    return any(facts.stored[id(weight)][1] for weight in facts.binary)


def _with_mark(count, row):
    if count is None:
        return "–"
    return number(count) + ("!" if row.get("stored_as_float") else "")


def _is_open(facts):
    return any(None in part.axes for part in facts.products or ())


def _with_marks(macs, row):
    more = "" if row.get("complete", True) else f" + {UNKNOWN}"
    return number(macs) + ("*" if row["open"] else "") + more


COLUMNS = (
    Column("name", lambda x: x.name, "Layer (type)", _name_and_type),
    Column("type", lambda x: type(x.layer).__name__),
    Column("calls", lambda x: len(x.calls)),
    Column(
        "output_shape",
        _output_shape,
        "Output shape",
        lambda shape, row: str(shape or UNKNOWN),
    ),
    Column(
        "binary_params", lambda x: _size(x.latents), "1-bit\nparams", total=sum
    ),
    Column(
        "float_params", lambda x: _size(x.others), "32-bit\nparams", total=sum
    ),
    Column("alpha", _alphas, "α", _range),
    Column(
        "bytes",
        lambda x: sum(weight.numpy().nbytes for weight in x.weights),
        "Bytes\nnow",
        total=sum,
    ),
    Column("exported_bytes", _exported_bytes, "Bytes\nexported", _with_mark),
    Column("stored_as_float", _is_stored_as_float),
    Column("binary_macs", LayerFacts.macs, "1-bit\nMACs", _with_marks, sum),
    Column(
        "float_macs",
        lambda x: x.macs(is_binary=False),
        "32-bit\nMACs",
        _with_marks,
        sum,
    ),
    Column("xnor_macs", lambda x: x.macs(only_signs=True), total=sum),
    Column("open", _is_open, total=any),
)
