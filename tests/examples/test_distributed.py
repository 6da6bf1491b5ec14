"""α on several processes and devices. Each engine needs its own backend."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "distributed"

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ("jax", ["run.py", "jax", "--kill"]),
        ("torch", ["run.py", "torch", "--kill"]),
        ("tensorflow", ["run.py", "tensorflow", "--kill"]),
        ("tensorflow", ["tensorflow_fit.py"]),
        ("jax", ["jax_model_parallel.py"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_alpha_is_right_on_every_worker(package, command):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    done = subprocess.run(
        [sys.executable, FOLDER / command[0], *command[1:]],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:]
