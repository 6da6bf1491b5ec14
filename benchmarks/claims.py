"""What must hold, and whether it does: from the JSON rows alone."""

import math
import statistics

from benchmarks import growth, peer_tables
from benchmarks.harness import spread
from benchmarks.peer_tables import FORMATS, METHODS, NETWORKS, ONE_BIT, TASKS
from benchmarks.tables import THREADS, markdown

__all__ = ["not_held", "table"]

MOST_STEP = 1.10
MOST_LSTM_STEP = 1.0
MOST_OVERHEAD = 0.12
# What is not slower has a lower quartile of at most 1, and this median at most.
MOST_MEDIAN = 1.05
# What errs no more has at most so many standard errors, and points, more.
MOST_ERRORS = 2
MOST_POINTS = 0.1
# How time may grow from 10⁷ weights on: weights to the power of this.
MOST_EXPONENT = 1.15
# And how far above the line of best fit a size may be: a factor.
MOST_ABOVE = 1.5
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
# What a peer truly cannot do. Whoever else is missing was not compared.
REFUSALS = {("cifar10", "int2"), ("svhn", "int2"), ("lstm", "compute_engine")}


class Undecided(Exception):
    """A claim that the rows do not decide.

    Args:
        verdict: What stands in the place of yes and no.
        reason: Who is missing, and why.
    """

    def __init__(self, verdict, reason):
        super().__init__(reason)
        self.verdict = verdict


def table(results: dict) -> str:
    """Each claim with what was found."""
    lines = [
        (claim, f"**{verdict}**" if verdict == "no" else verdict, found)
        for claim, verdict, found in _verdicts(results)
    ]
    return markdown(("it must hold that", "", "found"), lines)


def not_held(results: dict) -> str:
    """A list of the claims that are not true, or not known to be."""
    return "\n".join(
        f"- {claim}: {verdict}{found and f' ({found})'}."
        for claim, verdict, found in _verdicts(results)
        if verdict != "yes"
    )


def _verdicts(results):
    """Each claim, whether it holds, and what was found."""
    for part, claim, check in CLAIMS:
        verdict, found = "not run", ""
        if part in results:
            try:
                holds, found = check(results[part])
                verdict = "yes" if holds else "no"
            except Undecided as undecided:
                verdict, found = undecided.verdict, str(undecided)
        yield claim, verdict, found


def need(content, wanted, verdict="not run"):
    """The rows that a claim is about, in their order.

    Args:
        content: Of a part's file.
        wanted: For each row its title, and the values that tell it.
        verdict: What to say where one of them is missing.

    Raises:
        Undecided: If one is missing.
    """
    rows = [peer_tables.find(content["rows"], **key) for _, key in wanted]
    missing = dict.fromkeys(
        f"{title} ({peer_tables.cell(row, str)})"
        for (title, _), row in zip(wanted, rows)
        if row is None or "cannot" in row
    )
    if missing:
        raise Undecided(verdict, "missing: " + "; ".join(missing))
    return rows


def quotients(ours, theirs):
    """Ours over theirs, round by round."""
    return [a / b for a, b in zip(ours, theirs)]


def is_slower(ratios) -> bool:
    """Whether a ratio is above 1, and not by noise alone."""
    found = spread(ratios)
    return found["quartiles"][0] > 1 or found["median"] > MOST_MEDIAN


def step_against_keras(content):
    rows = need(content, _steps("lab"))
    medians = [row["ratio"]["median"] for row in rows]
    return max(medians) <= MOST_STEP, _by_xla(*medians)


def step_against_larq(content):
    ours = need(content, _steps("lab"))
    theirs = need(content, _steps("larq_weights", "larq"), "not compared")
    found = []
    for lab in ours:
        others = [
            row["seconds"]
            for row in theirs
            if row["jit_compile"] == lab["jit_compile"]
        ]
        fastest = min(others, key=statistics.median)
        found.append(quotients(lab["seconds"], fastest))
    text = _by_xla(*map(statistics.median, found))
    return not any(map(is_slower, found)), f"LAB / the faster of larq's: {text}"


