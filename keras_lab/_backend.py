"""The module for the backend that Keras runs on.

`keras.ops` covers almost everything. The rest is in one module per backend,
`_tensorflow`, `_jax` and `_torch`, which all define the same names. No other
module asks which backend it is.
"""

import importlib

import keras

__all__ = ["backend"]

MODULES = ("tensorflow", "jax", "torch")


def _load():
    name = keras.config.backend()
    if name not in MODULES:
        raise ImportError(
            "keras_lab needs the TensorFlow, JAX or torch backend of Keras. "
            f"Received: KERAS_BACKEND={name}"
        )
    return importlib.import_module(f"keras_lab._{name}")


backend = _load()
