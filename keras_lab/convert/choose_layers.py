"""Which layers of a model `binarize_model` converts, and why not the others."""

import fnmatch

import numpy as np

from keras_lab.convert.blocks import BinaryBlock, parts_of
from keras_lab.convert.conversion_report import ConversionReport, Row
from keras_lab.convert.counterparts import (
    can_convert,
    clip_limit,
    counts,
    is_altered,
    why_not,
)
from keras_lab.convert.graph import (
    first_and_last,
    is_functional,
    is_keras_class,
    leaf_layers,
    walk,
)

__all__ = ["Chooser", "layers_of_graph"]


class Chooser:
    """Decides which layers of a model are converted, and why others are not.

    Attributes:
        plans: For each custom layer with layers to convert, by its id, the plan
            of a `BinaryBlock`. For each other layer to convert, an empty one.
    """

    def __init__(self, model, options, filters, skip_first, skip_last):
        self.model, self.options = model, options
        self.wanted = _filter_function(filters)
        first, last = first_and_last(model, counts)
        self.first = first if skip_first else set()
        self.last = last if skip_last else set()
        self.kept = {}
        self.plans = {}
        self.rows = []

    def keep(self, layer, reason):
        """Keeps a layer as it is."""
        self.kept[id(layer)] = reason

    def choose(self):
        """Sets `plans`; returns the report."""
        self.plans, self.rows = {}, []
        for path, layer in layers_of_graph(self.model).items():
            reason = self.kept.get(id(layer)) or self._position(layer)
            if reason is None and _has_parts(layer):
                plan = self._plan(layer, path)
                if plan:
                    self.plans[id(layer)] = plan
            elif self._add_row(path, layer, reason, [path]) is None:
                self.plans[id(layer)] = {}
        return ConversionReport(self.rows)

    def _position(self, layer):
        if not (can_convert(layer) or _has_parts(layer)):
            return None
        if _has_parts(layer) and is_altered(layer):
            # Its config does not say so.
            return f"a layer inside it {is_altered(layer)}"
        if id(layer) in self.first:
            return "first layer"
        return "last layer" if id(layer) in self.last else None

    def _add_row(self, path, layer, reason, paths):
        """Adds a row; returns why the layer is kept."""
        if not self.wanted(paths, layer):
            reason = "not among the filters"
        if isinstance(layer, BinaryBlock):
            reason = "has binary layers inside already"
        elif not (reason and _has_parts(layer)):
            reason = why_not(layer) or reason
        if layer.weights:
            count = sum(int(np.prod(w.shape)) for w in layer.weights)
            self.rows.append(Row(path, type(layer).__name__, count, reason))
        return reason

    def _plan(self, block, path, around=()):
        """The plan of a custom layer, with a row for each layer inside."""
        plan, seen = {}, set()
        paths = {id(x): f"{path}/{p}" for p, x in walk(block).items()}
        around = [*around, path, block.name]
        self._add_own_row(path, block)
        for key, part in parts_of(block).items():
            if id(part) in seen:
                continue
            seen.add(id(part))
            inner = paths[id(part)]
            if _has_parts(part):
                inner_plan = self._plan(part, inner, around)
                if inner_plan:
                    plan[key] = {"plan": inner_plan}
            elif self._add_rows(inner, part, [*around, inner]):
                limit = clip_limit(part)
                plan[key] = {"options": self.options, "limit": limit}
        return plan

    def _add_rows(self, path, part, paths):
        """Adds the rows of a layer in a block; returns whether to convert it.

        A model in it is converted as a whole, and has a row for each layer.
        """
        if not is_functional(part) or not self.wanted(paths, part):
            return self._add_row(path, part, None, paths) is None
        inner = leaf_layers(part).items()
        reasons = [
            self._add_row(f"{path}/{name}", x, None, paths) for name, x in inner
        ]
        return None in reasons

    def _add_own_row(self, path, block):
        inner = {id(w) for part in walk(block).values() for w in part.weights}
        own = [w for w in block.weights if id(w) not in inner]
        if own:
            count = sum(int(np.prod(w.shape)) for w in own)
            kind = type(block).__name__
            self.rows.append(Row(path, kind, count, "a custom layer"))


def _has_parts(layer):
    """Whether it is a custom layer with layers to convert inside."""
    if is_keras_class(type(layer)) or isinstance(layer, BinaryBlock):
        return False
    return any(
        can_convert(part) or is_altered(part) or _has_parts(part)
        for part in parts_of(layer).values()
    )


def layers_of_graph(model):
    """The layers of the graph of a model and of models inside it, by path.

    A subclass of a functional model may have other layers as attributes.
    """
    found = set()

    def visit(layer):
        for part in layer.layers:
            visit(part) if is_functional(part) else found.add(id(part))

    visit(model)
    layers = leaf_layers(model, is_functional)
    return {path: x for path, x in layers.items() if id(x) in found}


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
