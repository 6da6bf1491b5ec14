"""What the runs say about two schemes, seed by seed, as rows of tables.

Runs with the same seed start from the same weights and see the examples in the
same order, so their differences are paired.
"""

import base64
import itertools
import math
import statistics
from collections.abc import Callable

import numpy as np
from scipy import stats

from examples.paper import experiments
from examples.paper.schemes import ALL_SCHEMES, CONTROLS
from examples.paper.tables import TABLES as PAPER_TABLES
from examples.paper.tables import Run, shown

Rows = tuple[list[str], list[list]]


def interval(differences: list[float]) -> tuple[float, float]:
    """The mean of paired differences, and half of its 95% interval (t test).

    Half of the interval is NaN for a single difference.
    """
    mean, count = statistics.fmean(differences), len(differences)
    if count < 2:
        return mean, math.nan
    error = statistics.stdev(differences) / math.sqrt(count)
    return mean, float(stats.t.ppf(0.975, count - 1)) * error


def format_interval(differences: list[float]) -> str:
    """The mean, and the 95% interval if there are several differences."""
    mean, half = interval(differences)
    text = f"{mean:+.3f}"
    if not math.isnan(half):
        text += f" [{mean - half:+.3f}, {mean + half:+.3f}]"
    return text.replace("-", "−")


def _by_seed(runs, experiment, scheme):
    return {
        r.seed: r
        for r in runs
        if (r.experiment, r.scheme) == (experiment, scheme)
    }


def leads(runs: list[Run]) -> Rows:
    """LAB minus BWN and LAB2 minus XNOR on the texts, at equal epochs."""
    heads = ["experiment", "difference", "epochs", "seeds", "nats [95%]"]
    rows = []
    names = dict.fromkeys(
        r.experiment
        for r in runs
        if r.measure == "loss" and r.content["recipe"] != experiments.WHY
    )
    for name, (ours, other) in itertools.product(
        names, (("lab", "bwn"), ("lab2", "xnor"))
    ):
        first, second = (_by_seed(runs, name, s) for s in (ours, other))
        pairs = [(first[s], second[s]) for s in first if s in second]
        done = [min(a.epochs_done, b.epochs_done) for a, b in pairs]
        for epochs in sorted(set(done)):
            chosen = [p for p, count in zip(pairs, done) if count >= epochs]
            found = [
                a.selected(epochs)["test_loss"]
                - b.selected(epochs)["test_loss"]
                for a, b in chosen
            ]
            titles = [ALL_SCHEMES[s].title for s in (ours, other)]
            row = [name, " − ".join(titles), epochs, len(found)]
            rows.append([*row, format_interval(found)])
    return heads, rows


def why_runs(runs: list[Run], scheme: str) -> dict[int, Run]:
    """The finished runs of a scheme at its chosen learning rate, by seed."""
    found = [
        r
        for r in runs
        if (r.content["recipe"], r.scheme) == (experiments.WHY, scheme)
        and r.epochs_done >= r.recipe.epochs
    ]
    rate = experiments.best_rate(r.content for r in found if r.seed == 1)
    return {r.seed: r for r in found if r.learning_rate == rate}


def epochs_to_reach(run: Run, loss: float) -> int | None:
    """The first epoch with a test loss as low as this, or `None`."""
    losses = enumerate(run.history["test_loss"], start=1)
    return next((n for n, x in losses if x is not None and x <= loss), None)


def why(runs: list[Run]) -> Rows:
    """The schemes and the controls, compared with BWN or XNOR."""
    heads = ["scheme", "learning rate", "seeds", "test nats", "compared with"]
    heads += ["difference [95%]", "epochs to its final loss"]
    rows = []
    for scheme in (*experiments.COMPARED, *CONTROLS):
        reference = "xnor" if ALL_SCHEMES[scheme].input_quantizer else "bwn"
        found, others = why_runs(runs, scheme), why_runs(runs, reference)
        if not found:
            continue
        losses = {s: r.selected()["test_loss"] for s, r in found.items()}
        text = f"**{statistics.fmean(losses.values()):.3f}**"
        if len(losses) > 1:
            text += f" ± {statistics.stdev(losses.values()):.3f}"
        row = [ALL_SCHEMES[scheme].title, found[1].learning_rate, len(found)]
        pairs = {
            s: others[s].selected()["test_loss"] for s in found if s in others
        }
        if not pairs:
            rows.append([*row, text, "–", "–", "–"])
            continue
        gaps = [losses[s] - loss for s, loss in pairs.items()]
        reached = [epochs_to_reach(found[s], x) for s, x in pairs.items()]
        never = reached.count(None)
        epochs = f"not reached by {never} of {len(reached)}"
        if not never:
            epochs = f"{statistics.fmean(reached):.1f}"
        same = scheme == reference
        row += [text, "–" if same else ALL_SCHEMES[reference].title]
        rows.append([*row, "–" if same else format_interval(gaps), epochs])
    return heads, rows


