"""Builds the page of results from the results of `run.py` alone.

    python examples/paper/report.py

It writes `results/paper/README.md` and the figures beside it: the paper's
tables with the paper's numbers and ours, "not run" where nothing ran.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from examples.paper import claims, figures, prose
from examples.paper.cells import DECIMALS, Cell, shown_cells
from examples.paper.recipes import PARTS
from examples.paper.results import MACHINE, ResultError, Run, load
from examples.paper.schemes import SCHEMES
from examples.paper.tables import TABLES, Table
from examples.records import write_text


class Footnotes:
    """Numbers the notes, each different one once."""

    def __init__(self):
        self.texts = []

    def mark(self, text: str) -> str:
        """The mark of a note; nothing if there is nothing to note."""
        if not text:
            return ""
        if text not in self.texts:
            self.texts.append(text)
        return f" <sup>{self.texts.index(text) + 1}</sup>"

    def lines(self) -> list[str]:
        return [f"{n}. {text}" for n, text in enumerate(self.texts, start=1)]


def note(cell: Cell) -> str:
    """What of a cell is not as in the paper."""
    of_runs = [_departures(run, cell) for run in cell.runs]
    parts = [text for text in of_runs[0] if all(text in of for of in of_runs)]
    for run, of_run in zip(cell.runs, of_runs):
        own = [text for text in of_run if text not in parts]
        parts += [f"seed {run.seed}: {', '.join(own)}"] if own else []
    if cell.left_out:
        more = _count(cell.left_out, "more run")
        parts.append(f"{more} with fewer epochs left out")
    return "; ".join(parts)


def _departures(run, cell):
    """What of a run of a cell is not as in the paper."""
    recipe, epochs = run.recipe, cell.epochs
    parts = run.departures(cell.column)
    if epochs < recipe.epochs:
        text = f"{epochs} of the paper's {recipe.epochs} epochs"
        if recipe.decay(epochs) == 1:
            text += ", all before the learning rate first falls"
        parts.append(text)
    if run.unfinished_at(epochs):
        parts.append(f"not finished: {run.epochs_planned} epochs are planned")
    values = run.history[f"validation_{run.measure}"][:epochs]
    diverged = sum(value is None for value in values)
    if 0 < diverged < epochs:
        parts.append(f"diverged in {diverged} of its epochs")
    return parts + ([run.note] if "note" in run.content else [])


def format_cell(cell: Cell | None, notes: Footnotes) -> str:
    """Mean ± spread, number of runs, and the mark of a note."""
    if cell is None:
        return "not run"
    if not cell.values:
        return "diverged" + notes.mark(note(cell))
    decimals = cell.decimals
    text = f"**{cell.mean:.{decimals}f}**"
    if len(cell.values) > 1:
        text += f" ± {cell.spread:.{decimals}f}"
    runs, epochs = _count(len(cell.runs), "run"), _count(cell.epochs, "epoch")
    text += f" ({runs}, {epochs})"
    if len(cell.values) < len(cell.runs):
        text += f", {len(cell.runs) - len(cell.values)} diverged"
    return text + notes.mark(note(cell))


def format_table(runs: list[Run], table: Table) -> list[str]:
    """A table as Markdown: for each column the paper's number and ours."""
    notes = Footnotes()
    heads = ["scheme"]
    for column in table.columns:
        heads += [f"{column.title}, paper"] if column.paper else []
        heads += [f"{column.title}, ours"]
    lines = [_row(heads), _row(["---"] * len(heads))]
    cells = shown_cells(runs, table)
    for scheme in table.schemes:
        row = [SCHEMES[scheme].title]
        for column in table.columns:
            row += [column.paper[scheme]] if column.paper else []
            row += [format_cell(cells[column.title, scheme], notes)]
        lines.append(_row(row))
    return [f"## {table.title}", "", *lines, "", *notes.lines(), ""]


def format_runs(runs: list[Run]) -> list[str]:
    """Every run there is, a line each, with the numbers of its best epoch."""
    heads = (
        *("experiment", "scheme", "seed", "epochs", "best epoch"),
        *("train", "validation", "test", "s an epoch", "run on", "commit"),
    )
    lines = [_row(heads), _row(["---"] * len(heads))]
    for run in runs:
        decimals = DECIMALS[run.measure]
        numbers = ["–", *["diverged"] * len(PARTS)]
        if chosen := run.selected():
            best = chosen["epoch"]
            values = [
                run.history[f"{part}_{run.measure}"][best - 1] for part in PARTS
            ]
            numbers = [str(best)] + [
                "diverged" if value is None else f"{value:.{decimals}f}"
                for value in values
            ]
        seconds = min(run.history["seconds"])
        lines.append(
            _row(
                [
                    run.experiment,
                    SCHEMES[run.scheme].title,
                    str(run.seed),
                    f"{run.epochs_done} of {run.epochs_planned}",
                    *numbers,
                    f"{seconds:.0f}",
                    _different(map(_cores, run.sessions)),
                    _different(map(_commit, run.sessions)),
                ]
            )
        )
    return lines


def _count(number, noun):
    return f"{number} {noun}{'s' * (number != 1)}"


def _different(texts):
    return ", ".join(dict.fromkeys(texts))


def _commit(session):
    return session["commit"] or "unknown"


def _cores(session):
    text = _count(session["cores"], "core")
    return text if session.get("jit_compile", True) else f"{text}, no XLA"


def _row(cells):
    return "| " + " | ".join(cells) + " |"


def build_page(runs: list[Run], drawn: dict[str, str]) -> str:
    """The page, given the results and the names of the figures."""
    lines = [
        prose.INTRODUCTION,
        "## In short",
        "",
        *claims.format_summary(runs),
    ]
    lines += [prose.IN_SHORT]
    for name, table in TABLES.items():
        lines += format_table(runs, table)
        for figure in figures.OF_TABLE.get(name, ()):
            lines += _embed(figure, drawn)
    lines += ["## What agrees, and why", ""]
    lines += claims.format_claims(runs)
    lines += ["", *(why.text for why in prose.WHY if why.is_true(runs))]
    lines += [prose.CHOICES, "## All runs", ""]
    lines += (
        [prose.ALL_RUNS, *format_runs(runs)] if runs else ["Nothing has run."]
    )
    lines += ["", *_machines(runs)]
    return "\n".join(lines).rstrip() + "\n"


def _embed(figure, drawn):
    if figure.name in drawn:
        return [f"![{figure.title}]({drawn[figure.name]})", ""]
    return [f"{figure.title}: not run.", ""]


def _machines(runs):
    kinds = {
        "{}, Python {}, Keras {}, TensorFlow {}, NumPy {}".format(
            *(session[name] for name in MACHINE)
        )
        for run in runs
        for session in run.sessions
    }
    hours = sum(sum(run.history["seconds"]) for run in runs) / 3600
    took = [f"All epochs, one by one: {hours:.1f} hours."] if runs else []
    return [*took, *(f"Run on: {kind}." for kind in sorted(kinds))]


def main(arguments=None) -> int:
    """Runs the command line and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--results-dir",
        type=Path,
        metavar="DIR",
        default=ROOT / "results" / "paper",
    )
    folder = parser.parse_args(arguments).results_dir
    if not folder.is_dir():
        parser.error(f"--results-dir is not a folder. Received: {folder}")
    try:
        runs = load(folder)
    except ResultError as error:
        print(f"report.py: error: {error}", file=sys.stderr)
        return 1
    drawn = figures.draw_all(runs, folder / "figures")
    write_text(folder / "README.md", build_page(runs, drawn))
    print(f"{len(runs)} results, {len(drawn)} figures: {folder / 'README.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
