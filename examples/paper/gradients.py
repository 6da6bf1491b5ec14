"""How large the gradients of an LSTM's recurrent weights are (Figure 2)."""

import keras
import numpy as np

from examples.paper.data import Part
from keras_lab import _tensorflow as backend

# Bins of log10 |g|, four an order of magnitude. Where gradients explode they
# take up what orders there are: all that float32 has.
LOWEST, HIGHEST, BINS = -45, 39, 336
EXAMPLES = 100


def recurrent_gradient(model: keras.Model, part: Part) -> dict | None:
    """The distribution of ∂ℓ/∂ŵ over the hidden-to-hidden weights.

    Of the mean loss of the first hundred sequences, all gates together.

    Args:
        model: A compiled model.
        part: The part of a data set.

    Returns:
        The number of weights in each bin of log10|∂ℓ/∂ŵ|, and how many were
        below, above, and not finite; `None` for a network without recurrent
        weights.
    """
    weights = [
        weight
        for weight in model.trainable_variables
        if weight.name == "recurrent_kernel"
    ]
    if not weights:
        return None
    x, y = part.x[:EXAMPLES], part.y[:EXAMPLES]
    with backend.gradient_tape() as tape:
        loss = model.compute_loss(x, y, model(x, training=True))
    gradients = tape.gradient(loss, weights)
    return histogram(np.concatenate([np.ravel(g) for g in gradients]))


def histogram(gradient: np.ndarray) -> dict:
    """Counts by order of magnitude."""
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
