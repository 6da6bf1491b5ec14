"""What must hold, and whether it does: from the JSON rows alone."""

import math
import statistics

from benchmarks import peer_tables
from benchmarks.harness import spread
from benchmarks.peer_tables import find
from benchmarks.tables import THREADS, markdown

__all__ = ["table"]

MOST_STEP = 1.10
MOST_LSTM_STEP = 1.0
MOST_OVERHEAD = 0.12
# How time may grow from 10⁷ weights on: weights to the power of this.
MOST_EXPONENT = 1.15
FROM_WEIGHTS = 10**7
# Arrays of four bytes a weight. Training holds latent weights, two moments,
# gradients and ŵ, and while an array is replaced its old and its new value. An
# export holds the latent and the frozen weights, the converter's constants,
# and the float file twice; the rest are the unpacked weights in the runtime
# that checks the file.
MOST_ARRAYS = {"keras": 6, "lab": 7, "export": 14}
# Of which TensorFlow, Keras and XLA take 0.9 before there is a network.
BASE_BYTES = 12 * 10**8
OURS = ("packed", "packed_float", "fast", "float")
NOT_STOCK = ("compute_engine",)


def table(results: dict) -> str:
    """Each claim with what was found."""
    lines = []
    for part, claim, check in CLAIMS:
        content = results.get(part)
        if content is None or not content.get("finished", True):
            lines.append((claim, "not run", ""))
            continue
        holds, found = check(content["rows"])
        lines.append((claim, "yes" if holds else "**no**", found))
    return markdown(("it must hold that", "", "found"), lines)


def step_against_keras(rows):
    found = {
        jit: find(rows, network="mlp", method="lab", jit_compile=jit)["ratio"]
        for jit in (True, False)
    }
    holds = all(ratio["median"] <= MOST_STEP for ratio in found.values())
    return holds, _by_xla({jit: r["median"] for jit, r in found.items()})


def step_against_larq(rows):
    found = {}
    for jit in (True, False):
        cell = {"network": "mlp", "jit_compile": jit}
        lab = find(rows, method="lab", **cell)
        others = [
            find(rows, method=method, **cell)
            for method in ("larq_weights", "larq")
        ]
        seconds = [row["seconds"] for row in others if "seconds" in row]
        if not seconds:
            return False, "larq: " + others[0]["cannot"]
        fastest = min(seconds, key=statistics.median)
        ratios = [a / b for a, b in zip(lab["seconds"], fastest)]
        found[jit] = spread(ratios)
    holds = all(ratio["quartiles"][0] <= 1 for ratio in found.values())
    text = _by_xla({jit: r["median"] for jit, r in found.items()})
    return holds, f"LAB / the faster of larq's: {text}"


def _by_xla(values):
    return f"{values[True]:.2f} with XLA, {values[False]:.2f} without"


def lstm_step(rows):
    row = find(rows, what="train", layer="lab", jit_compile=False)
    return row["ratio"]["median"] <= MOST_LSTM_STEP, (
        f"{row['ratio']['median']:.2f} of keras.layers.LSTM"
    )


def _files(rows):
    """For each network its files by format, ours and those of the peers."""
    for network in dict.fromkeys(row["network"] for row in rows):
        made = {
            row["format"]: row
            for row in rows
            if row["network"] == network and "cannot" not in row
        }
        ours = {f: row for f, row in made.items() if f in OURS}
        peers = {f: row for f, row in made.items() if f not in OURS}
        yield network, ours, peers


def smallest_file(rows):
    holds, texts = True, []
    for network, ours, peers in _files(rows):
        if "packed" not in ours or not peers:
            holds = False
            texts.append(f"{network}: nothing to compare")
            continue
        best = min(peers.values(), key=lambda row: row["file_bytes"])
        share = ours["packed"]["file_bytes"] / best["file_bytes"]
        holds = holds and share < 1
        title = peer_tables.FORMATS[best["format"]]
        texts.append(f"{network} {share:.2f} of {title}")
    return holds, "; ".join(texts)


def near_the_limit(rows):
    holds, texts = True, []
    for network, ours, _ in _files(rows):
        if "packed" not in ours:
            holds = False
            texts.append(f"{network}: no file")
            continue
        packed = ours["packed"]
        over = packed["file_bytes"] / peer_tables.limit_bytes(packed) - 1
        holds = holds and over <= MOST_OVERHEAD
        texts.append(f"{network} {over:.1%}")
    return holds, "over it: " + ", ".join(texts)


