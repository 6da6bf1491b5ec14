"""Fills the tables and draws the figures of a page of results.

    python examples/paper/report.py

Reads the results of `train.py`, draws the figures, and replaces what stands
between `<!-- table: NAME -->` and `<!-- end -->` in `results/paper/README.md`.
The rest of the page is written by people.
"""

import argparse
import collections
import functools
import itertools
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from examples.environment import write_text
from examples.paper import figures
from examples.paper.recipes import PARTS, RECIPES
from examples.paper.results import Cell, ResultError, Run, load, shown
from examples.paper.schemes import SCHEMES
from examples.paper.tables import PAPER_TABLES, TABLES, Column, Table

DECIMALS = {"error": 2, "loss": 3}
BLOCK = re.compile(r"<!-- table: (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def format_rows(heads: list, rows: list[list]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def format_cell(cell: Cell | None) -> str:
    """Mean ± standard deviation, the number of runs, and the epochs."""
    if cell is None:
        return "not run"
    decimals = DECIMALS[cell.runs[0].measure]
    runs, lost = len(cell.runs), len(cell.runs) - len(cell.values)
    text = "diverged"
    if cell.values:
        text = f"**{cell.mean:.{decimals}f}**"
        if len(cell.values) > 1:
            text += f" ± {cell.deviation:.{decimals}f}"
        text += f", {lost} diverged" * bool(lost)
    return f"{text} ({runs} run{'s' * (runs > 1)}, {cell.epochs} epochs)"


def footnote(cell: Cell | None, column: Column) -> str:
    """How the runs of a cell differ from the paper's."""
    if cell is None:
        return ""
    found = [run.differences(column, cell.epochs) for run in cell.runs]
    parts = list(dict.fromkeys(itertools.chain(*found)))
    if cell.unfinished:
        parts.append("not finished")
    if cell.left_out:
        runs = "run" if cell.left_out == 1 else "runs"
        parts.append(f"{cell.left_out} {runs} with fewer epochs left out")
    return "; ".join(parts)


def format_table(runs: list[Run], table: Table) -> str:
    """A table with the paper's numbers and ours, and its footnotes."""
    heads, columns, notes = ["scheme"], [], {}
    for column, sizes, cells in shown(runs, table):
        if column.paper and f"{column.title}, paper" not in heads:
            heads.append(f"{column.title}, paper")
            columns.append([column.paper[s] for s in table.schemes])
        ours = ", ".join(f"{name} {size}" for name, size in sizes.items())
        heads.append(f"{column.title}, ours" + (f" ({ours})" if ours else ""))
        texts = []
        for cell in cells.values():
            texts.append(format_cell(cell))
            if note := footnote(cell, column):
                mark = notes.setdefault(note, len(notes) + 1)
                texts[-1] += f" <sup>{mark}</sup>"
        columns.append(texts)
    titles = [SCHEMES[scheme].title for scheme in table.schemes]
    rows = [list(row) for row in zip(titles, *columns)]
    lines = [f"{number}. {text}" for text, number in notes.items()]
    return "\n".join([format_rows(heads, rows), "", *lines]).strip()


def format_coverage(runs: list[Run]) -> str:
    """How many cells of the paper's tables ran as in the paper, and reduced."""
    rows = []
    for name in PAPER_TABLES:
        table, counts, seeds = TABLES[name], collections.Counter(), 0
        for column, scheme in itertools.product(table.columns, table.schemes):
            found = [run for run in runs if run.fits(column, scheme)]
            whole = [
                r for r in found if not r.differences(column, r.epochs_done)
            ]
            counts["full" if whole else "reduced" if found else "not run"] += 1
            seeds = max(seeds, len({run.seed for run in found}))
        kinds = [counts[kind] for kind in ("full", "reduced", "not run")]
        title = name.replace("table", "Table ")
        rows.append([title, counts.total(), *kinds, seeds])
    totals = [sum(row[i] for row in rows) for i in range(1, 5)]
    heads = ["", "cells", "as in the paper", "reduced", "not run"]
    return format_rows(
        [*heads, "most seeds per cell"], [*rows, ["all", *totals, ""]]
    )


def format_recipes(_) -> str:
    """The settings of each experiment."""
    rows = []
    for name, recipe in RECIPES.items():
        decay, clip = recipe.decay, recipe.clip_gradient
        when = f"every epoch from {decay.beyond + 1} on"
        if decay.every > 1:
            when = f"every {decay.every} epochs"
        elif decay.after:
            when = f"epochs {' and '.join(map(str, decay.after))}"
        sizes = ", ".join(f"{key} {size}" for key, size in recipe.sizes.items())
        row = [f"`{name}`", sizes, recipe.batch, recipe.epochs, recipe.rate]
        row += [recipe.sign_rate, f"×{decay.factor:g} after {when}"]
        rows.append([*row, f"±{clip:g}" if clip else "–"])
    heads = ["experiment", "sizes", "batch", "epochs", "learning rate"]
    heads += ["with binary activations", "decay", "gradients clipped at"]
    return format_rows(heads, rows)


def format_runs(runs: list[Run]) -> str:
    """All runs, with the numbers of their best epochs."""
    rows = []
    for run in runs:
        best, numbers = "–", ["diverged"] * len(PARTS)
        if chosen := run.selected():
            best = chosen["epoch"]
            history = [run.history[f"{part}_{run.measure}"] for part in PARTS]
            values = [column[best - 1] for column in history]
            numbers = [
                "diverged" if v is None else f"{v:.{DECIMALS[run.measure]}f}"
                for v in values
            ]
        row = [run.experiment, SCHEMES[run.scheme].title, run.seed]
        row += [f"{run.epochs_done} of {run.epochs_planned}", best, *numbers]
        row += [f"{sum(run.history['seconds']) / 3600:.1f}"]
        commits = dict.fromkeys(s["commit"] or "?" for s in run.sessions)
        rows.append([*row, ", ".join(commits)])
    heads = ["experiment", "scheme", "seed", "epochs", "best epoch", *PARTS]
    return format_rows([*heads, "hours", "commit"], rows)


BLOCKS = {
    "coverage": format_coverage,
    "recipes": format_recipes,
    "runs": format_runs,
    **{
        name: functools.partial(format_table, table=table)
        for name, table in TABLES.items()
    },
}


def fill(page: str, runs: list[Run]) -> str:
    """A page with its tables made from the runs.

    Raises ValueError if a marker is unknown or has no end.
    """

    def block(match):
        name = match[1]
        if name not in BLOCKS:
            known = ", ".join(BLOCKS)
            raise ValueError(f"There are tables {known}. Received: {name}")
        # Without blank lines some readers of Markdown see no table.
        return f"<!-- table: {name} -->\n\n{BLOCKS[name](runs)}\n\n<!-- end -->"

    starts, ends = page.count("<!-- table:"), page.count("<!-- end -->")
    if not starts == ends == len(BLOCK.findall(page)):
        raise ValueError(
            "Each `<!-- table: NAME -->` needs an `<!-- end -->`, on lines of "
            f"their own. Received: {starts} and {ends}"
        )
    return BLOCK.sub(block, page)


def main(arguments=None) -> int:
    """Runs the command line and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--results-dir",
        type=Path,
        metavar="DIR",
        default=ROOT / "results" / "paper",
        help="the folder of the results and the page; default: results/paper",
    )
    folder = parser.parse_args(arguments).results_dir
    try:
        runs = load(folder)
        page = fill((folder / "README.md").read_text(), runs)
    except (OSError, ResultError, ValueError) as error:
        print(f"report.py: error: {error}", file=sys.stderr)
        return 1
    drawn = figures.draw_all(runs, folder / "figures")
    write_text(folder / "README.md", page)
    print(f"{len(runs)} results, {len(drawn)} figures: {folder / 'README.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