def _steps(*methods):
    """What to need of methods on the MNIST network, with XLA and without."""
    return [
        (
            METHODS[method],
            {"network": "mlp", "method": method, "jit_compile": jit_compile},
        )
        for method in methods
        for jit_compile in (True, False)
    ]


def _by_xla(with_xla, without):
    return f"{with_xla:.2f} with XLA, {without:.2f} without"


def lstm_step(content):
    key = {"what": "train", "layer": "lab", "jit_compile": False}
    (row,) = need(content, [("BinaryLSTM", key)])
    median = row["ratio"]["median"]
    return median <= MOST_LSTM_STEP, f"{median:.2f} of keras.layers.LSTM"


def our_files(content, format):
    """Our file in a format, by network."""
    wanted = [
        (FORMATS[format], {"network": network, "format": format})
        for network in NETWORKS
    ]
    return dict(zip(NETWORKS, need(content, wanted)))


def peer_files(content, leave_out=()):
    """The peers' files by network, but for those that cannot be made."""
    refused = {
        (row["network"], row["format"])
        for row in content["rows"]
        if "cannot" in row
    }
    pairs = [
        (network, format)
        for network in NETWORKS
        for format in FORMATS
        if format not in (*OURS, *leave_out)
        and (network, format) not in REFUSALS & refused
    ]
    wanted = [(FORMATS[f], {"network": n, "format": f}) for n, f in pairs]
    found = {network: [] for network in NETWORKS}
    for row in need(content, wanted, "not compared"):
        found[row["network"]].append(row)
    return found


def smallest_file(content):
    ours, peers = our_files(content, "packed"), peer_files(content)
    shares, texts = [], []
    for network, packed in ours.items():
        best = min(peers[network], key=lambda row: row["file_bytes"])
        shares.append(packed["file_bytes"] / best["file_bytes"])
        texts.append(f"{network} {shares[-1]:.2f} of {FORMATS[best['format']]}")
    return max(shares) < 1, "; ".join(texts)


def near_the_limit(content):
    over = {
        network: row["file_bytes"] / peer_tables.limit_bytes(row) - 1
        for network, row in our_files(content, "packed").items()
    }
    texts = [f"{network} {share:.1%}" for network, share in over.items()]
    holds = max(over.values()) <= MOST_OVERHEAD
    return holds, "over it: " + ", ".join(texts)


def fastest_file(content):
    ours, peers = our_files(content, "fast"), peer_files(content, NOT_STOCK)
    texts, slower = [], []
    for network, fast in ours.items():
        for threads in map(str, THREADS):
            ratios = {
                row["format"]: quotients(
                    fast["seconds"][threads], row["seconds"][threads]
                )
                for row in peers[network]
            }
            best = max(ratios, key=lambda f: statistics.median(ratios[f]))
            case = f"{network}, threads {threads}"
            shown = peer_tables.measured(ratios[best])
            texts.append(f"{case}: {shown} of {FORMATS[best]}")
            if is_slower(ratios[best]):
                slower.append(case)
    if slower:
        texts.append(f"slower: {'; '.join(slower)}")
    return not slower, "; ".join(texts)


def best_accuracy(content):
    seeds = content["configuration"]["seeds"]

    def errors(methods, verdict):
        wanted = [
            (METHODS[method], {"method": method, "seed": seed})
            for method in methods
            for seed in seeds
        ]
        rows = need(content, wanted, verdict)
        return {m: peer_tables.errors(rows, m) for m in methods}

    lab = errors(["lab"], "not run")["lab"]
    rivals = errors([m for m in ONE_BIT if m != "lab"], "not compared")
    more = {m: paired(lab, values) for m, values in rivals.items()}
    better = [
        METHODS[method]
        for method, (points, error) in more.items()
        if points > min(MOST_ERRORS * error, MOST_POINTS)
    ]
    worst = max(more, key=lambda method: more[method][0])
    points, error = more[worst]
    texts = [
        f"LAB {statistics.fmean(lab):.2f}%",
        f"the most over another: {points:+.3f} points (standard error "
        f"{error:.3f}), over {METHODS[worst]}",
    ]
    if better:
        texts.append(f"better: {', '.join(better)}")
    return not better, "; ".join(texts)