def fastest_file(rows):
    holds, texts = True, []
    for network, ours, peers in _files(rows):
        stock = [row for f, row in peers.items() if f not in NOT_STOCK]
        if "fast" not in ours or not stock:
            holds = False
            texts.append(f"{network}: nothing to compare")
            continue
        for threads in map(str, THREADS):
            fast = spread(ours["fast"]["seconds"][threads])
            best, title = min(
                (
                    (spread(row["seconds"][threads]), row["format"])
                    for row in stock
                ),
                key=lambda pair: pair[0]["median"],
            )
            # Within the noise: the quartiles overlap.
            holds = holds and fast["quartiles"][0] <= best["quartiles"][1]
            texts.append(
                f"{network}, threads {threads}: "
                f"{fast['median'] / best['median']:.2f} of "
                + peer_tables.FORMATS[title]
            )
    return holds, "; ".join(texts)


def best_accuracy(rows):
    def of(method):
        values = peer_tables.errors(rows, method)
        return peer_tables.mean_and_deviation(values)

    lab, lab_deviation = of("lab")
    better = []
    for method in peer_tables.ONE_BIT:
        if method == "lab" or not peer_tables.errors(rows, method):
            continue
        mean, deviation = of(method)
        if lab > mean + max(deviation, lab_deviation):
            better.append(f"{peer_tables.METHODS[method]} {mean:.2f}%")
    found = f"LAB {lab:.2f}%"
    return not better, found + (f"; better: {', '.join(better)}" * bool(better))


def linear(rows):
    holds, texts = True, []
    for task, title in peer_tables.TASKS.items():
        points = [
            (row["weights"], statistics.median(row["seconds"]))
            for row in rows
            if row["task"] == task and "cannot" not in row
        ]
        points = [p for p in sorted(points) if p[0] >= FROM_WEIGHTS]
        if len(points) < 2:
            return False, f"{title}: fewer than two sizes"
        (w0, s0), (w1, s1) = points[0], points[-1]
        exponent = math.log(s1 / s0) / math.log(w1 / w0)
        holds = holds and exponent <= MOST_EXPONENT
        texts.append(f"{title}: weights to the power {exponent:.2f}")
    return holds, "; ".join(texts)


def within_memory(rows):
    done = [row for row in rows if "cannot" not in row]
    over = [
        f"{row['task']} at {row['weights']:,}: {row['peak_bytes'] / 1e9:.1f} GB"
        for row in done
        if row["peak_bytes"]
        > BASE_BYTES + 4 * MOST_ARRAYS[row["task"]] * row["weights"]
    ]
    most = max(done, key=lambda row: row["peak_bytes"])
    found = f"the most: {most['peak_bytes'] / 1e9:.1f} GB ({most['task']})"
    return not over, "; ".join(over) or found


CLAIMS = (
    (
        "peers_train_step",
        "a training step of LAB on the MNIST network takes at most 1.10 times "
        "Keras float",
        step_against_keras,
    ),
    ("peers_train_step", "and is not slower than larq", step_against_larq),
    (
        "recurrent_step",
        "a training step of `BinaryLSTM` takes at most 1.0 times "
        "`keras.layers.LSTM`",
        lstm_step,
    ),
    (
        "peers_files",
        '`"packed"` is smaller than every peer\'s file on every network',
        smallest_file,
    ),
    (
        "peers_files",
        "and at most 12% over 1 bit a binary weight and 4 bytes a float",
        near_the_limit,
    ),
    (
        "peers_files",
        '`"fast"` is not slower than the best peer format on a stock runtime, '
        "within the noise",
        fastest_file,
    ),
    (
        "peers_accuracy",
        "LAB errs no more than every other one-bit method, within the spread",
        best_accuracy,
    ),
    (
        "growth",
        "step and export grow linearly with the weights "
        f"(to the power of at most {MOST_EXPONENT}, from 10⁷ on)",
        linear,
    ),
    (
        "growth",
        "no peak of memory above 1.2 GB and 24 (Keras), 28 (LAB), 56 (export) "
        "bytes a weight",
        within_memory,
    ),
)
