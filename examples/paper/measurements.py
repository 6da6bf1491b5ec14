"""What `train.py` measures of a network, as numbers for a JSON file."""

import base64
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


def scales(model: keras.Model) -> dict[str, float | None]:
    """The α of each binary weight, or of each gate, and α / mean|w|, by name.

    The names of α are those of `keras_lab.callbacks.BinaryMonitor`, such as
    `dense_1/alpha` and `lstm/recurrent_alpha_i`; the ratio is `dense_1/ratio`.
    If there is one α per channel, it is their mean.
    """
    found = {}
    for path, weight in keras_lab.binary_weights(model).items():
        name = path.removesuffix(weight.latent.name) + weight.alpha.name
        size = np.abs(weight.latent.numpy()).reshape(weight.shape)
        gates, axes = [""], None
        if len(weight.shape) == 3:
            gates, axes = ["_i", "_f", "_c", "_o"], (0, 2)
        alphas = weight.alpha.numpy().reshape(len(gates), -1).mean(axis=1)
        ratios = alphas / size.mean(axes, dtype=np.float64)
        for gate, alpha, ratio in zip(gates, alphas, ratios):
            found[name + gate] = finite(alpha)
            found[name.replace("alpha", "ratio") + gate] = finite(ratio)
    return found


def rows(model: keras.Model, part: Part) -> dict[str, list] | None:
    """How large the weights of each byte are, and their curvature.

    For each row of the input kernel: how often the byte occurs in `part`, and
    the means of |w| and of d, up to a factor. `None` if there is no LSTM.
    """
    weight = keras_lab.binary_weights(model).get("lstm/kernel")
    if weight is None:
        return None
    curvature = model.optimizer.curvature(weight.latent, learning_rate=1)

    def means(values):
        values = np.abs(values.numpy()).mean(axis=1)
        return [float(f"{value:.6g}") for value in values]

    count = np.bincount(part.x.ravel(), minlength=weight.shape[0])
    return {
        "count": count.tolist(),
        "weight": means(weight.latent),
        "curvature": means(curvature),
    }


def hits(model: keras.Model, part: Part, batch: int) -> str:
    """Whether each prediction is right: one bit per example, in base64."""
    right = model.predict(part.x, batch, verbose=0).argmax(axis=1)
    right = right == part.y.argmax(axis=1)
    return base64.b64encode(np.packbits(right)).decode()


def recurrent_gradient(model: keras.Model, part: Part) -> np.ndarray | None:
    """∂ℓ/∂ŵ of the hidden-to-hidden weights (Figure 2), as one vector.

    ℓ is the mean loss of the first hundred sequences of `part`. `None` for a
    network without recurrent weights.
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
    return np.concatenate([np.ravel(gradient) for gradient in gradients])


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
