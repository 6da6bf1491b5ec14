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

from keras_lab import constraints, layers, ops, quantizers  # noqa: E402
from keras_lab.layers import *  # noqa: E402, F403
from keras_lab.models import LABModel  # noqa: E402
from keras_lab.optimizers import LABAdam  # noqa: E402

__version__ = "0.1.0"

__all__ = [
    "LABAdam",
    "LABModel",
    "constraints",
    "layers",
    "ops",
    "quantizers",
    *layers.__all__,
]
