"""The API reference is complete."""

import re
import types
from pathlib import Path

import pytest

import keras_lab
import tflite_export

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"


MODULES = [
    keras_lab,
    tflite_export,
    keras_lab.callbacks,
    keras_lab.config,
    keras_lab.constraints,
    keras_lab.files,
    keras_lab.layers,
    keras_lab.plots,
    keras_lab.quantizers,
]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_every_public_class_and_function_is_in_the_reference(module):
    names = {
        name
        for name in module.__all__
        if not name.startswith("__")
        and not isinstance(getattr(module, name), types.ModuleType)
    }
    documented = re.findall(r"^::: [\w.]*?(\w+)$", PAGE.read_text(), re.M)
    assert names <= set(documented)
