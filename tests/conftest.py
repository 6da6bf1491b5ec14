"""Fixtures for all tests, and the lines that say what is skipped."""

import os
import re
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# The mathematics is compared in float64.
os.environ.setdefault("JAX_ENABLE_X64", "1")

import keras
import numpy as np
import pytest

BACKEND = keras.config.backend()
if BACKEND == "tensorflow":
    import tensorflow as tf

    # MirroredStrategy needs two devices, set before the CPU does any work.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
if BACKEND == "torch":
    import torch

    # So that tests can give NumPy an output, which has a gradient here.
    def to_array(tensor, dtype=None, copy=None):
        tensor = tensor.detach()
        if tensor.dtype == torch.bfloat16:  # NumPy does not have it.
            tensor = tensor.float()
        return np.asarray(tensor.numpy(), dtype)

    torch.Tensor.__array__ = to_array
# A test file that imports one of these in its first lines is skipped as a whole
# on another backend: the environments of JAX and torch do not have them.
NEEDS_TENSORFLOW = re.compile(
    r"^(import|from) (tensorflow|(tests\.)?tflite_export|matplotlib)",
    re.MULTILINE,
)

# What some tests read from the data folder. Without it they are skipped.
DATA_FILES = {
    "MNIST": "mnist/train-images-idx3-ubyte.gz",
    "CIFAR-10": "cifar-10-batches-py/test_batch",
    "SVHN": "svhn/test_32x32.mat",
    "War and Peace": "text/warpeace_input.txt",
    "Linux kernel": "text/linux_input.txt",
    "pretrained networks": "pretrained/cifar10_resnet8_mlperf_tiny.h5",
}


def pytest_addoption(parser):
    parser.addoption(
        "--fuzz-seconds",
        type=int,
        default=0,
        help="how long tests/fuzz tries damaged files (default: about 3 s)",
    )


def pytest_report_header(config):
    """Says at the start of the session what is skipped, and why."""
    lines = []
    folder = os.environ.get("KERAS_LAB_DATA")
    absent = [
        name
        for name, file in DATA_FILES.items()
        if not (folder and (Path(folder) / file).is_file())
    ]
    if absent:
        place = repr(folder) if folder else "not set"
        lines.append(
            f"skipped: tests on {', '.join(absent)}: "
            f"not in the folder KERAS_LAB_DATA ({place})"
        )
    if BACKEND != "tensorflow":
        lines.append(
            "skipped: files that import TensorFlow, tflite_export or "
            f"matplotlib, and tests on two replicas: the backend is {BACKEND}"
        )
    if config.option.markexpr == "not slow":
        lines.append("skipped: slow tests; run them with `pytest -m slow`")
    return lines


def pytest_ignore_collect(collection_path):
    if BACKEND == "tensorflow" or collection_path.suffix != ".py":
        return None
    if collection_path.name == "conftest.py":
        return None
    return bool(NEEDS_TENSORFLOW.search(collection_path.read_text())) or None


@pytest.fixture(autouse=True)
def fixed_seed():
    keras.utils.set_random_seed(1)


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.fixture(scope="session")
def strategy():
    """Two replicas. TensorFlow confuses the collectives of several of them."""
    if BACKEND != "tensorflow":
        pytest.skip("MirroredStrategy is TensorFlow's")
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
