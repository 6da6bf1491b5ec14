"""Ways to hold a sentence of the paper against the results.

A check is a function of all results that returns a verdict and the numbers that
it rests on. Networks are compared at equal epochs, those of the one that has
fewest, or at equal updates of the weights. A network that diverged is worse
than any that did not.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from examples.paper.results import Cell, Run, cell_of
from examples.paper.schemes import SCHEMES
from examples.paper.tables import TABLES

HOLDS, DIFFERS, OPEN, NOT_RUN = "holds", "does not hold", "open", "not run"
SO_FAR = "holds so far"

Check = Callable[[list[Run]], tuple[str, str]]


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
    runs: list[Run],
    table: str,
    columns: Sequence[str],
    schemes: Sequence[str],
    equal_updates: bool = False,
) -> list[dict[str, Cell]]:
    """The cells by scheme, column by column, all cut to equal length.

    Args:
        runs: All runs.
        table: The table.
        columns: Titles of some columns.
        schemes: Some schemes.
        equal_updates: Whether the length is counted in updates of the weights,
            to the nearest epoch, and not in epochs.

    Raises:
        Undecided: If one is missing, or if they are not of the same data.
    """
    places = [(column, scheme) for column in columns for scheme in schemes]
    cells = [cell_of(runs, table, *place) for place in places]
    if None in cells:
        raise Undecided(NOT_RUN)
    steps = [cell.updates if equal_updates else 1 for cell in cells]
    least = min(cell.epochs * step for cell, step in zip(cells, steps))
    epochs = [round(least / step) for step in steps]
    if 0 in epochs:
        raise Undecided(OPEN, "an epoch of one is longer than the other run")
    cells = {
        place: cell_of(runs, table, *place, count)
        for place, count in zip(places, epochs)
    }
    found = [{s: cells[column, s] for s in schemes} for column in columns]
    for of_column in found:
        _check_data(of_column.values(), lambda run: run.data)
    # The parts of a text are other ones for other time steps.
    _check_data(cells.values(), lambda run: run.data.get("files"))
    return found


def _check_data(cells, data_of):
    data = [data_of(run) for cell in cells for run in cell.runs]
    if any(other != data[0] for other in data):
        raise Undecided(OPEN, "the runs are not of the same data")


def _show(cells: Mapping[str, Cell]) -> str:
    numbers = ", ".join(
        f"{SCHEMES[scheme].title} {_number(cell)}"
        for scheme, cell in cells.items()
    )
    return f"{numbers} {_terms(cells.values())}"


def _terms(cells):
    """How many epochs and runs stand behind numbers, in brackets."""
    cells = list(cells)
    epochs = [cell.epochs for cell in cells]
    length = _span(epochs)
    of_paper = {cell.runs[0].recipe.epochs for cell in cells}
    if len(of_paper) == 1 and max(epochs) < min(of_paper):
        length += f" of {min(of_paper)}"
    runs = _span([len(cell.runs) for cell in cells])
    return (
        f"({length} epoch{'s' * (length != '1')}, "
        f"{runs} run{'s' * (runs != '1')} each"
        + ", not finished" * any(cell.unfinished for cell in cells)
        + ", reduced" * any(cell.reduced for cell in cells)
        + ")"
    )


def _span(numbers):
    """One number, or the lowest and the highest."""
    return "–".join(map(str, sorted({min(numbers), max(numbers)})))


def _number(cell):
    diverged = len(cell.runs) - len(cell.values)
    if not cell.values:
        return "diverged"
    text = f"{cell.mean:.{cell.decimals}f}"
    return text + f" and {diverged} diverged" * bool(diverged)


def _score(cell):
    """The mean; infinite if a run diverged."""
    return cell.mean if len(cell.values) == len(cell.runs) else math.inf


def _reference(cells):
    """The score of full precision, without which a cost is none."""
    score = _score(cells["full_precision"])
    if math.isinf(score):
        raise Undecided(OPEN, _show(cells))
    return score


def _noise(*cells: Cell) -> float:
    """The standard error of a sum or difference of means.

    As if two networks' errors were independent.
    """
    return math.hypot(*(cell.standard_error for cell in cells if cell.values))


def _verdict(lead, noise):
    """Whether a lead is one, given its standard error."""
    if math.isnan(lead) or abs(lead) <= 2 * noise:
        return OPEN
    return HOLDS if lead > 0 else DIFFERS


def _all(verdicts):
    """The verdict on a sentence that several must agree with."""
    ran = set(verdicts) - {NOT_RUN}
    if not ran:
        return NOT_RUN
    verdict = next(v for v in (DIFFERS, OPEN, SO_FAR, HOLDS) if v in ran)
    return SO_FAR if verdict == HOLDS and NOT_RUN in verdicts else verdict


def lowest(table: str, column: str, best: str, schemes) -> Check:
    """That one scheme is below each of the others that ran."""

    def check(runs):
        ran = [s for s in schemes if cell_of(runs, table, column, s)]
        others = [scheme for scheme in ran if scheme != best]
        missing = [scheme for scheme in schemes if scheme not in ran]
        if best in missing or not others:
            raise Undecided(NOT_RUN)
        (cells,) = compare(runs, table, [column], ran)
        leads = {s: _score(cells[s]) - _score(cells[best]) for s in others}
        noise = {s: _noise(cells[s], cells[best]) for s in others}
        numbers = _show(cells)
        rival = min(others, key=leads.get)
        if math.isfinite(leads[rival]):
            decimals = cells[best].decimals
            lead, error = (
                f"{value[rival]:.{decimals}f}" for value in (leads, noise)
            )
            numbers += f"; lead {lead} ± {error}"
        verdicts = {_verdict(leads[s], noise[s]) for s in others}
        if missing:
            titles = ", ".join(SCHEMES[scheme].title for scheme in missing)
            numbers += f"; {titles} not run"
            verdicts.add(NOT_RUN)
        return _all(verdicts), numbers

    return check


def within(table: str, column: str, schemes, limit: float) -> Check:
    """That schemes are not further from full precision than a limit."""

    def check(runs):
        (cells,) = compare(runs, table, [column], ("full_precision", *schemes))
        reference = _reference(cells)
        close = all(
            abs(_score(cells[scheme]) - reference) <= limit
            for scheme in schemes
        )
        return HOLDS if close else DIFFERS, _show(cells)

    return check


def fails(table: str, column: str, scheme: str, limit: float) -> Check:
    """That a scheme stays above a limit, and full precision does not."""

    def check(runs):
        (cells,) = compare(runs, table, [column], ("full_precision", scheme))
        if _reference(cells) >= limit:
            return OPEN, _show(cells)
        verdict = HOLDS if _score(cells[scheme]) > limit else DIFFERS
        return verdict, _show(cells)

    return check


def at_most(table: str, column: str, limits: Mapping[str, float]) -> Check:
    """That no scheme is above its limit, after all the paper's epochs."""

    def check(runs):
        cells = {s: cell_of(runs, table, column, s) for s in limits}
        if None in cells.values():
            raise Undecided(NOT_RUN)
        verdicts = set()
        for scheme, cell in cells.items():
            if cell.epochs < cell.runs[0].recipe.epochs:
                verdicts.add(OPEN)
            else:
                kept = _score(cell) <= limits[scheme]
                verdicts.add(HOLDS if kept else DIFFERS)
        return _all(verdicts), _show(cells)

    return check


