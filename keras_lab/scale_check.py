"""Whether the scale α of a binary weight belongs to its latent weight w.

An optimizer that changes w has α computed again. Something else may change w,
and then α is out of date. It is found out from what α must be: the optimizer
that trains w has the curvature, without a curvature α is mean|w|, and an α that
was loaded belongs to the w that was loaded with it.
"""

import math
import weakref

import keras
import numpy as np
from keras import ops

from keras_lab.ops import bwn_scale

__all__ = ["ScaleCheck", "to_numpy"]

# The entries of w that are remembered with a loaded α. If others change and
# these do not, α is almost right.
REMEMBERED = 1024


class ScaleCheck:
    """Knows where the α of a binary weight came from, and if it is still right.

    Args:
        weight: The `BinaryWeight`.
    """

    def __init__(self, weight):
        self._weight = weight
        self._trained_by = lambda: None
        self.is_uniform = False
        self._loaded = None

    @property
    def optimizer(self):
        """The `LABAdam` that has trained the latent weight, or `None`."""
        optimizer = self._trained_by()
        if optimizer is None or not ops.convert_to_numpy(optimizer.iterations):
            return None
        return optimizer

    def computed_by(self, optimizer):
        """From now on α comes from the curvature of this optimizer."""
        # Not kept alive: its moments are twice as large as the weight.
        self._trained_by = weakref.ref(optimizer)
        self.is_uniform = False

    def computed_without_curvature(self):
        """From now on α is mean|w|."""
        self._trained_by, self.is_uniform = lambda: None, True

    def loaded(self):
        """α has been loaded, from wherever it came."""
        self.is_uniform = False

    def remember(self):
        """Remembers that α belongs to the present latent weight."""
        if self.is_uniform:
            return  # It must be mean|w|.
        self._loaded = self._entries(), to_numpy(self._weight.alpha)

    def is_stale(self):
        """Whether w has changed since α was computed or loaded.

        `False` if it cannot be known: LAB's α comes from a curvature, and the
        optimizer may no longer exist.
        """
        weight = self._weight
        if not weight.quantizer.needs_curvature:
            return not self.is_possible()
        alpha, tolerance = to_numpy(weight.alpha), 10 * self._tolerance()
        entries = self._entries()
        if not np.all(np.isfinite(entries)):
            return False  # There is no right scale for such a weight.
        same_alpha = False
        if self._loaded is not None:
            loaded_entries, loaded_alpha = self._loaded
            same_alpha = np.allclose(alpha, loaded_alpha, tolerance, 0)
            if same_alpha and np.array_equal(entries, loaded_entries):
                return False
        known = same_alpha or self.is_uniform or self.optimizer is not None
        if not known:
            return False
        scales = self.expected_scale(), weight.compute_scale(weight.latent)
        return not any(
            np.allclose(alpha, to_numpy(scale), tolerance, 0)
            for scale in scales
        )

    def is_possible(self):
        """Whether α lies within the bounds that the quantizer sets for w."""
        weight = self._weight
        w = weight.view(weight.latent)
        if not ops.all(ops.isfinite(w)):
            return True  # There is no right scale for such a weight.
        bounds = weight.quantizer.scale_bounds(w, weight.keep)
        least, most = map(to_numpy, bounds)
        alpha, tolerance = to_numpy(weight.alpha), self._tolerance()
        return np.all(
            (alpha >= least * (1 - tolerance))
            & (alpha <= most * (1 + tolerance))
        )

    def is_binary_connects(self):
        """Whether α is 1 in a LAB weight whose mean|w| is less."""
        # It lies within LAB's bounds if a weight is 1, as clipped weights are.
        weight = self._weight
        if not weight.quantizer.needs_curvature or np.any(
            to_numpy(weight.alpha) != 1
        ):
            return False
        mean = to_numpy(bwn_scale(weight.view(weight.latent), weight.keep))
        return np.any(mean < 1 - self._tolerance())

    def expected_scale(self):
        """The α of the present w, with the curvature if it is known."""
        latent, curvature = self._weight.latent, None
        if self.optimizer is not None:
            curvature = self.optimizer.curvature(latent, learning_rate=1.0)
        return self._weight.compute_scale(latent, curvature)

    def _entries(self):
        step = math.ceil(math.prod(self._weight.shape) / REMEMBERED)
        return to_numpy(ops.reshape(self._weight.latent, (-1,))[::step])

    def _tolerance(self):
        dtype = self._weight.latent.dtype
        return 1e-5 if dtype in ("float32", "float64") else 0.02


def to_numpy(x):
    """A tensor or variable of any dtype as an array of float64."""
    if isinstance(x, keras.Variable):
        return x.numpy().astype("float64")
    return ops.convert_to_numpy(x).astype("float64")
