"""What is compared with what, and when a difference is one.

Networks are compared at equal epochs, those of the one that has fewest, or at
equal updates of the weights. A network that diverged is worse than any that did
not. What is under way does not count before it is as far as the finished ones.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from examples.paper.cells import Cell, cell_of
from examples.paper.results import Run
from examples.paper.schemes import SCHEMES

HOLDS, DIFFERS, OPEN, NOT_RUN = "holds", "does not hold", "open", "not run"
SO_FAR = "holds so far"


class Undecided(Exception):
    """What the results do not decide: a verdict, and the reason."""

    def __init__(self, verdict: str, reason: str = ""):
        super().__init__(reason)
        self.verdict = verdict


def ran(
    runs: list[Run],
    table: str,
    columns: Sequence[str],
    schemes: Sequence[str],
    equal_updates: bool = False,
) -> dict[tuple[str, str], Cell]:
    """The cells that count, by column and scheme; arguments as in `compare`."""
    cells = {
        (column, scheme): cell
        for column in columns
        for scheme in schemes
        if (cell := cell_of(runs, table, column, scheme))
    }
    lengths = {
        place: cell.epochs * (cell.updates if equal_updates else 1)
        for place, cell in cells.items()
    }
    finished = [p for p, cell in cells.items() if not cell.unfinished]
    least = min((lengths[place] for place in finished or cells), default=0)
    return {p: cell for p, cell in cells.items() if lengths[p] >= least}


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
    cells = ran(runs, table, columns, schemes, equal_updates)
    if len(cells) < len(columns) * len(schemes):
        raise Undecided(NOT_RUN)
    steps = {
        place: cell.updates if equal_updates else 1
        for place, cell in cells.items()
    }
    least = min(cell.epochs * steps[place] for place, cell in cells.items())
    epochs = {place: round(least / step) for place, step in steps.items()}
    if any(abs(epochs[p] * steps[p] / least - 1) > 0.1 for p in cells):
        raise Undecided(OPEN, "an epoch of one is longer than the other run")
    cells = {
        place: cell_of(runs, table, *place, count)
        for place, count in epochs.items()
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


def show(cells: Mapping[str, Cell]) -> str:
    """The numbers by scheme, and what stands behind them."""
    numbers = ", ".join(
        f"{SCHEMES[scheme].title} {show_number(cell)}"
        for scheme, cell in cells.items()
    )
    return f"{numbers} {terms(cells.values())}"


def terms(cells: Iterable[Cell]) -> str:
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


def show_number(cell: Cell) -> str:
    """The mean, and how many runs diverged."""
    diverged = len(cell.runs) - len(cell.values)
    if not cell.values:
        return "diverged"
    text = f"{cell.mean:.{cell.decimals}f}"
    return text + f" and {diverged} diverged" * bool(diverged)


def score(cell: Cell) -> float:
    """The mean; infinite if a run diverged."""
    return cell.mean if len(cell.values) == len(cell.runs) else math.inf


def reference(cells: Mapping[str, Cell]) -> float:
    """The score of full precision, without which a cost is none."""
    of_full_precision = score(cells["full_precision"])
    if math.isinf(of_full_precision):
        raise Undecided(OPEN, show(cells))
    return of_full_precision


def standard_error(*cells: Cell) -> float:
    """The standard error of a sum or difference of means.

    As if two networks' errors were independent.
    """
    return math.hypot(*(cell.standard_error for cell in cells if cell.values))


def verdict_of_lead(lead: float, noise: float) -> str:
    """Whether a lead is one, given its standard error."""
    if math.isnan(lead) or abs(lead) <= 2 * noise:
        return OPEN
    return HOLDS if lead > 0 else DIFFERS


def verdict_of_all(verdicts: set[str]) -> str:
    """The verdict on a sentence that several must agree with."""
    if verdicts == {NOT_RUN}:
        return NOT_RUN
    verdict = next(v for v in (DIFFERS, OPEN, SO_FAR, HOLDS) if v in verdicts)
    return SO_FAR if verdict == HOLDS and NOT_RUN in verdicts else verdict
