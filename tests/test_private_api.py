"""CONTRIBUTING.md lists every use of private API of Keras and TensorFlow.

A use is an import of a private module, an attribute whose name begins with an
underscore and that our own packages do not define, or a method of Keras that is
overwritten on an object.
"""

import ast
import re
from pathlib import Path

import keras
import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("keras_lab", "tflite_export")
PRIVATE_MODULES = re.compile(
    r"keras\.src|tensorflow\.(python|lite\.python|compiler|core)"
    r"|ai_edge_litert\._"
)
METHODS = {
    name
    for cls in (keras.Model, keras.layers.RNN, keras.optimizers.Optimizer)
    for name in dir(cls)
    if callable(getattr(cls, name))
} | {"train_function", "test_function", "predict_function"}
LISTED = re.compile(r"^\| `([\w/.]+)` \| `([\w.]+)` \|", re.M)


def sources():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text()


def is_private(name):
    return name.startswith("_") and not name.endswith("__")


def own_names(tree):
    """The private names that a module defines, or sets on `self` or `cls`."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif not isinstance(getattr(node, "ctx", None), ast.Store):
            continue
        elif isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and is_on_self(node):
            names.add(node.attr)
    return set(filter(is_private, names))


def is_on_self(attribute):
    return getattr(attribute.value, "id", None) in ("self", "cls")


def private_uses(source, own=frozenset()):
    """The private modules and attributes of others that a source uses.

    Names in `own` are ours on any object. A name that the module sets on
    `self` is ours there.
    """
    tree = ast.parse(source)
    own_on_self = own_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            prefix = f"{node.module}." if hasattr(node, "module") else ""
            for name in (prefix + alias.name for alias in node.names):
                # keras_lab may import its own private modules.
                private = any(map(is_private, name.split(".")))
                private = private and not name.startswith(PACKAGES)
                if private or PRIVATE_MODULES.match(name):
                    yield name
        elif isinstance(node, ast.Attribute):
            # The dotted name, for `tf.python` or `keras.src`.
            dotted = ast.unparse(node).replace("tf.", "tensorflow.", 1)
            if PRIVATE_MODULES.fullmatch(dotted):
                yield dotted
            ours = own | own_on_self if is_on_self(node) else own
            is_set = isinstance(node.ctx, ast.Store) and not is_on_self(node)
            if is_private(node.attr) and node.attr not in ours:
                yield node.attr
            elif is_set and node.attr in METHODS:
                yield node.attr
        elif isinstance(node, ast.Call) and (
            getattr(node.func, "id", None)
            in ("getattr", "hasattr", "setattr", "delattr")
            and isinstance(node.args[1], ast.Constant)
        ):
            name = node.args[1].value
            if is_private(name) and name not in own:
                yield name


def names_of_keras():
    """What Keras' own objects have. Ours may have the same names."""
    model = keras.Sequential(
        [keras.Input((3, 2)), keras.layers.LSTM(2), keras.layers.Dense(1)]
    )
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    lstm = model.layers[0]
    objects = (model, lstm, lstm.cell, lstm.cell.kernel, model.optimizer)
    objects += (model.outputs[0], keras.callbacks.Callback())
    return {name for thing in objects for name in dir(thing)}


def test_contributing_lists_every_private_name_and_no_other():
    files = dict(sources())
    own = set().union(*(own_names(ast.parse(text)) for text in files.values()))
    own -= names_of_keras()
    found = {
        (path, name)
        for path, text in files.items()
        for name in private_uses(text, own)
    }
    text = (ROOT / "CONTRIBUTING.md").read_text()
    begin, end = "<!-- private API -->", "<!-- private API: end -->"
    table = text.partition(begin)[2].partition(end)[0]
    assert found == set(LISTED.findall(table))


@pytest.mark.parametrize(
    ("source", "uses"),
    [
        ("self._layers = {}; model._layers", {"_layers"}),
        ("getattr(x, '_keras_history', None)", {"_keras_history"}),
        ("from keras import src", {"keras.src"}),
        ("import tensorflow.python.eager", {"tensorflow.python.eager"}),
        ("tf.python.eager()", {"tensorflow.python"}),
        ("layer.call = other", {"call"}),
        ("from keras_lab import _api\nself._x = 1\nself._x.__class__", set()),
    ],
)
def test_uses_are_found_but_for_our_own(source, uses):
    assert set(private_uses(source)) == uses