def in_each(checks: Mapping[str, Check]) -> Check:
    """That several checks hold; so far, where some have not run."""

    def check(runs):
        found = {title: decide(each, runs) for title, each in checks.items()}
        verdict = _all({verdict for verdict, _ in found.values()})
        if verdict == NOT_RUN:
            raise Undecided(NOT_RUN)
        return verdict, "<br>".join(
            f"{title}: " + ", ".join(filter(None, pair))
            for title, pair in found.items()
        )

    return check


def _ends(runs, table, schemes, equal_updates):
    """The first and the last column that have run: titles, and their cells."""
    ran = [
        column.title
        for column in TABLES[table].columns
        if all(cell_of(runs, table, column.title, s) for s in schemes)
    ]
    if len(ran) < 2:
        raise Undecided(NOT_RUN)
    titles = (ran[0], ran[-1])
    return titles, compare(runs, table, titles, schemes, equal_updates)


def cost_changes(
    table: str, scheme: str, sign: int, equal_updates: bool = False
) -> Check:
    """That what a scheme costs rises (1) or falls (-1) along a table."""

    def check(runs):
        both = ("full_precision", scheme)
        titles, ends = _ends(runs, table, both, equal_updates)
        return _change_of_cost(dict(zip(titles, ends)), scheme, sign)

    return check


