"""Which layers of a model `binarize_model` converts, and why not the others."""

import dataclasses
import fnmatch

import numpy as np

from keras_lab.convert.blocks import BinaryBlock, attribute_layers, problem_of
from keras_lab.convert.counterparts import (
    can_be_first_or_last,
    can_convert,
    clip_limit,
    is_altered,
    why_not,
)
from keras_lab.convert.graph import first_and_last, trace
from keras_lab.layer_tree import leaf_layers, own_weights, walk
from keras_lab.model_checks import is_functional, is_keras_class

__all__ = ["ConversionReport", "calls_by_path", "choose_layers"]


@dataclasses.dataclass(frozen=True)
class Row:
    """What happened to a layer that has weights.

    Attributes:
        layer: Its path: its name after the names of the models around it.
        kind: Its class.
        weights: The number of its weights.
        skipped: Why it was kept as it is; `None` if it was converted.
    """

    layer: str
    kind: str
    weights: int
    skipped: str | None = None


class ConversionReport(tuple):
    """A `Row` for each layer that has weights. Prints as a table."""

    @property
    def converted(self):
        """The paths of the layers that were converted."""
        return [row.layer for row in self if row.skipped is None]

    def __str__(self):
        cells = [("layer", "type", "weights", "")] + [
            (
                row.layer,
                row.kind,
                f"{row.weights:,}",
                "converted" if row.skipped is None else f"kept: {row.skipped}",
            )
            for row in self
        ]
        widths = [max(map(len, column)) for column in zip(*cells)]
        return "\n".join(
            f"{a:{widths[0]}}  {b:{widths[1]}}  {c:>{widths[2]}}  {d}".rstrip()
            for a, b, c, d in cells
        )


def calls_by_path(model):
    """A call of each layer in the graph of a model, by the path of the layer.

    A subclass of a functional model may have other layers as attributes.
    """
    calls = {id(call.layer): call for call in trace(model).calls}
    layers = leaf_layers(model, is_functional)
    return {path: calls[id(x)] for path, x in layers.items() if id(x) in calls}


def choose_layers(model, calls, options, filters, skip_first, skip_last):
    """Decides which layers of a model are converted.

    Returns:
        A dict from the `id` of each layer to convert to its change, as in a
        plan (see `blocks.py`), and the `ConversionReport`.
    """
    first, last = first_and_last(model, can_be_first_or_last)
    positions = dict.fromkeys(last, "last layer") if skip_last else {}
    if skip_first:
        positions |= dict.fromkeys(first, "first layer")
    chooser = _Chooser(options, _filter_function(filters))
    for path, call in calls.items():
        chooser.choose(path, call, positions.get(id(call.layer)))
    return chooser.changes, ConversionReport(chooser.rows)


class _Chooser:
    def __init__(self, options, wanted):
        self.options, self.wanted = options, wanted
        self.changes, self.rows = {}, []

    def choose(self, path, call, reason):
        """Adds the change of a layer in the graph, and the rows about it."""
        layer = call.layer
        if _has_parts(layer) and is_altered(layer):
            # Its config does not say so.
            reason = f"a layer inside it {is_altered(layer)}"
        elif _has_parts(layer) and reason is None:
            rows, plan = list(self.rows), self._plan(layer, path)
            reason = problem_of(plan, call) if plan else None
            if reason is None:
                if plan:
                    self.changes[id(layer)] = {"plan": plan}
                return
            # The block stays float and whole, so it has a single row.
            self.rows = rows
        if self._judge(path, layer, reason, [path]) is None:
            self.changes[id(layer)] = self._change(layer)

    def _change(self, layer):
        return {"options": self.options, "limit": clip_limit(layer)}

    def _judge(self, path, layer, reason, paths):
        """Adds the row of a layer; returns why it is kept, or `None`."""
        if not self.wanted(paths, layer):
            reason = "not among the filters"
        if isinstance(layer, BinaryBlock):
            reason = "has binary layers inside already"
        elif not (reason and _has_parts(layer)):
            reason = why_not(layer) or reason
        if layer.weights:
            self._add_row(path, layer, layer.weights, reason)
        return reason

    def _add_row(self, path, layer, weights, reason):
        count = sum(int(np.prod(weight.shape)) for weight in weights)
        self.rows.append(Row(path, type(layer).__name__, count, reason))

    def _plan(self, block, path, around=()):
        """The plan of a custom layer, with a row for each layer inside."""
        plan = {}
        paths = {id(x): f"{path}/{name}" for name, x in walk(block).items()}
        around = [*around, path, block.name]
        own = own_weights(block)
        if own:
            self._add_row(path, block, own, "a custom layer")
        for key, part in attribute_layers(block).items():
            inner = paths[id(part)]
            if _has_parts(part):
                inner_plan = self._plan(part, inner, around)
                if inner_plan:
                    plan[key] = {"plan": inner_plan}
            elif self._judge_part(inner, part, [*around, inner]):
                plan[key] = self._change(part)
        return plan

    def _judge_part(self, path, part, paths):
        """Adds the rows of a layer in a block; returns whether to convert it.

        A model in it is converted as a whole, and has a row for each layer.
        """
        inner = {path: part}
        if is_functional(part) and self.wanted(paths, part):
            leaves = leaf_layers(part).items()
            inner = {f"{path}/{name}": layer for name, layer in leaves}
        reasons = [self._judge(p, x, None, paths) for p, x in inner.items()]
        return None in reasons


def _has_parts(layer):
    """Whether it is a custom layer with layers to convert inside."""
    if is_keras_class(type(layer)) or isinstance(layer, BinaryBlock):
        return False
    return any(
        can_convert(part) or is_altered(part) or _has_parts(part)
        for part in attribute_layers(layer).values()
    )


def _filter_function(filters):
    if filters is None:
        return lambda paths, layer: True
    if callable(filters):
        return lambda paths, layer: filters(layer)
    patterns = [filters] if isinstance(filters, str) else filters
    if not (
        isinstance(patterns, (list, tuple))
        and all(isinstance(pattern, str) for pattern in patterns)
    ):
        raise TypeError(
            "`filters` must be None, a pattern for names, a list of patterns, "
            f"or a function of a layer. Received: filters={filters!r}"
        )
    return lambda paths, layer: any(
        fnmatch.fnmatchcase(name, pattern)
        for name in (*paths, layer.name)
        for pattern in patterns
    )
