"""Pictures of binary networks: latent weights, gradients, trajectories.

Each function returns a matplotlib figure, and writes it where it is given a
path. Matplotlib comes with `pip install "keras_lab[plots]"`.
"""

import keras
import numpy as np
from keras import ops

from keras_lab import backend, drawing
from keras_lab.checks import check_is_model, nothing_binary
from keras_lab.history import read_trajectories
from keras_lab.names import named_parts

__all__ = ["gradients", "latent_weights", "trajectories"]

PANELS = {
    "alpha": "scale α",
    "flips": "flipped signs (%)",
    "clipped": "weights at the clip (%)",
}


def latent_weights(model: keras.Model, path=None):
    """Histograms of the latent weights, with ±α drawn in.

    One panel a binary weight, or a gate of a recurrent one. Where a weight has
    an α for each channel, the range of them is shaded.

    Args:
        model: A built model.
        path: Where to write: `.png`, `.pdf` or `.svg`. Defaults to `None`.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    path = drawing.check_path(path)
    parts = _parts(model)
    figure, panels = drawing.grid(len(parts))
    for axes, part in zip(panels, parts):
        latent = ops.convert_to_numpy(part.weight.latent)
        alpha = ops.convert_to_numpy(part.weight.alpha)
        w = part.select(latent).astype("float32").ravel()
        alpha = part.select_alpha(alpha).astype("float32").ravel()
        drawing.histogram(axes, w)
        drawing.plus_minus(axes, alpha)
        low, high = f"{alpha.min():.3g}", f"{alpha.max():.3g}"
        values = low if low == high else f"{low} … {high}"
        axes.set_title(f"{part.name}\nα = {values}", fontsize=9)
    figure.supxlabel("latent weight w (dashed: ±α)", fontsize=10)
    figure.supylabel("weights (%)", fontsize=10)
    return drawing.finish(figure, path)


def gradients(model: keras.Model, x, y, path=None):
    """Distributions of the loss' gradients with respect to the weights ŵ.

    One panel a binary weight, or a gate of a recurrent one: the share of
    gradients by size, |g| on a logarithmic axis. Zeros are counted in the
    title.

    Args:
        model: A compiled model.
        x, y: A batch of data, as in `fit`.
        path: Where to write: `.png`, `.pdf` or `.svg`. Defaults to `None`.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    path = drawing.check_path(path)
    parts = _parts(model)
    of_weight = _gradients(model, [part.weight for part in parts], x, y)
    figure, panels = drawing.grid(len(parts))
    for axes, part in zip(panels, parts):
        g = np.abs(part.select(of_weight[id(part.weight)])).ravel()
        positive = g[np.isfinite(g) & (g > 0)]
        title = f"{part.name}\n"
        if positive.size:
            low, high = positive.min(), positive.max()
            edges = np.geomspace(
                low, max(high, 1.001 * low), drawing.bins_for(g.size) // 2 + 1
            )
            shares = np.full(positive.size, 100 / g.size)
            axes.hist(positive, edges, weights=shares, color="0.6")
            axes.set_xscale("log")
            median = np.median(positive)
            axes.axvline(median, color="black", linestyle="--")
            title += f"median {median:.2g}, "
        title += f"{np.mean(g == 0):.1%} zero"
        axes.set_title(title, fontsize=9)
    figure.supxlabel("size of a gradient, |g| (dashed: median)", fontsize=10)
    figure.supylabel("weights (%)", fontsize=10)
    return drawing.finish(figure, path)


def trajectories(source, path=None):
    """α, flipped signs and saturation over a training, one line a weight.

    Args:
        source: The CSV of a `keras_lab.callbacks.BinaryMonitor`, or its
            `history`; or a JSON file of results with Keras' logs by epoch
            under `history`, with names such as `dense_1/alpha`.
        path: Where to write: `.png`, `.pdf` or `.svg`. Defaults to `None`.

    Returns:
        The `matplotlib.figure.Figure`.
    """
    path = drawing.check_path(path)
    lines, positions = read_trajectories(source)
    names = list(dict.fromkeys(name for _, name in lines))
    shown = [q for q in PANELS if any(q == quantity for quantity, _ in lines)]
    if not shown:
        raise ValueError(
            "There is nothing to draw: no epoch of a binary weight. "
            f"Received: source={source if source else 'no rows'}"
        )
    figure = drawing.new_figure(9, 2.4 * len(shown) + 0.6)
    panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axes, quantity in zip(panels, shown):
        for number, name in enumerate(names):
            xs, ys = lines.get((quantity, name), ([], []))
            if PANELS[quantity].endswith("(%)"):
                ys = [100 * y for y in ys]
            drawing.line(axes, xs, ys, number, len(names), label=name)
        axes.set_ylabel(PANELS[quantity], fontsize=9)
        drawing.set_scale(axes)
    axes.set_xlabel(positions)
    axes.xaxis.get_major_locator().set_params(integer=True)
    # Beside the panels, where it covers no line.
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside right upper",
        fontsize=8,
        handlelength=4,
    )
    return drawing.finish(figure, path)


def _parts(model):
    check_is_model(model)
    parts = named_parts(model)
    if not parts:
        raise ValueError(nothing_binary(model))
    return parts


def _gradients(model, weights, x, y):
    """The gradient at ŵ, by the `id` of the weight."""
    if not model.compiled:
        raise ValueError(
            f"Model '{model.name}' has no loss: compile it before."
        )
    with backend.gradient_tape() as tape:
        loss = model.compute_loss(x, y, model(x, training=False))
    latents = {id(weight): weight.latent for weight in weights}
    found = tape.gradient(loss, [v.value for v in latents.values()])
    return {
        key: np.zeros(latents[key].shape, "float32")
        if gradient is None
        else ops.convert_to_numpy(backend.dense(gradient)).astype("float32")
        for key, gradient in zip(latents, found)
    }
