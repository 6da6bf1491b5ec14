"""Comparisons of two schemes, and what explains them: rows of tables.

Runs with the same seed start from the same weights and see the examples in the
same order, so the differences between two schemes are paired by seed.
"""

import itertools
import statistics
from collections.abc import Iterator

import numpy as np
from scipy import stats

from examples.pages import mean_and_spread
from examples.paper.recipes import COMPARED, WHY
from examples.paper.results import Run, by_seed, tuned
from examples.paper.schemes import ALL_SCHEMES, CONTROLS, SCHEMES
from examples.paper.tables import TABLES, shown

GATES = ("input gate", "forget gate", "candidate", "output gate")


def interval(differences: list[float]) -> str:
    """The mean of paired differences; if several, its 95% interval (t test)."""
    text = f"{statistics.fmean(differences):+.3f}"
    if len(differences) > 1:
        low, high = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
        text += f" [{low:+.3f}, {high:+.3f}]"
    return text.replace("-", "−")


def pairs(runs: list[Run], experiment: str, schemes) -> list[tuple[Run, Run]]:
    """The runs of two schemes with equal seeds."""
    first, second = (by_seed(runs, experiment, s) for s in schemes)
    return [(first[seed], second[seed]) for seed in first if seed in second]


def leads(runs: list[Run]) -> Iterator[dict]:
    """LAB minus BWN and LAB2 minus XNOR on the texts, at equal epochs."""
    names = dict.fromkeys(
        run.experiment
        for run in runs
        if run.measure == "loss" and run.recipe.name != WHY
    )
    schemes = (("lab", "bwn"), ("lab2", "xnor"))
    for name, pair in itertools.product(names, schemes):
        found = [
            (a, b, min(a.epochs_done, b.epochs_done))
            for a, b in pairs(runs, name, pair)
        ]
        for epochs in sorted({done for *_, done in found}):
            gaps = [
                a.score(epochs) - b.score(epochs)
                for a, b, done in found
                if done >= epochs
            ]
            yield {
                "experiment": name,
                "difference": " − ".join(SCHEMES[s].title for s in pair),
                "epochs": epochs,
                "seeds": len(gaps),
                "nats [95%]": interval(gaps),
            }


def epochs_to_reach(run: Run, loss: float) -> int | None:
    """The first epoch with a test loss as low as this, or `None`."""
    losses = enumerate(run.history["test_loss"], start=1)
    return next((n for n, x in losses if x is not None and x <= loss), None)


def why(runs: list[Run]) -> Iterator[dict]:
    """The schemes and the controls, compared with BWN or XNOR."""
    for scheme in (*COMPARED, *CONTROLS):
        reference = "xnor" if ALL_SCHEMES[scheme].input_quantizer else "bwn"
        found, others = tuned(runs, scheme), tuned(runs, reference)
        if not found:
            continue
        paired = [(found[s], others[s].score()) for s in found if s in others]
        reached = [epochs_to_reach(run, loss) for run, loss in paired]
        epochs = None
        if never := reached.count(None):
            epochs = f"not reached by {never} of {len(reached)}"
        elif reached:
            epochs = f"{statistics.fmean(reached):.1f}"
        scores = [run.score() for run in found.values()]
        gaps = scheme != reference and [r.score() - loss for r, loss in paired]
        yield {
            "scheme": ALL_SCHEMES[scheme].title,
            "learning rate": found[1].learning_rate,
            "seeds": len(found),
            "test nats": mean_and_spread(scores, 3),
            "compared with": ALL_SCHEMES[reference].title if gaps else None,
            "difference [95%]": interval(gaps) if gaps else None,
            "epochs to its final loss": epochs,
        }


