"""Statistics of binary weights, and the names under which they are logged.

In NumPy: its median is many times faster than TensorFlow's sort, and on a CPU
an array shares the memory of the variable.
"""

import dataclasses

import keras
import numpy as np

from keras_lab.binary_weight import BinaryWeight, binary_weights
from keras_lab.constraints import WeightClip

__all__ = [
    "QUANTITIES",
    "Part",
    "flipped_share",
    "measure",
    "parts_of",
    "sign_bits",
]

QUANTITIES = (
    "alpha",
    "flips",
    "clipped",
    "near_zero",
    "d_min",
    "d_median",
    "d_max",
    "error",
)
# The gates that Keras stacks in a kernel, in its order. LSTM: input, forget,
# candidate, output. GRU: update, reset, candidate.
GATES = {4: "ifco", 3: "zrh"}


@dataclasses.dataclass(frozen=True)
class Part:
    """A binary weight, or one gate of a recurrent one."""

    weight: BinaryWeight
    path: str
    gate: int | None = None

    @property
    def name(self) -> str:
        """For example `dense_1/kernel` or `lstm/recurrent_kernel_i`."""
        return self.path + self._suffix

    def quantity(self, name: str) -> str:
        """For example `dense_1/alpha` or `lstm/recurrent_alpha_i`."""
        layer, slash, kernel = self.path.rpartition("/")
        return layer + slash + kernel.replace("kernel", name) + self._suffix

    @property
    def _suffix(self):
        if self.gate is None:
            return ""
        count = self.weight.shape[1]
        return "_" + GATES.get(count, [str(n) for n in range(count)])[self.gate]

    def select(self, array):
        """The entries of this part in an array of the latent's shape."""
        if self.gate is None:
            return array
        return array.reshape(self.weight.shape)[:, self.gate]

    def select_alpha(self, alpha):
        """The α of this part, in a shape to broadcast against `select`."""
        weight = self.weight
        shape = [1] * len(weight.shape)
        for axis in weight.keep:
            shape[axis] = weight.shape[axis]
        alpha = alpha.reshape(shape)
        return alpha if self.gate is None else alpha[:, self.gate]


def parts_of(model: keras.Layer) -> list[Part]:
    """A `Part` for each binary weight of a model, or for each of its gates."""
    return [
        Part(weight, path, gate)
        for path, weight in binary_weights(model).items()
        for gate in _gates(weight)
    ]


def _gates(weight):
    stacked = len(weight.shape) > len(weight.latent.shape)
    return range(weight.shape[1]) if stacked else [None]


def measure(parts, near_zero: float):
    """Yields for each part its statistics, latent weights and sign bits.

    The statistics are a dict of its `QUANTITIES` except the flips. A quantity
    that has no value at present is `None`. A weight is near zero if
    |w| < near_zero·α.
    """
    weight = None
    for part in parts:
        if part.weight is not weight:
            weight = part.weight
            latent, alpha = _array(weight.latent), _array(weight.alpha)
            direction = _curvature_direction(weight)
        w = part.select(latent)
        d = None if direction is None else part.select(direction)
        alphas = part.select_alpha(alpha)
        yield _statistics(weight, w, alphas, d, near_zero), w, sign_bits(w)


def sign_bits(w) -> np.ndarray:
    """The signs of an array, eight per byte. The sign of zero is +."""
    return np.packbits(w >= 0)


def flipped_share(before, after, count: int) -> float:
    """The share of `count` signs that differ."""
    return int(np.count_nonzero(np.unpackbits(before ^ after))) / count


def _array(variable):
    array = keras.ops.convert_to_numpy(variable)
    return array.astype(np.result_type(array, np.float32), copy=False)


def _curvature_direction(weight):
    """d without the factor 1/η, which may be infinite."""
    if weight.optimizer is None:
        return None
    return _array(weight.optimizer.curvature(weight.latent, learning_rate=1.0))


def _statistics(weight, w, alpha, d, near_zero):
    size = np.abs(w)
    values = {
        "alpha": float(np.mean(alpha)),
        "near_zero": float(np.mean(size < near_zero * alpha)),
    }
    if isinstance(weight.constraint, WeightClip):
        limit = np.asarray(weight.constraint.limit, w.dtype)
        values["clipped"] = float(np.mean(size >= limit))
    if d is not None:
        rate = keras.ops.convert_to_numpy(weight.optimizer.learning_rate)
        for name in ("min", "median", "max"):
            value = float(getattr(np, name)(d))
            values[f"d_{name}"] = value / float(rate) if rate > 0 else None
    # ‖w − ŵ‖_D / ‖w‖_D, where ‖x‖²_D = Σ d x². A factor of d cancels.
    d = 1 if d is None else d
    above = np.sum(d * np.square(size - alpha))  # |w − α·sign(w)| = ||w| − α|
    below = np.sum(d * np.square(w))
    values["error"] = None if below == 0 else float(np.sqrt(above / below))
    return values
