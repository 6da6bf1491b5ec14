"""Ways to hold a sentence of the paper against the results.

A check is a function of all results that returns a verdict and the numbers that
it rests on. Networks are compared at equal epochs: those of the one that has
fewest. A network that diverged is worse than any that did not.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from examples.paper.results import Cell, Run, cells_of
from examples.paper.schemes import SCHEMES
from examples.paper.tables import TABLES

AGREES, DIFFERS, OPEN, NOT_RUN = "agrees", "does not", "open", "not run"

Check = Callable[[list[Run]], tuple[str, str]]

# Nats: what is taken for the standard error of a cross-entropy where one run
# does not tell it.
ONE_RUN = 0.01


class Undecided(Exception):
    """What the results do not decide: a verdict, and the reason."""

    def __init__(self, verdict: str, reason: str = ""):
        super().__init__(reason)
        self.verdict = verdict


def decide(check: Check, runs: list[Run]) -> tuple[str, str]:
    """The verdict of a check and its numbers, also where it is undecided."""
    try:
        return check(runs)
    except Undecided as undecided:
        return undecided.verdict, str(undecided)


def compare(
    runs: list[Run], table: str, column: str, schemes: Sequence[str]
) -> dict[str, Cell]:
    """The cells of a column, cut to equal epochs.

    Raises:
        Undecided: If one is missing, or if they are not of the same data.
    """
    cells = cells_of(runs, TABLES[table], column, schemes)
    if None in cells.values():
        raise Undecided(NOT_RUN)
    data = [run.data for cell in cells.values() for run in cell.runs]
    if any(other != data[0] for other in data):
        raise Undecided(OPEN, "the runs are not of the same data")
    epochs = min(cell.epochs for cell in cells.values())
    return {scheme: cell.at(epochs) for scheme, cell in cells.items()}


def _show(cells: Mapping[str, Cell]) -> str:
    numbers = ", ".join(
        f"{SCHEMES[scheme].title} {_number(cell)}"
        for scheme, cell in cells.items()
    )
    epochs = next(iter(cells.values())).epochs
    counts = sorted({len(cell.runs) for cell in cells.values()})
    runs = "–".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    return (
        f"{numbers} ({epochs} epoch{'s' * (epochs != 1)}, "
        f"{runs} run{'s' * (runs != '1')} each"
        + ", not finished" * any(cell.unfinished for cell in cells.values())
        + ")"
    )


def _number(cell):
    diverged = len(cell.runs) - len(cell.values)
    if not cell.values:
        return "diverged"
    text = f"{cell.mean:.{cell.decimals}f}"
    return text + f" and {diverged} diverged" * bool(diverged)


def _score(cell):
    """The mean; infinite if a run diverged."""
    return cell.mean if len(cell.values) == len(cell.runs) else math.inf


def _noise(*cells: Cell) -> float:
    """The standard error of a sum or difference of means.

    That of an error rate is as if two networks' errors were independent: on the
    same images they are not quite, which makes this an upper limit.
    """
    variance = 0.0
    for cell in cells:
        if not cell.values:
            continue
        of_seeds = cell.spread**2 / len(cell.values)
        if cell.measure == "error":
            share = cell.mean / 100
            tested = cell.runs[0].data["test"]
            sampling = 1e4 * share * (1 - share) / tested
            variance += max(sampling, of_seeds)
        elif len(cell.values) > 1:
            variance += of_seeds
        else:
            variance += ONE_RUN**2
    return math.sqrt(variance)


def _verdict(lead, noise):
    """Whether a lead is one, given its standard error."""
    if math.isnan(lead) or abs(lead) < 2 * noise:
        return OPEN
    return AGREES if lead > 0 else DIFFERS


def lowest(table: str, column: str, best: str, schemes) -> Check:
    """That one scheme is below all others."""

    def check(runs):
        cells = compare(runs, table, column, schemes)
        others = [scheme for scheme in schemes if scheme != best]
        rival = min(others, key=lambda scheme: _score(cells[scheme]))
        lead = _score(cells[rival]) - _score(cells[best])
        noise = _noise(cells[best], cells[rival])
        numbers = _show(cells)
        if math.isfinite(lead):
            decimals = cells[best].decimals
            numbers += f"; lead {lead:.{decimals}f} ± {noise:.{decimals}f}"
        return _verdict(lead, noise), numbers

    return check


def within(table: str, column: str, schemes, limit: float) -> Check:
    """That schemes are not further from full precision than a limit."""

    def check(runs):
        cells = compare(runs, table, column, ("full_precision", *schemes))
        reference = _score(cells["full_precision"])
        gaps = [abs(_score(cells[scheme]) - reference) for scheme in schemes]
        # Not max(gaps) <= limit, as a gap may be NaN.
        close = all(gap <= limit for gap in gaps)
        return AGREES if close else DIFFERS, _show(cells)

    return check


def fails(table: str, column: str, scheme: str, limit: float) -> Check:
    """That a scheme stays above a limit, and full precision does not."""

    def check(runs):
        cells = compare(runs, table, column, ("full_precision", scheme))
        if _score(cells["full_precision"]) >= limit:
            return OPEN, _show(cells)
        verdict = AGREES if _score(cells[scheme]) > limit else DIFFERS
        return verdict, _show(cells)

    return check


def at_most(table: str, column: str, limits: Mapping[str, float]) -> Check:
    """That no scheme is above its limit."""

    def check(runs):
        cells = compare(runs, table, column, tuple(limits))
        kept = all(_score(cells[s]) <= limit for s, limit in limits.items())
        return AGREES if kept else DIFFERS, _show(cells)

    return check


def in_each(checks: Mapping[str, Check]) -> Check:
    """That several checks hold, of those that have run."""

    def check(runs):
        found = {title: decide(each, runs) for title, each in checks.items()}
        ran = {t: found[t] for t in found if found[t][0] != NOT_RUN}
        verdicts = {verdict for verdict, _ in ran.values()}
        verdict = next(
            (v for v in (DIFFERS, OPEN, AGREES) if v in verdicts), NOT_RUN
        )
        return verdict, "<br>".join(
            f"{title}: {each}, {numbers}"
            for title, (each, numbers) in ran.items()
        )

    return check


def _first_and_last(runs, table, schemes):
    """Two columns that have run, the first and the last, with their cells."""
    ran = []
    for column in TABLES[table].columns:
        try:
            cells = compare(runs, table, column.title, schemes)
            ran.append((column.title, cells))
        except Undecided:
            continue
    if len(ran) < 2:
        raise Undecided(NOT_RUN)
    return ran[0], ran[-1]


def cost_changes(table: str, scheme: str, sign: int) -> Check:
    """That what a scheme costs rises (1) or falls (-1) along a table."""

    def check(runs):
        schemes = ("full_precision", scheme)
        ends = _first_and_last(runs, table, schemes)
        costs = [
            _score(cells[scheme]) - _score(cells["full_precision"])
            for _, cells in ends
        ]
        noise = _noise(*(c for _, cells in ends for c in cells.values()))
        decimals = ends[0][1][scheme].decimals
        change = costs[1] - costs[0]
        numbers = ", ".join(
            f"{cost:.{decimals}f} at {title}"
            for cost, (title, _) in zip(costs, ends)
        )
        return _verdict(sign * change, noise), (
            f"{numbers}; change {change:.{decimals}f} ± {noise:.{decimals}f}"
        )

    return check


def falls(table: str, scheme: str) -> Check:
    """That a scheme is lower in the last column than in the first."""

    def check(runs):
        ends = _first_and_last(runs, table, (scheme,))
        cells = [cells[scheme] for _, cells in ends]
        lead = _score(cells[0]) - _score(cells[1])
        numbers = ", ".join(
            f"{_number(cell)} at {title}"
            for cell, (title, _) in zip(cells, ends)
        )
        return _verdict(lead, _noise(*cells)), numbers

    return check


def gradients_apart(
    table: str, column: str, scheme: str, others, factor: float, apart: bool
) -> Check:
    """That a scheme's gradients are, or are not, beyond a factor of others'."""

    def check(runs):
        cells = compare(runs, table, column, (scheme, *others))
        sizes = {s: _gradient_size(cell.runs[0]) for s, cell in cells.items()}
        if None in sizes.values():
            raise Undecided(NOT_RUN)
        ratios = {
            SCHEMES[other].title: sizes[scheme] / sizes[other]
            for other in others
        }
        if apart:
            holds = all(ratio > factor for ratio in ratios.values())
        else:
            holds = all(1 / factor < r < factor for r in ratios.values())
        numbers = ", ".join(f"{t} {ratio:.3g}" for t, ratio in ratios.items())
        title = SCHEMES[scheme].title
        return AGREES if holds else DIFFERS, (
            f"root mean square of {title} over that of {numbers}"
        )

    return check


def _gradient_size(run):
    """The root mean square; infinite if an entry is not finite."""
    gradient = run.content.get("recurrent_gradient")
    if gradient is None:
        return None
    return math.inf if gradient["not_finite"] else gradient["rms"]
