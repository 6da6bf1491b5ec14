"""Loss-aware binarization for Keras 3.

Latent weights w stay in floating point. The network computes with
ŵ = α·sign(w), and `LABAdam` chooses the α that changes the loss least, from the
curvature that it estimates anyway (Hou, Yao, Kwok: "Loss-aware Binarization of
Deep Networks", ICLR 2017).
"""

import importlib as _importlib
import sys as _sys

from keras_lab._version import __version__ as __version__

# `keras.models.load_model` needs the classes to be registered, so the public
# names are loaded now, and Keras with them. Only the command line, which
# imports `keras_lab_command` first, loads them when they are first used.
if "keras_lab_command" not in _sys.modules:
    from keras_lab._api import *  # noqa: F403


def __getattr__(name):
    api = _importlib.import_module("keras_lab._api")
    if name == "__all__" or name in api.__all__:
        return getattr(api, name)
    raise AttributeError(f"module 'keras_lab' has no attribute '{name}'")


def __dir__():
    return list(_importlib.import_module("keras_lab._api").__all__)
