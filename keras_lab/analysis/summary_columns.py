"""What `summary` says about a layer. To add a column, add it to `COLUMNS`."""

import dataclasses
import math
from collections.abc import Callable

import keras
import numpy as np

from keras_lab.analysis.macs import products_of_calls
from keras_lab.binary_weight import weight_of, weights_of

__all__ = ["COLUMNS", "Column", "LayerFacts", "about_marks", "number"]

UNKNOWN = "?"


class LayerFacts:
    """A layer, and what its numbers are computed from.

    Args:
        name: Its path.
        layer: The layer.
        calls: Its calls in the model.
        weights: Its weights without those that belong to a layer before it.
        in_file: For the `id` of each binary weight, its bytes in the exported
            file and whether they are floats. `None` if there is no file.
    """

    def __init__(self, name, layer, calls, weights, in_file):
        self.name, self.layer, self.calls = name, layer, calls
        self.weights, self.binary = weights, weights_of(weights)
        self.in_file = None
        if in_file is not None:
            self.in_file = [in_file[id(weight)] for weight in self.binary]
        self.latents = [weight.latent for weight in self.binary]
        self.others = [w for w in weights if weight_of(w) is None]
        self.products = products_of_calls(layer, calls)

    def macs(self, counts):
        """The MACs of the products that count; `None` if they are not known."""
        if self.products is None:
            return None
        return sum(part.macs for part in self.products if counts(part))


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
    if facts.in_file is None:
        return None
    # The converter folds vectors into one another, but keeps matrices.
    matrices = [weight for weight in facts.others if len(weight.shape) > 1]
    return sum(size for size, _ in facts.in_file) + 4 * _size(matrices)


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
        "binary_params",
        lambda x: _size(x.latents),
        "1-bit\nparams",
        total=sum,
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
    Column(
        "stored_as_float",
        lambda x: any(as_float for _, as_float in x.in_file or ()),
    ),
    Column(
        "binary_macs",
        lambda x: x.macs(lambda part: part.is_binary),
        "1-bit\nMACs",
        _with_marks,
        sum,
    ),
    Column(
        "float_macs",
        lambda x: x.macs(lambda part: not part.is_binary),
        "32-bit\nMACs",
        _with_marks,
        sum,
    ),
    Column(
        "xnor_macs",
        lambda x: x.macs(lambda part: part.is_binary and part.sign_inputs),
        total=sum,
    ),
    Column("open", _is_open, total=any),
)


def about_marks(rows) -> list[str]:
    """Explains the marks in the table."""
    notes = []
    if any(row["binary_macs"] is None for row in rows):
        notes.append(
            "MACs marked ? are not known: the layer is of another kind, or not "
            "built. The totals do not include them."
        )
    if any(row["open"] for row in rows):
        notes.append(
            "MACs marked * are for one position on each axis of open size, "
            "such as a time step."
        )
    if any(row["stored_as_float"] for row in rows):
        notes.append(
            "Bytes marked ! are those of a binary kernel that the file stores "
            "with 32 bits per weight: the converter folded a batch norm into "
            "it."
        )
    return notes
