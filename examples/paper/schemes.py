"""The rows of the paper's tables, and controls that say why LAB wins.

A scheme says what is binarized, and how.
"""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
from keras import ops

from keras_lab.ops import Elementwise
from keras_lab.quantizers import BWN, LAB, KernelQuantizer


@dataclasses.dataclass(frozen=True)
class Scheme:
    """How a network is binarized.

    Args:
        title: The title of its row.
        kernel_quantizer, input_quantizer: As in `keras_lab.BinaryDense`.
        weights: Other quantizers for some latent weights of the LSTM, by name.
        ratio_of: The scheme whose runs give the `ratio` of `ScaledBWN`.
    """

    title: str
    kernel_quantizer: str | KernelQuantizer | None
    input_quantizer: str | None = None
    weights: Mapping[str, KernelQuantizer] = dataclasses.field(
        default_factory=dict
    )
    ratio_of: str | None = None

    def scaled(self, ratios: Mapping[str, list[float]]) -> "Scheme":
        """The scheme with a `ScaledBWN` for each of these latent weights."""
        scaled = {name: ScaledBWN(ratio) for name, ratio in ratios.items()}
        return dataclasses.replace(self, weights={**self.weights, **scaled})


class ShuffledLAB(LAB):
    """LAB with the curvature of other weights: d is shuffled within a tensor.

    α = ‖π(d) ⊙ w‖₁ / ‖d‖₁ with a permutation π that is drawn once. The values
    of d stay the same, but they say nothing about their weights any more.
    """

    def compute_scale(self, w, d=None, keep=()):
        if isinstance(d, Elementwise):
            d = Elementwise(d.function, _shuffled(d.argument, keep))
        elif d is not None:
            d = _shuffled(d, keep)
        return super().compute_scale(w, d, keep)


def _shuffled(x, keep):
    """The entries of x in another order, within each slice along `keep`."""
    axes = [*keep, *(a for a in range(len(x.shape)) if a not in keep)]
    moved = ops.transpose(x, axes)
    kept = [x.shape[axis] for axis in keep]
    count = math.prod(x.shape) // math.prod(kept)
    order = np.random.default_rng(0).permutation(count)
    flat = ops.take(ops.reshape(moved, (*kept, count)), order, axis=-1)
    back = np.argsort(axes).tolist()
    return ops.transpose(ops.reshape(flat, moved.shape), back)


class ScaledBWN(BWN):
    """BWN with a constant factor: α = ratio · mean|w|.

    Args:
        ratio: A factor for each α of the tensor: for an LSTM, one per gate.
    """

    def __init__(self, ratio):
        super().__init__()
        self.ratio = ratio

    def compute_scale(self, w, d=None, keep=()):
        scale = super().compute_scale(w, d, keep)
        return scale * ops.convert_to_tensor(self.ratio, scale.dtype)


SCHEMES = {
    "full_precision": Scheme("full-precision", None),
    "binary_connect": Scheme("BinaryConnect", "binary_connect"),
    "bwn": Scheme("BWN", "bwn"),
    "lab": Scheme("LAB", "lab"),
    "bnn": Scheme("BNN", "binary_connect", "sign"),
    "xnor": Scheme("XNOR", "bwn", "sign"),
    "lab2": Scheme("LAB2", "lab", "sign"),
}
WEIGHT_ONLY = ("full_precision", "binary_connect", "bwn", "lab")
CONTROLS = {
    # The other kernel has BWN.
    "lab_input": Scheme(
        "LAB, input kernel only", "lab", weights={"recurrent_kernel": BWN()}
    ),
    "lab_recurrent": Scheme(
        "LAB, recurrent kernel only", "lab", weights={"kernel": BWN()}
    ),
    "lab_shuffled": Scheme("LAB, d shuffled", ShuffledLAB()),
    "bwn_ratio": Scheme("BWN times LAB's ratio", "bwn", ratio_of="lab"),
    "bwn_channel": Scheme("BWN per channel", BWN("channel")),
}
ALL_SCHEMES = SCHEMES | CONTROLS
