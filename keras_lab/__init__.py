"""Loss-aware binarization for Keras 3.

Latent weights w stay in floating point; the network computes with
ŵ = α·sign(w), and `LABAdam` finds the α that hurts the loss least from the
curvature it estimates anyway (Hou, Yao, Kwok: "Loss-aware Binarization of Deep
Networks", ICLR 2017).
"""

import keras as _keras

if _keras.config.backend() != "tensorflow":
    raise ImportError(
        "keras_lab needs the TensorFlow backend of Keras. "
        f"Received: KERAS_BACKEND={_keras.config.backend()}"
    )

from keras_lab import _tensorflow as _backend
from keras_lab import (
    callbacks,
    constraints,
    layers,
    metrics,
    ops,
    quantizers,
)
from keras_lab._version import __version__
from keras_lab.analysis import plots
from keras_lab.analysis.summary import summary
from keras_lab.convert.batch_norm import recalibrate_batch_norm
from keras_lab.convert.binarize import binarize_model
from keras_lab.convert.distillation import Distiller, SoftTargets
from keras_lab.convert.freeze import freeze
from keras_lab.convert.graph import binary_weights, walk
from keras_lab.layers import (
    BinaryConv1D,
    BinaryConv2D,
    BinaryConv2DTranspose,
    BinaryConv3D,
    BinaryDense,
    BinaryDepthwiseConv2D,
    BinaryGRU,
    BinaryGRUCell,
    BinaryLSTM,
    BinaryLSTMCell,
    BinarySeparableConv2D,
    BinarySimpleRNN,
    BinarySimpleRNNCell,
)
from keras_lab.models import LABModel
from keras_lab.optimizers import LABAdam
from keras_lab.quantizers import BWN, LAB, BinaryConnect, SignActivation

_backend.keep_memory()

__all__ = [
    "BWN",
    "LAB",
    "BinaryConnect",
    "BinaryConv1D",
    "BinaryConv2D",
    "BinaryConv2DTranspose",
    "BinaryConv3D",
    "BinaryDense",
    "BinaryDepthwiseConv2D",
    "BinaryGRU",
    "BinaryGRUCell",
    "BinaryLSTM",
    "BinaryLSTMCell",
    "BinarySeparableConv2D",
    "BinarySimpleRNN",
    "BinarySimpleRNNCell",
    "Distiller",
    "LABAdam",
    "LABModel",
    "SignActivation",
    "SoftTargets",
    "__version__",
    "binarize_model",
    "binary_weights",
    "callbacks",
    "constraints",
    "freeze",
    "layers",
    "metrics",
    "ops",
    "plots",
    "quantizers",
    "recalibrate_batch_norm",
    "summary",
    "walk",
]
