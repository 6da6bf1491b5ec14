"""The module for the backend that Keras runs on.

`keras.ops` covers almost everything. The rest is in one module per backend,
`_tensorflow`, `_jax` and `_torch`, which all define the same names. No other
module asks which backend it is.
"""

import importlib

import keras

__all__ = ["backend"]

MODULES = ("tensorflow", "jax", "torch")


if keras.config.backend() not in MODULES:
    raise ImportError(
        "keras_lab needs the TensorFlow, JAX or torch backend of Keras. "
        f"Received: KERAS_BACKEND={keras.config.backend()}"
    )
backend = importlib.import_module(f"keras_lab._{keras.config.backend()}")
