"""What a result holds about a network after each epoch."""

import math

import keras
import numpy as np
import tensorflow as tf

import keras_lab
from examples.paper.data import Part

# The bins of log10 |g|: four per order of magnitude, over all orders that
# float32 has. Gradients that explode use them all.
LOWEST, HIGHEST, BINS = -45, 39, 336
EXAMPLES = 100


def finite(value: float) -> float | None:
    """The number, or `None`: JSON has neither NaN nor infinity."""
    return float(value) if math.isfinite(value) else None


def alphas(model: keras.Model) -> dict[str, float | None]:
    """The α of each binary weight, or of each gate, by name.

    The names are those of `keras_lab.callbacks.BinaryMonitor`: `dense_1/alpha`,
    `lstm/recurrent_alpha_i`.
    """
    found = {}
    for path, weight in keras_lab.binary_weights(model).items():
        name = path.removesuffix(weight.latent.name) + weight.alpha.name
        alpha = weight.alpha.numpy()
        gates = zip("ifco", alpha) if alpha.ndim else [("", alpha)]
        for gate, value in gates:
            found[f"{name}_{gate}" if gate else name] = finite(value)
    return found


def recurrent_gradient(model: keras.Model, part: Part) -> dict | None:
    """The sizes of ∂ℓ/∂ŵ of the hidden-to-hidden weights (Figure 2).

    ℓ is the mean loss of the first hundred sequences of `part`. See `histogram`
    for the result; it is `None` for a network without recurrent weights.
    """
    weights = [
        weight.value
        for weight in model.trainable_variables
        if weight.name == "recurrent_kernel"
    ]
    if not weights:
        return None
    x, y = part.x[:EXAMPLES], part.y[:EXAMPLES]
    with tf.GradientTape() as tape:
        loss = model.compute_loss(x, y, model(x, training=True))
    gradients = tape.gradient(loss, weights)
    return histogram(np.concatenate([np.ravel(g) for g in gradients]))


def histogram(gradient: np.ndarray) -> dict:
    """The number of entries in each bin of log10|g|, and outside the bins."""
    size = np.abs(gradient[np.isfinite(gradient)]).astype(np.float64)
    with np.errstate(divide="ignore"):
        magnitude = np.log10(size)
    counts, _ = np.histogram(magnitude, BINS, (LOWEST, HIGHEST))
    return {
        "log10_range": [LOWEST, HIGHEST],
        "counts": counts.tolist(),
        "below": int((magnitude < LOWEST).sum()),
        "above": int((magnitude > HIGHEST).sum()),
        "not_finite": int((~np.isfinite(gradient)).sum()),
        "rms": float(np.sqrt(np.mean(size**2))) if size.size else None,
    }
