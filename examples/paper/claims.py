"""What the paper says of its numbers, held against ours.

Each claim is decided by the results alone. Networks are compared at equal
epochs: those of the one that has fewest.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping

from examples.paper.results import Cell, Run, find, shown_sizes
from examples.paper.schemes import SCHEMES
from examples.paper.tables import TABLES

AGREES, DIFFERS, OPEN, NOT_RUN = "agrees", "does not", "open", "not run"


@dataclasses.dataclass(frozen=True)
class Claim:
    """A sentence of the paper and the function of the results that checks it.

    The function returns the verdict and the numbers that it rests on.
    """

    text: str
    check: Callable[[list[Run]], tuple[str, str]]


def format_claims(runs: list[Run]) -> list[str]:
    """The claims as a table in Markdown."""
    lines = ["| the paper says | here | the numbers |", "|---|---|---|"]
    for claim in CLAIMS:
        verdict, numbers = claim.check(runs)
        lines.append(f"| {claim.text} | {verdict} | {numbers} |")
    return [
        *lines,
        "",
        "*Open*: the difference is smaller than twice its standard error, which"
        " is that of the test set's size and, with several seeds, no less than "
        "that of their spread.",
    ]


def compare(
    runs: list[Run], table: str, column: str, schemes
) -> dict[str, Cell] | None:
    """The cells of a column, if all are there, cut to equal epochs."""
    table = TABLES[table]
    titles = [column.title for column in table.columns]
    at = table.columns[titles.index(column)]
    sizes = shown_sizes(runs, table)[titles.index(column)]
    cells = {s: find(runs, at.recipe, s, sizes) for s in schemes}
    if None in cells.values():
        return None
    epochs = min(cell.epochs for cell in cells.values())
    cells = {scheme: cell.at(epochs) for scheme, cell in cells.items()}
    return cells if all(cell.values for cell in cells.values()) else None


def _show(cells: Mapping[str, Cell]) -> str:
    numbers = ", ".join(
        f"{SCHEMES[scheme].title} {cell.mean:.{cell.decimals}f}"
        for scheme, cell in cells.items()
    )
    epochs = next(iter(cells.values())).epochs
    runs = sorted({len(cell.runs) for cell in cells.values()})
    runs = "–".join(str(number) for number in (runs[0], runs[-1])[: len(runs)])
    return f"{numbers} ({epochs} epochs, {runs} run{'s' * (runs != '1')} each)"


def _noise(a: Cell, b: Cell) -> float:
    """The standard error of the difference of two means, in percent.

    As if the two networks' errors were independent: on the same images they are
    not quite, which makes this an upper limit.
    """
    variance = 0.0
    for cell in (a, b):
        share = cell.mean / 100
        tested = cell.runs[0].data["test"]
        sampling = 1e4 * share * (1 - share) / tested
        variance += max(sampling, cell.spread**2 / len(cell.values))
    return math.sqrt(variance)


def lowest(table, column, best, schemes):
    """A check that one scheme has a lower error than all others."""

    def check(runs):
        cells = compare(runs, table, column, schemes)
        if cells is None:
            return NOT_RUN, ""
        others = [scheme for scheme in schemes if scheme != best]
        rival = min(others, key=lambda scheme: cells[scheme].mean)
        lead = cells[rival].mean - cells[best].mean
        noise = _noise(cells[best], cells[rival])
        verdict = OPEN
        if abs(lead) >= 2 * noise:
            verdict = AGREES if lead > 0 else DIFFERS
        numbers = f"{_show(cells)}; lead {lead:.2f} ± {noise:.2f}"
        return verdict, numbers

    return check


def within(table, column, schemes, limit):
    """A check that schemes are within a limit of full precision."""

    def check(runs):
        wanted = ("full_precision", *schemes)
        cells = compare(runs, table, column, wanted)
        if cells is None:
            return NOT_RUN, ""
        reference = cells["full_precision"].mean
        gaps = [cells[scheme].mean - reference for scheme in schemes]
        return AGREES if max(gaps) <= limit else DIFFERS, _show(cells)

    return check


def above(table, column, scheme, limit):
    """A check that a scheme stays above a limit."""

    def check(runs):
        cells = compare(runs, table, column, (scheme,))
        if cells is None:
            return NOT_RUN, ""
        verdict = AGREES if cells[scheme].mean > limit else DIFFERS
        return verdict, _show(cells)

    return check


def gap_shrinks(table, columns, scheme):
    """A check that what binarization costs is less in the last column."""

    def check(runs):
        pairs = [
            compare(runs, table, column, ("full_precision", scheme))
            for column in columns
        ]
        if None in pairs:
            return NOT_RUN, ""
        first, last = (
            pair[scheme].mean - pair["full_precision"].mean for pair in pairs
        )
        noise = math.hypot(*(_noise(*pair.values()) for pair in pairs))
        numbers = (
            f"cost {first:.2f} at {columns[0]}, {last:.2f} at {columns[1]}; "
            f"change {first - last:.2f} ± {noise:.2f}"
        )
        if abs(first - last) < 2 * noise:
            return OPEN, numbers
        return AGREES if last < first else DIFFERS, numbers

    return check


BINARY = ("binary_connect", "bwn", "lab")
CLAIMS = (
    Claim(
        "MNIST: of the networks with binary weights LAB has the lowest error "
        "(Table 1)",
        lowest("table1", "MNIST", "lab", BINARY),
    ),
    Claim(
        "MNIST: LAB is even better than full precision",
        lowest("table1", "MNIST", "lab", ("full_precision", "lab")),
    ),
    Claim(
        "MNIST: with binary activations LAB2 is the best",
        lowest("table1", "MNIST", "lab2", ("bnn", "xnor", "lab2")),
    ),
    Claim(
        "CIFAR-10: LAB is better than full precision",
        lowest("table1", "CIFAR-10", "lab", ("full_precision", "lab")),
    ),
    Claim(
        "CIFAR-10: LAB is slightly outperformed by BinaryConnect",
        lowest("table1", "CIFAR-10", "binary_connect", BINARY),
    ),
    Claim(
        "SVHN: of the networks with binary weights LAB has the lowest error",
        lowest("table1", "SVHN", "lab", BINARY),
    ),
    Claim(
        "SVHN: the cost of binarization falls as filters are added (Table 2)",
        gap_shrinks("table2", ("K = 16", "K = 32"), "lab"),
    ),
    Claim(
        "War and Peace, 100 steps: BinaryConnect fails, above 2.5 nats "
        "(Table 3)",
        above("table3", "War and Peace", "binary_connect", 2.5),
    ),
    Claim(
        "War and Peace, 100 steps: BWN and LAB are within 0.1 nats of full "
        "precision",
        within("table3", "War and Peace", ("bwn", "lab"), 0.1),
    ),
    Claim(
        "War and Peace, 10 steps: all are close to full precision, within 0.1 "
        "nats (Table 4)",
        within("table4", "TS = 10", BINARY, 0.1),
    ),
    Claim(
        "Not in the paper. MNIST without batch norm: LAB has the lowest error "
        "of the networks with binary weights",
        lowest("no_norm", "MNIST, no batch norm", "lab", BINARY),
    ),
    Claim(
        "Not in the paper. MNIST without batch norm: BWN is better than "
        "BinaryConnect, that is, a scale matters",
        lowest("no_norm", "MNIST, no batch norm", "bwn", BINARY[:2]),
    ),
)

WHY = """\
### Why the feedforward tables say little about α

In the paper's feedforward networks batch norm follows every binary layer. It
divides by the standard deviation of what it gets, and so takes any positive
factor out of it: α·sign(w) and sign(w) give the same outputs, up to the epsilon
of batch norm. What is left of α is the scale of the gradient, 1/α, of which
Adam takes out all that is constant. BinaryConnect, BWN and LAB are then the
same network, but for how α drifts while Adam averages. The paper's Table 1 does
not say otherwise. It has single runs, and a test error is known only up to its
standard error: 0.11 points for 1.2% of 10,000 images. Of the differences that
it has between BinaryConnect, BWN and LAB, on MNIST, CIFAR-10 and SVHN, none
reaches two standard errors, if two networks' errors are taken as independent.

α is put to the test where nothing normalizes: in the LSTM (Tables 3 and 4),
where the paper's differences are large, and in the MLP without batch norm,
which the paper did not run and this page adds. There BinaryConnect's weights
are ±1, so that each layer multiplies the signal by about the root of its width;
BWN and LAB scale it back. BWN and LAB differ only in how much each weight
counts in the average that is α."""
