"""Why BinaryConnect fails on an LSTM: Section 3.2 of the paper, as a figure.

    python examples/exploding_gradients.py

∂hₜ/∂h₁ is a product of t − 1 Jacobians, each with the recurrent weights in it,
so their largest singular value λ₁ says whether gradients can explode. A matrix
of ±1 has λ₁ ≥ √n (Proposition 3.2): α = 1 explodes, and a small α does not.

Trains the character LSTM for a few updates in full precision and with three
rules for α, on sequences of 10 and of 100 bytes. Prints λ₁, and draws the
gradients of the recurrent weights (the paper's Figure 2) and ‖∂hₜ/∂h₁‖.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure

import keras_lab
from examples.environment import environment, write_json
from examples.paper import data as datasets
from examples.paper.measurements import recurrent_gradient
from examples.paper.recipes import WAR_AND_PEACE
from examples.paper.schemes import SCHEMES, WEIGHT_ONLY
from examples.text_options import load_text, make_parser

STEPS = (10, 100)
BATCH = 100
# Of log₁₀ |gradient|.
BINS = np.arange(-12, 20.25, 0.25)
# The shades also differ in black and white.
LINES = {
    "full_precision": {"color": "0.65", "linestyle": "-"},
    "binary_connect": {"color": "C3", "linestyle": "-"},
    "bwn": {"color": "C0", "linestyle": "--"},
    "lab": {"color": "black", "linestyle": ":"},
}


def train(scheme, data, arguments):
    """Returns the character LSTM after a few updates, and its last loss."""
    keras.utils.set_random_seed(arguments.seed)
    model = WAR_AND_PEACE.build(
        SCHEMES[scheme], data.classes, cells=arguments.cells
    )
    order = np.random.default_rng(arguments.seed).integers(
        0, len(data.train.x), (arguments.updates, BATCH)
    )
    for batch in order:
        loss = model.train_on_batch(data.train.x[batch], data.train.y[batch])
    return model, float(loss)


def largest_singular_values(cell):
    """Returns λ₁ of the binary recurrent matrix of each gate."""
    kernel = np.asarray(cell.binary_recurrent_kernel)
    gates = np.split(kernel, 4, axis=1)
    return [float(np.linalg.norm(gate, 2)) for gate in gates]


def jacobian_norms(lstm, sequence, times):
    """Returns ‖∂hₜ/∂h₁‖ (Frobenius) for a sequence of bytes.

    Row k of the Jacobian is the gradient of the k-th unit of hₜ. A batch with
    one copy of the sequence per unit gives all rows at once.
    """
    units = lstm.units
    copies = np.repeat(sequence[None, :, None], units, axis=0)
    h, c = (
        keras.ops.convert_to_tensor(state)
        for state in lstm.cell(
            copies[:, 0], lstm.cell.get_initial_state(batch_size=units)
        )[1]
    )
    norms = []
    for time in times:
        with tf.GradientTape() as tape:
            tape.watch(h)
            # hₜ comes t − 1 steps after h₁.
            states = lstm(copies[:, 1:time], initial_state=[h, c])
            of_each_unit = keras.ops.trace(states[:, -1])
        jacobian = np.asarray(tape.gradient(of_each_unit, h), np.float64)
        norms.append(float(np.linalg.norm(jacobian)))
    return norms


def gradient_distribution(model, part):
    """Counts the gradients of the recurrent weights by their magnitude."""
    gradient = np.abs(recurrent_gradient(model, part).astype(np.float64))
    # Values outside the range count in the first or the last bin.
    size = np.clip(gradient, 10.0 ** BINS[0], 10.0 ** (BINS[-1] - 0.1))
    counts, _ = np.histogram(np.log10(size), BINS)
    rms = float(np.sqrt(np.mean(gradient**2)))
    return {"log10_bins": BINS.tolist(), "counts": counts.tolist(), "rms": rms}


def measure(arguments):
    """Returns the numbers of the figure: a row per scheme and length."""
    rows = []
    texts = [load_text(arguments, steps, BATCH) for steps in STEPS]
    for steps, data in zip(STEPS, texts):
        times = np.unique(np.geomspace(2, steps, 12).astype(int)).tolist()
        for scheme in WEIGHT_ONLY:
            model, loss = train(scheme, data, arguments)
            lstm = model.get_layer("lstm")
            row = {"scheme": scheme, "steps": steps, "loss": loss}
            row["largest_singular_values"] = largest_singular_values(lstm.cell)
            norms = jacobian_norms(lstm, data.train.x[0], times)
            row |= {"times": times, "jacobian_norms": norms}
            row["gradient"] = gradient_distribution(model, data.train)
            rows.append(row)
            report(row)
    return rows


def report(row):
    singular = " ".join(f"{x:6.2f}" for x in row["largest_singular_values"])
    print(
        f"{row['steps']:4} steps  {SCHEMES[row['scheme']].title:15}"
        f"  λ₁ (i f c o) {singular}"
        f"  ‖∂hₜ/∂h₁‖ at t={row['times'][-1]}: {row['jacobian_norms'][-1]:.1e}"
        f"  rms gradient {row['gradient']['rms']:.1e}",
        flush=True,
    )


def draw(rows, path):
    figure = Figure(figsize=(13, 4), layout="constrained")
    axes = figure.subplots(1, 3)
    for row in rows:
        line = LINES[row["scheme"]] | {"label": SCHEMES[row["scheme"]].title}
        counts = np.array(row["gradient"]["counts"])
        axes[STEPS.index(row["steps"])].plot(
            BINS[:-1] + 0.125, 100 * counts / counts.sum(), linewidth=2, **line
        )
        if row["steps"] == max(STEPS):
            axes[2].plot(
                row["times"], row["jacobian_norms"], linewidth=2, **line
            )
    for axis, steps in zip(axes, STEPS):
        axis.set_title(f"recurrent weight gradients, {steps} steps")
        axis.set_xlabel("log₁₀ |∂ℓ/∂ŵ|")
        axis.set_ylabel("weights in a bin of ¼ (%)")
        axis.set_ylim(bottom=0)
    axes[0].set_xlim(-10, 0)
    axes[2].set(xscale="log", yscale="log", xlabel="time step t")
    axes[2].set_title(f"‖∂hₜ/∂h₁‖, {max(STEPS)} steps")
    axes[0].legend(frameon=False, loc="upper left")
    figure.savefig(path, dpi=120)


def main(argv=None):
    parser = make_parser(__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--cells", type=int, default=128)
    add("--updates", type=int, default=200)
    add("--seed", type=int, default=1)
    add("--output", default="exploding_gradients", help="path without suffix")
    arguments = parser.parse_args(argv)
    keras_lab.config.keep_memory()
    try:
        rows = measure(arguments)
    except datasets.DataError as error:
        sys.exit(f"error: {error}")
    about = {"configuration": vars(arguments), "environment": environment()}
    write_json(f"{arguments.output}.json", {**about, "rows": rows})
    draw(rows, f"{arguments.output}.png")
    print(f"wrote {arguments.output}.png and {arguments.output}.json")


if __name__ == "__main__":
    main()
