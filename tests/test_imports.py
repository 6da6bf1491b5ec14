"""How the modules of the two packages may import each other.

Imports inside functions count as well.
"""

import ast
import graphlib
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("keras_lab", "tflite_export", "examples", "benchmarks")
# The modules of keras_lab that may use the exporter.
EXPORTING = {
    "keras_lab.entry.keras_lab_command.cli",
    "keras_lab.demo",
    "keras_lab.callbacks.export_best",
    "keras_lab.analysis.summary",
}


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {
    module_name(path): path.read_text()
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
}


def imported_names(source):
    """The full dotted name of everything that a source imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_modules(source, modules):
    """The modules among `modules` that a source imports."""
    for name in imported_names(source):
        while name and name not in modules:
            name = name.rpartition(".")[0]
        if name:
            yield name


def is_public(name):
    """Whether each part of a dotted name is in the `__all__` of its module."""
    parts = name.split(".")
    return all(
        parts[n] in importlib.import_module(".".join(parts[:n])).__all__
        for n in range(1, len(parts))
    )


def find_cycle(sources):
    """A cycle of modules that import each other, or `None`."""
    graph = {
        module: set(imported_modules(source, sources)) - {module}
        for module, source in sources.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_cycles(package):
    """Between the packages, the tests below say who may import whom."""
    prefix = f"{package}."
    sources = {
        module: source
        for module, source in SOURCES.items()
        if module == package or module.startswith(prefix)
    }
    assert find_cycle(sources) is None


@pytest.mark.parametrize(
    ("package", "other"),
    [("tflite_export", "keras_lab"), ("keras_lab", "tflite_export")],
)
def test_a_package_uses_only_the_public_api_of_the_other(package, other):
    for module, source in SOURCES.items():
        if not module.startswith(package):
            continue
        for name in imported_names(source):
            if name == other or not name.startswith(f"{other}."):
                continue
            assert is_public(name), f"{module} imports {name}"


def test_few_modules_of_keras_lab_know_the_exporter():
    using = {
        module
        for module, source in SOURCES.items()
        if module.startswith("keras_lab")
        and any(n.startswith("tflite_export") for n in imported_names(source))
    }
    assert using <= EXPORTING


def test_a_cycle_through_a_lazy_import_is_found():
    lazy = "def f():\n    from a import b"
    sources = {"a": "", "a.b": "from a.c import f", "a.c": lazy}
    assert set(find_cycle(sources)) == {"a.b", "a.c"}


def test_a_private_name_in_a_public_module_is_found():
    assert is_public("keras_lab.files.load_model")
    assert not is_public("keras_lab.layers.base.BinaryLayer")