def paired(ours, theirs):
    """Mean of the differences seed by seed, and its standard error."""
    differences = [a - b for a, b in zip(ours, theirs)]
    mean, deviation = peer_tables.mean_and_deviation(differences)
    return mean, deviation / math.sqrt(len(differences))


def sizes_of(content):
    """The rows of each task of growth, the small ones first."""
    sizes = growth.sizes(growth.WEIGHTS[-1])
    return {
        task: need(
            content,
            [
                (f"{title} at {weights:,}", {"task": task, "weights": weights})
                for weights in sizes
            ],
        )
        for task, title in TASKS.items()
    }


def linear(content):
    holds, texts = True, []
    for task, rows in sizes_of(content).items():
        points = [
            (
                math.log(row["weights"]),
                math.log(statistics.median(row["seconds"])),
            )
            for row in rows
            if row["weights"] >= FROM_WEIGHTS
        ]
        exponent, start = statistics.linear_regression(*zip(*points))
        above = max(math.exp(y - start - exponent * x) for x, y in points)
        holds = holds and exponent <= MOST_EXPONENT and above <= MOST_ABOVE
        texts.append(
            f"{TASKS[task]}: weights to the power {exponent:.2f}, at most "
            f"{above:.2f} times that"
        )
    return holds, "; ".join(texts)


def within_memory(content):
    rows = [row for of_task in sizes_of(content).values() for row in of_task]
    over = [
        f"{row['task']} at {row['weights']:,}: {row['peak_bytes'] / 1e9:.1f} GB"
        for row in rows
        if row["peak_bytes"]
        > BASE_BYTES + bytes_a_weight(row["task"]) * row["weights"]
    ]
    most = max(rows, key=lambda row: row["peak_bytes"])
    found = f"the most: {most['peak_bytes'] / 1e9:.1f} GB ({most['task']})"
    return not over, "; ".join(over) or found


def bytes_a_weight(task) -> int:
    """What a task may hold, of arrays of four bytes a weight."""
    return 4 * MOST_ARRAYS[task]


CLAIMS = (
    (
        "peers_train_step",
        "a training step of LAB on the MNIST network takes at most "
        f"{MOST_STEP:.2f} times Keras float",
        step_against_keras,
    ),
    (
        "peers_train_step",
        "a training step of LAB on the MNIST network is not slower than "
        "larq's, within the noise (as below)",
        step_against_larq,
    ),
    (
        "recurrent_step",
        f"a training step of `BinaryLSTM` takes at most {MOST_LSTM_STEP} times "
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
        f'`"packed"` is at most {MOST_OVERHEAD:.0%} over 1 bit a binary weight '
        "and 4 bytes a float",
        near_the_limit,
    ),
    (
        "peers_files",
        '`"fast"` is not slower than the best peer format on a stock runtime, '
        "within the noise (of the ratio process by process the lower quartile "
        f"at most 1, the median at most {MOST_MEDIAN})",
        fastest_file,
    ),
    (
        "peers_accuracy",
        "LAB errs no more than every other one-bit method, within the spread "
        f"(seed by seed at most {MOST_POINTS} points more, and at most "
        f"{MOST_ERRORS} standard errors)",
        best_accuracy,
    ),
    (
        "growth",
        "step and export grow linearly with the weights "
        f"(to the power of at most {MOST_EXPONENT}, from 10⁷ on, and nowhere "
        f"more than {MOST_ABOVE} times that)",
        linear,
    ),
    (
        "growth",
        f"no peak of memory above {BASE_BYTES / 1e9} GB and "
        f"{bytes_a_weight('keras')} (Keras), {bytes_a_weight('lab')} (LAB), "
        f"{bytes_a_weight('export')} (export) bytes a weight",
        within_memory,
    ),
)
