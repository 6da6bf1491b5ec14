"""The controls that say why LAB wins."""

import keras
import numpy as np
import pytest

from examples.paper.recipes import RECIPES
from examples.paper.schemes import ALL_SCHEMES

GATES = 4


def step(scheme):
    """|w|, d and α of a small LSTM after a step, by kernel and gate."""
    keras.utils.set_random_seed(1)
    model = RECIPES["war_and_peace_30"].build(scheme, 9, False, cells=6)
    model.run_eagerly = True  # Faster than tracing for one step.
    x = np.random.default_rng(1).integers(0, 7, (4, 5)).astype(np.uint8)
    model.train_on_batch(x, x)
    cell, found = model.get_layer("lstm").cell, {}
    for name, alpha in (
        ("kernel", cell.alpha),
        ("recurrent_kernel", cell.recurrent_alpha),
    ):
        latent = getattr(cell, name)
        d = model.optimizer.curvature(latent, learning_rate=1).numpy()
        by_gate = [
            np.asarray(a, np.float64).reshape(len(d), GATES, -1)
            for a in (np.abs(latent.numpy()), d)
        ]
        found[name] = (*by_gate, alpha.numpy())
    return found


def bwn(w, d):
    return w.mean(axis=(0, 2))


def lab(w, d):
    return (d * w).sum(axis=(0, 2)) / d.sum(axis=(0, 2))


def shuffled(w, d):
    """Within each gate of the input kernel, in an order that never changes."""
    order = np.random.default_rng(0).permutation(9 * 6)
    assert (order != np.arange(9 * 6)).mean() > 0.9
    places = np.moveaxis(d, 1, 0).reshape(GATES, -1)[:, order]
    return lab(w, np.moveaxis(places.reshape(GATES, 9, 6), 0, 1))


RATIOS = {"kernel": [2.0, 3, 4, 5], "recurrent_kernel": [1.0, 1, 2, 2]}


@pytest.mark.parametrize(
    ("scheme", "rules"),
    [
        ("lab_input", {"kernel": lab, "recurrent_kernel": bwn}),
        ("lab_recurrent", {"kernel": bwn, "recurrent_kernel": lab}),
        ("bwn_channel", {"kernel": lambda w, d: w.mean(axis=0)}),
        ("lab_shuffled", {"kernel": shuffled}),
        (
            "bwn_ratio",
            {
                name: lambda w, d, ratio=ratio: ratio * bwn(w, d)
                for name, ratio in RATIOS.items()
            },
        ),
    ],
)
def test_a_control_has_the_scale_that_it_says(scheme, rules):
    scheme = ALL_SCHEMES[scheme]
    found = step(scheme.scaled(RATIOS if scheme.ratio_of else {}))
    for name, rule in rules.items():
        w, d, alpha = found[name]
        np.testing.assert_allclose(alpha, rule(w, d), rtol=1e-5)
    # The bytes 7 and 8 never occur: the three rules differ.
    w, d, _ = found["kernel"]
    for other in (bwn, shuffled):
        assert (np.abs(lab(w, d) / other(w, d) - 1) > 1e-3).all()