def cost_falls_in_time(table: str, column: str, scheme: str) -> Check:
    """That a scheme costs less after the last epoch than after the first."""

    def check(runs):
        both = ("full_precision", scheme)
        (last,) = compare(runs, table, [column], both)
        epochs = last[scheme].epochs
        if epochs < 2:
            raise Undecided(NOT_RUN)
        first = {s: cell_of(runs, table, column, s, 1) for s in both}
        ends = {"epoch 1": first, f"epoch {epochs}": last}
        return _change_of_cost(ends, scheme, sign=-1)

    return check


def _change_of_cost(ends, scheme, sign):
    """Whether what a scheme costs rises (1) or falls (-1).

    Args:
        ends: Two titles, and their cells by scheme.
        scheme: The scheme.
        sign: Which way.
    """
    cells = [cell for end in ends.values() for cell in end.values()]
    costs = [_score(end[scheme]) - _reference(end) for end in ends.values()]
    if not all(map(math.isfinite, costs)):
        return OPEN, "; ".join(map(_show, ends.values()))
    change, noise = costs[1] - costs[0], _noise(*cells)
    decimals = cells[0].decimals
    numbers = ", ".join(
        f"{cost:.{decimals}f} at {title}" for cost, title in zip(costs, ends)
    )
    return _verdict(sign * change, noise), (
        f"{numbers}; change {change:.{decimals}f} ± {noise:.{decimals}f} "
        + _terms(cells)
    )


def falls(table: str, scheme: str, equal_updates: bool = False) -> Check:
    """That a scheme is lower in the last column than in the first."""

    def check(runs):
        titles, ends = _ends(runs, table, (scheme,), equal_updates)
        first, last = cells = [end[scheme] for end in ends]
        numbers = ", ".join(
            f"{_number(cell)} at {title}" for cell, title in zip(cells, titles)
        )
        lead = _score(first) - _score(last)
        return _verdict(lead, _noise(*cells)), f"{numbers} {_terms(cells)}"

    return check


def gradients(table: str, column: str, schemes, holds: Callable) -> Check:
    """That the sizes of the recurrent weights' gradients are so and so.

    Args:
        table: The table.
        column: The column.
        schemes: The schemes whose gradients matter.
        holds: A function of the root mean squares by scheme.
    """

    def check(runs):
        (cells,) = compare(runs, table, [column], schemes)
        first = {scheme: cell.runs[0] for scheme, cell in cells.items()}
        sizes = {s: _gradient_size(run) for s, run in first.items()}
        if None in sizes.values():
            raise Undecided(NOT_RUN)
        epochs = {run.epochs_done for run in first.values()}
        numbers = ", ".join(
            f"{SCHEMES[s].title} {size:.2g}" for s, size in sizes.items()
        )
        numbers = f"root mean square {numbers} {_terms(cells.values())}"
        if len(epochs) > 1:
            return OPEN, f"not of the same epoch: {numbers}"
        return HOLDS if holds(sizes) else DIFFERS, numbers

    return check


def _gradient_size(run):
    """The root mean square; infinite if an entry is not finite."""
    gradient = run.content.get("recurrent_gradient")
    if gradient is None:
        return None
    return math.inf if gradient["not_finite"] else gradient["rms"]
