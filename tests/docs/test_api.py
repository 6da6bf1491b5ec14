"""The API reference is complete."""

import re
import types
from pathlib import Path

import pytest

import keras_lab
import tflite_export

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"


@pytest.mark.parametrize("package", [keras_lab, tflite_export])
def test_every_public_class_and_function_is_in_the_reference(package):
    names = {
        name
        for name in package.__all__
        if not name.startswith("__")
        and not isinstance(getattr(package, name), types.ModuleType)
    }
    documented = re.findall(r"^::: [\w.]*?(\w+)$", PAGE.read_text(), re.M)
    assert names <= set(documented)
