"""What the package imports: public names of keras_lab, and no cycles."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import keras_lab
import tflite_export

FOLDER = Path(tflite_export.__file__).parent
SOURCES = {
    ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts): path
    for path in FOLDER.rglob("*.py")
}


def tree(module):
    return ast.parse(SOURCES[module].read_text())


def imported(module):
    """The names of the modules that a module imports, lazily or not."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in SOURCES else node.module


@pytest.mark.parametrize("module", SOURCES)
def test_only_public_names_of_keras_lab_are_used(module):
    for name in imported(module):
        assert name == "keras_lab" or not name.startswith("keras_lab")
        assert not name.startswith(("keras.src", "tensorflow.python"))
    for node in ast.walk(tree(module)):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "keras_lab"
        ):
            assert node.attr in keras_lab.__all__


def test_there_are_no_import_cycles():
    graph = {
        module: {name for name in imported(module) if name in SOURCES}
        for module in SOURCES
    }
    TopologicalSorter(graph).prepare()