def ratios(runs: list[Run]) -> Rows:
    """LAB's α divided by mean|w|, by kernel and gate."""
    rows = []
    for scheme, kind in itertools.product(("lab", "lab2"), ("", "recurrent_")):
        found = why_runs(runs, scheme).values()
        if not found:
            continue
        gates = [
            statistics.fmean(
                statistics.fmean(r.history[f"lstm/{kind}ratio_{gate}"])
                for r in found
            )
            for gate in "ifco"
        ]
        kernel = "recurrent kernel" if kind else "input kernel"
        title = ALL_SCHEMES[scheme].title
        rows.append([title, kernel, *(f"{gate:.3f}" for gate in gates)])
    heads = ["scheme", "weights", "input gate", "forget gate", "candidate"]
    return [*heads, "output gate"], rows


def byte_rows(runs: list[Run]) -> Rows:
    """How large the weights of frequent and of rare bytes are."""
    found = {s: list(why_runs(runs, s).values()) for s in ("lab", "bwn")}
    heads = ["bytes by frequency", "share of the text (%)"]
    heads += ["mean\\|w\\|, LAB", "mean\\|w\\|, BWN", "d, LAB (mean = 1)"]
    if not all(found.values()):
        return heads, []

    def mean(scheme, name):
        return np.mean([r.rows[name] for r in found[scheme]], axis=0)

    count, curvature = mean("lab", "count"), mean("lab", "curvature")
    parts = np.array_split(np.argsort(-count), 4)
    rows, first = [], 1
    for part in parts:
        last = first + len(part) - 1
        numbers = [
            f"{100 * count[part].sum() / count.sum():.2f}",
            *(f"{mean(s, 'weight')[part].mean():.3f}" for s in found),
            f"{curvature[part].mean() / curvature.mean():.3f}",
        ]
        rows.append([f"{first} to {last}", *numbers])
        first = last + 1
    return heads, rows


def mcnemar(first: np.ndarray, second: np.ndarray) -> tuple[int, int, float]:
    """Compares two networks on the same examples, given their hits.

    Returns how many examples only the first has wrong, how many only the
    second, and the exact two-sided p value.
    """
    only_first = int((~first & second).sum())
    only_second = int((first & ~second).sum())
    count = only_first + only_second
    if not count:
        return 0, 0, 1.0
    p = stats.binomtest(only_first, count, 0.5).pvalue
    return only_first, only_second, float(p)


def hits(run: Run) -> np.ndarray:
    """Whether each test example was right, at the best epoch."""
    bits = np.frombuffer(base64.b64decode(run.content["hits"]), np.uint8)
    return np.unpackbits(bits, count=run.data["test"]).astype(bool)


def paired_errors(runs: list[Run]) -> Rows:
    """McNemar's test for the pairs of networks whose hits were kept."""
    heads = ["experiment", "seed", "networks", "errors (%)"]
    heads += ["only the first wrong", "only the second wrong", "p"]
    pairs = [("lab", "bwn"), ("lab", "binary_connect")]
    pairs += [("lab", "full_precision"), ("lab2", "xnor"), ("lab2", "bnn")]
    kept = {(r.experiment, r.seed, r.scheme): r for r in runs if _has_hits(r)}
    rows = []
    for name, seed in dict.fromkeys(key[:2] for key in kept):
        for pair in pairs:
            both = [kept.get((name, seed, scheme)) for scheme in pair]
            if None in both or len({r.epochs_done for r in both}) > 1:
                continue
            *counts, p = mcnemar(*map(hits, both))
            titles = " and ".join(ALL_SCHEMES[s].title for s in pair)
            errors = [f"{r.selected()['test_error']:.2f}" for r in both]
            row = [name, seed, titles, " and ".join(errors), *counts]
            rows.append([*row, f"{p:.2f}"])
    return heads, rows


def _has_hits(run):
    return "hits" in run.content


def gradients(runs: list[Run]) -> Rows:
    """The size of the recurrent weights' gradients, as in Figure 2."""
    heads = ["scheme", "time steps", "epochs", "root mean square"]
    rows = [
        [
            ALL_SCHEMES[scheme].title,
            column.sizes["steps"],
            cell.runs[0].epochs_done,
            f"{cell.runs[0].recurrent_gradient['rms']:.2g}",
        ]
        for column, _, cells in shown(runs, PAPER_TABLES["table4"])
        for scheme, cell in cells.items()
        if cell and column.sizes["steps"] in (10, 100)
    ]
    return heads, rows


def code(runs: list[Run]) -> Rows:
    """Runs that follow the authors' code, beside ours at equal epochs."""
    heads = ["experiment", "scheme", "seed", "epochs", "as the paper says"]
    rows = []
    for run in runs:
        if run.follow != "code":
            continue
        name = run.experiment.removesuffix("-code")
        ours = _by_seed(runs, name, run.scheme).get(run.seed)
        epochs = min(r.epochs_done for r in (run, ours or run))
        best = [r and r.selected(epochs) for r in (ours, run)]
        key = f"test_{run.measure}"
        numbers = [f"{b[key]:.3f}" if b else "–" for b in best]
        title = ALL_SCHEMES[run.scheme].title
        rows.append([name, title, run.seed, epochs, *numbers])
    return [*heads, "as the authors' code"], rows


TABLES: dict[str, Callable[[list[Run]], Rows]] = {
    "leads": leads,
    "why": why,
    "ratios": ratios,
    "byte_rows": byte_rows,
    "paired_errors": paired_errors,
    "gradients": gradients,
    "code": code,
}
