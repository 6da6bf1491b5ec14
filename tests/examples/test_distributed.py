"""α on several processes and devices. Each engine needs its own backend."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "distributed"

pytestmark = pytest.mark.slow


def run(*command, **environment):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


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
    process = run(FOLDER / command[0], *command[1:])
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output[-3000:]


FIT = """
import numpy as np, tensorflow as tf, keras
with tf.distribute.MultiWorkerMirroredStrategy().scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile("adam", "mse")
model.fit(np.zeros((8, 4)), np.zeros((8, 2)), batch_size=4, verbose=0)
"""


def test_fit_on_several_workers_still_fails_in_keras_itself():
    """Plain `Dense` layers. When this fails, use `fit` in the example."""
    pytest.importorskip("tensorflow")
    with socket.socket() as first, socket.socket() as second:
        ports = []
        for place in (first, second):
            place.bind(("127.0.0.1", 0))
            ports.append(place.getsockname()[1])
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    processes = [
        run(
            "-c",
            FIT,
            KERAS_BACKEND="tensorflow",
            TF_CONFIG=json.dumps(
                {"cluster": cluster, "task": {"type": "worker", "index": k}}
            ),
        )
        for k in range(2)
    ]
    outputs = []
    for process in processes:
        try:
            outputs.append(process.communicate(timeout=120)[0])
        except subprocess.TimeoutExpired:
            process.kill()
            outputs.append(process.communicate()[0])
    assert any(process.returncode for process in processes)
    assert any("PerReplica" in output for output in outputs), outputs
