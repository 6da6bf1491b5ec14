"""Fixtures for all tests: two logical devices, a seed, a clean Keras."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import pytest
import tensorflow as tf

# Before anything runs on the CPU: MirroredStrategy needs two devices.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)


@pytest.fixture(autouse=True)
def fixed_seed():
    keras.utils.set_random_seed(1)


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.fixture(scope="session")
def strategy():
    """Two replicas. One for all: TensorFlow mixes up collectives of several."""
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
