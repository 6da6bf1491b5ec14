"""Loss-aware binarization for Keras 3.

Latent weights w stay in floating point. The network computes with
ŵ = α·sign(w), and `LABAdam` chooses the α that changes the loss least, from the
curvature that it estimates anyway (Hou, Yao, Kwok: "Loss-aware Binarization of
Deep Networks", ICLR 2017).
"""

from keras_lab import (
    callbacks,
    config,
    constraints,
    files,
    layers,
    ops,
    quantizers,
)
from keras_lab._version import __version__
from keras_lab.analysis import plots
from keras_lab.analysis.summary import summary
from keras_lab.binary_weight import BinaryWeight, binary_weights
from keras_lab.convert.batch_norm import recalibrate_batch_norm
from keras_lab.convert.binarize import binarize_model
from keras_lab.convert.distillation import Distiller, SoftTargets
from keras_lab.convert.fine_tune import fine_tune
from keras_lab.convert.freeze import freeze
from keras_lab.layer_tree import walk
from keras_lab.layers import (
    BinaryConv1D,
    BinaryConv2D,
    BinaryConv2DTranspose,
    BinaryConv3D,
    BinaryDense,
    BinaryDepthwiseConv2D,
    BinaryEinsumDense,
    BinaryEmbedding,
    BinaryGroupedQueryAttention,
    BinaryGRU,
    BinaryGRUCell,
    BinaryLSTM,
    BinaryLSTMCell,
    BinaryMultiHeadAttention,
    BinaryRNN,
    BinarySeparableConv2D,
    BinarySimpleRNN,
    BinarySimpleRNNCell,
)
from keras_lab.model_checks import check_built, is_functional
from keras_lab.models import LABModel
from keras_lab.optimizers import LABAdam, refresh
from keras_lab.quantizers import BWN, LAB, BinaryConnect, SignActivation

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
    "BinaryEinsumDense",
    "BinaryEmbedding",
    "BinaryGRU",
    "BinaryGRUCell",
    "BinaryGroupedQueryAttention",
    "BinaryLSTM",
    "BinaryLSTMCell",
    "BinaryMultiHeadAttention",
    "BinaryRNN",
    "BinarySeparableConv2D",
    "BinarySimpleRNN",
    "BinarySimpleRNNCell",
    "BinaryWeight",
    "Distiller",
    "LABAdam",
    "LABModel",
    "SignActivation",
    "SoftTargets",
    "__version__",
    "binarize_model",
    "binary_weights",
    "callbacks",
    "check_built",
    "config",
    "constraints",
    "files",
    "fine_tune",
    "freeze",
    "is_functional",
    "layers",
    "ops",
    "plots",
    "quantizers",
    "recalibrate_batch_norm",
    "refresh",
    "summary",
    "walk",
]


def __dir__():
    return list(__all__)
