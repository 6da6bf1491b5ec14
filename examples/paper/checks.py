"""Ways to hold a sentence of the paper against the results.

A check is a function of all results that returns a verdict and the numbers that
it rests on. `comparison` says how networks are compared.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping

from examples.paper.cells import cell_of
from examples.paper.comparison import (
    DIFFERS,
    HOLDS,
    NOT_RUN,
    OPEN,
    Undecided,
    compare,
    ran,
    reference,
    score,
    show,
    show_number,
    standard_error,
    terms,
    verdict_of_all,
    verdict_of_lead,
)
from examples.paper.results import Run
from examples.paper.schemes import SCHEMES
from examples.paper.tables import TABLES

Check = Callable[[list[Run]], tuple[str, str]]


def decide(check: Check, runs: list[Run]) -> tuple[str, str]:
    """The verdict of a check and its numbers, also where it is undecided."""
    try:
        return check(runs)
    except Undecided as undecided:
        return undecided.verdict, str(undecided)


def lowest(table: str, column: str, best: str, schemes) -> Check:
    """That one scheme is below each of the others that ran."""

    def check(runs):
        found = [scheme for _, scheme in ran(runs, table, [column], schemes)]
        others = [scheme for scheme in found if scheme != best]
        missing = [scheme for scheme in schemes if scheme not in found]
        if best in missing or not others:
            raise Undecided(NOT_RUN)
        (cells,) = compare(runs, table, [column], found)
        leads = {s: score(cells[s]) - score(cells[best]) for s in others}
        noise = {s: standard_error(cells[s], cells[best]) for s in others}
        numbers = show(cells)
        rival = min(others, key=leads.get)
        if math.isfinite(leads[rival]):
            decimals = cells[best].decimals
            lead, error = (
                f"{value[rival]:.{decimals}f}" for value in (leads, noise)
            )
            numbers += f"; lead {lead} ± {error}"
        verdicts = {verdict_of_lead(leads[s], noise[s]) for s in others}
        if missing:
            titles = ", ".join(SCHEMES[scheme].title for scheme in missing)
            numbers += f"; {titles} not run"
            verdicts.add(NOT_RUN)
        return verdict_of_all(verdicts), numbers

    return check


def within(table: str, column: str, schemes, limit: float) -> Check:
    """That schemes are not further from full precision than a limit."""

    def check(runs):
        (cells,) = compare(runs, table, [column], ("full_precision", *schemes))
        middle = reference(cells)
        close = all(
            abs(score(cells[scheme]) - middle) <= limit for scheme in schemes
        )
        return HOLDS if close else DIFFERS, show(cells)

    return check


def fails(table: str, column: str, scheme: str, limit: float) -> Check:
    """That a scheme stays above a limit, and full precision does not."""

    def check(runs):
        (cells,) = compare(runs, table, [column], ("full_precision", scheme))
        if reference(cells) >= limit:
            return OPEN, show(cells)
        verdict = HOLDS if score(cells[scheme]) > limit else DIFFERS
        return verdict, show(cells)

    return check


def at_most(table: str, column: str, limits: Mapping[str, float]) -> Check:
    """That no scheme is above its limit, after all the paper's epochs."""

    def check(runs):
        cells = {s: cell_of(runs, table, column, s) for s in limits}
        if any(cell is None or cell.reduced for cell in cells.values()):
            raise Undecided(NOT_RUN)
        verdicts = set()
        for scheme, cell in cells.items():
            if cell.epochs < cell.runs[0].recipe.epochs:
                verdicts.add(OPEN)
            else:
                kept = score(cell) <= limits[scheme]
                verdicts.add(HOLDS if kept else DIFFERS)
        return verdict_of_all(verdicts), show(cells)

    return check


def in_each(checks: Mapping[str, Check]) -> Check:
    """That several checks hold; so far, where some have not run."""

    def check(runs):
        found = {title: decide(each, runs) for title, each in checks.items()}
        verdict = verdict_of_all({verdict for verdict, _ in found.values()})
        if verdict == NOT_RUN:
            raise Undecided(NOT_RUN)
        return verdict, "<br>".join(
            f"{title}: " + ", ".join(filter(None, pair))
            for title, pair in found.items()
        )

    return check


def _ends(runs, table, schemes, equal_updates):
    """The cells of the first and the last column that have run, by title.

    And whether these are the ends of the table.
    """
    columns = [column.title for column in TABLES[table].columns]
    cells = ran(runs, table, columns, schemes, equal_updates)
    found = [c for c in columns if all((c, s) in cells for s in schemes)]
    if len(found) < 2:
        raise Undecided(NOT_RUN)
    titles = [found[0], found[-1]]
    ends = compare(runs, table, titles, schemes, equal_updates)
    return dict(zip(titles, ends)), titles == [columns[0], columns[-1]]


def _along(verdict, whole):
    """The verdict on a table of which the ends did or did not run."""
    return verdict if whole else verdict_of_all({verdict, NOT_RUN})


def cost_changes(
    table: str, scheme: str, sign: int, equal_updates: bool = False
) -> Check:
    """That what a scheme costs rises (1) or falls (-1) along a table."""

    def check(runs):
        both = ("full_precision", scheme)
        ends, whole = _ends(runs, table, both, equal_updates)
        verdict, numbers = _change_of_cost(ends, scheme, sign)
        return _along(verdict, whole), numbers

    return check


def cost_falls_in_time(table: str, column: str, scheme: str) -> Check:
    """That a scheme costs less after the last epoch than after the first."""

    def check(runs):
        both = ("full_precision", scheme)
        (last,) = compare(runs, table, [column], both)
        epochs = last[scheme].epochs
        if epochs < 2:
            raise Undecided(NOT_RUN)
        first = {
            s: dataclasses.replace(cell, epochs=1) for s, cell in last.items()
        }
        ends = {"epoch 1": first, f"the best epoch of {epochs}": last}
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
    costs = [score(end[scheme]) - reference(end) for end in ends.values()]
    if not all(map(math.isfinite, costs)):
        return OPEN, "; ".join(map(show, ends.values()))
    change, noise = costs[1] - costs[0], standard_error(*cells)
    decimals = cells[0].decimals
    numbers = ", ".join(
        f"{cost:.{decimals}f} at {title}" for cost, title in zip(costs, ends)
    )
    return verdict_of_lead(sign * change, noise), (
        f"{numbers}; change {change:.{decimals}f} ± {noise:.{decimals}f} "
        + terms(cells)
    )


def falls(table: str, scheme: str, equal_updates: bool = False) -> Check:
    """That a scheme is lower in the last column than in the first."""

    def check(runs):
        ends, whole = _ends(runs, table, (scheme,), equal_updates)
        first, last = cells = [end[scheme] for end in ends.values()]
        numbers = ", ".join(
            f"{show_number(cell)} at {title}"
            for cell, title in zip(cells, ends)
        )
        change, noise = score(last) - score(first), standard_error(*cells)
        if math.isfinite(change):
            decimals = first.decimals
            numbers += f"; change {change:.{decimals}f} ± {noise:.{decimals}f}"
        verdict = _along(verdict_of_lead(-change, noise), whole)
        return verdict, f"{numbers} {terms(cells)}"

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
        smallest, *_, largest = sorted(sizes.values())
        if smallest > 0 and math.isfinite(largest):
            numbers += f", the largest {largest / smallest:.2g} times the least"
        numbers = f"root mean square {numbers} {terms(cells.values())}"
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