def ratios(runs: list[Run]) -> Iterator[dict]:
    """LAB's α divided by mean|w|, by kernel and gate."""
    for scheme, kernel in itertools.product(
        ("lab", "lab2"), ("input", "recurrent")
    ):
        found = tuned(runs, scheme).values()
        if not found:
            continue
        row = {"scheme": SCHEMES[scheme].title, "weights": f"{kernel} kernel"}
        prefix = "recurrent_" if kernel == "recurrent" else ""
        for gate in GATES:
            name = f"lstm/{prefix}ratio_{gate[0]}"
            means = [statistics.fmean(run.history[name]) for run in found]
            row[gate] = f"{statistics.fmean(means):.3f}"
        yield row


def byte_rows(runs: list[Run]) -> Iterator[dict]:
    """How large the weights of frequent and of rare bytes are."""
    lab, bwn = (
        [run.rows for run in tuned(runs, s).values()] for s in ("lab", "bwn")
    )
    if not (lab and bwn):
        return

    def mean(found, name):
        return np.mean([rows[name] for rows in found], axis=0)

    count, curvature = mean(lab, "count"), mean(lab, "curvature")
    lab, bwn = mean(lab, "weight"), mean(bwn, "weight")
    last = 0
    for part in np.array_split(np.argsort(-count), 4):
        first, last = last + 1, last + len(part)
        share = 100 * count[part].sum() / count.sum()
        relative = curvature[part].mean() / curvature.mean()
        yield {
            "bytes by frequency": f"{first} to {last}",
            "share of the text (%)": f"{share:.2f}",
            "mean\\|w\\|, LAB": f"{lab[part].mean():.3f}",
            "mean\\|w\\|, BWN": f"{bwn[part].mean():.3f}",
            "d, LAB (mean = 1)": f"{relative:.3f}",
        }


def paired_errors(runs: list[Run]) -> Iterator[dict]:
    """McNemar's exact test for the pairs of networks whose hits were kept."""
    compared = [("lab", "bwn"), ("lab", "binary_connect")]
    compared += [("lab", "full_precision"), ("lab2", "xnor"), ("lab2", "bnn")]
    kept = [run for run in runs if "hits" in run.content]
    names = dict.fromkeys(run.experiment for run in kept)
    for name, schemes in itertools.product(names, compared):
        for both in pairs(kept, name, schemes):
            if both[0].epochs_done != both[1].epochs_done:
                continue
            first, second = (run.right() for run in both)
            only_first = int((~first & second).sum())
            only_second = int((first & ~second).sum())
            # The test needs at least one difference.
            count = max(only_first + only_second, 1)
            p = stats.binomtest(only_first, count).pvalue
            yield {
                "experiment": name,
                "seed": both[0].seed,
                "networks": " and ".join(run.title for run in both),
                "errors (%)": " and ".join(f"{r.score():.2f}" for r in both),
                "only the first wrong": only_first,
                "only the second wrong": only_second,
                "p": f"{p:.2f}",
            }


def gradients(runs: list[Run]) -> Iterator[dict]:
    """The size of the recurrent weights' gradients, as in Figure 2."""
    for column, _, cells in shown(runs, TABLES["table4"]):
        for cell in filter(None, cells.values()):
            if column.at in (10, 100):
                run = cell.runs[0]
                yield {
                    "scheme": run.title,
                    "time steps": column.at,
                    "epochs": run.epochs_done,
                    "root mean square": f"{run.recurrent_gradient['rms']:.2g}",
                }


def code(runs: list[Run]) -> Iterator[dict]:
    """Runs that follow the authors' code, beside ours at equal epochs."""
    for run in runs:
        if run.follow == "code":
            name = run.experiment.removesuffix("-code")
            ours = by_seed(runs, name, run.scheme).get(run.seed)
            epochs = min(r.epochs_done for r in (ours or run, run))
            scores = [r and r.score(epochs) for r in (ours, run)]
            numbers = [s and f"{s:.3f}" for s in scores]
            yield {
                "experiment": name,
                "scheme": run.title,
                "seed": run.seed,
                "epochs": epochs,
                "as the paper says": numbers[0],
                "as the authors' code": numbers[1],
            }
