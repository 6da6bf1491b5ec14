"""Fills the tables and draws the figures of a page of results.

    python examples/paper/report.py

Reads the results of `train.py`, draws the figures, and replaces what stands
between `<!-- table: NAME -->` and `<!-- end -->` in `results/paper/README.md`.
The rest of the page is written by people.
"""

import argparse
import re
import sys
from collections.abc import Callable
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


def format_rows(heads: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


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
    seeds = {}
    for run in cell.runs:
        note = [run.note] if "note" in run.content else []
        for text in run.differences(column, cell.epochs) + note:
            seeds.setdefault(text, []).append(str(run.seed))
    parts = []
    for text, of_text in seeds.items():
        some = len(of_text) < len(cell.runs)
        parts.append(text + f" (seed {', '.join(of_text)})" * some)
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
            text = footnote(cell, column)
            mark = notes.setdefault(text, len(notes) + 1) if text else None
            texts.append(
                format_cell(cell) + (f" <sup>{mark}</sup>" if mark else "")
            )
        columns.append(texts)
    titles = [SCHEMES[scheme].title for scheme in table.schemes]
    rows = [list(row) for row in zip(titles, *columns)]
    lines = [f"{number}. {text}" for text, number in notes.items()]
    return "\n".join([format_rows(heads, rows), "", *lines]).strip()


def format_coverage(runs: list[Run]) -> str:
    """How many cells of the paper's tables ran as in the paper, and reduced."""
    rows = []
    for name in PAPER_TABLES:
        table, kinds, seeds = TABLES[name], [], [0]
        for column in table.columns:
            for scheme in table.schemes:
                found = [run for run in runs if run.fits(column, scheme)]
                whole = [
                    r for r in found if not r.differences(column, r.epochs_done)
                ]
                kinds.append(
                    "full" if whole else "reduced" if found else "not run"
                )
                seeds.append(len({run.seed for run in found}))
        counts = [kinds.count(kind) for kind in ("full", "reduced", "not run")]
        rows.append([len(kinds), *counts, max(seeds)])
    total = [sum(column) for column in zip(*rows)][:4]
    titles = [name.replace("table", "Table ") for name in PAPER_TABLES]
    rows = [
        [title, *map(str, row)]
        for title, row in zip([*titles, "all"], [*rows, [*total, ""]])
    ]
    heads = ["", "cells", "as in the paper", "reduced", "not run"]
    return format_rows([*heads, "most seeds per cell"], rows)


def format_recipes(runs: list[Run]) -> str:
    """The settings of each experiment."""
    rows = []
    for name, recipe in RECIPES.items():
        decay = recipe.decay
        if decay.after:
            when = f"epochs {' and '.join(map(str, decay.after))}"
        else:
            when = f"every {decay.every} epochs" if decay.every > 1 else ""
            when = when or f"every epoch from {decay.beyond + 1} on"
        sizes = recipe.all_sizes.items()
        rows.append(
            [
                f"`{name}`",
                ", ".join(f"{key} {size}" for key, size in sizes),
                f"{recipe.batch}",
                f"{recipe.epochs}",
                f"{recipe.rate:g}",
                f"{recipe.sign_rate:g}",
                f"×{decay.factor:g} after {when}",
                f"±{recipe.clip_gradient:g}" if recipe.clip_gradient else "–",
            ]
        )
    heads = ["experiment", "sizes", "batch", "epochs", "learning rate"]
    heads += ["with binary activations", "decay", "gradients clipped at"]
    return format_rows(heads, rows)


def format_runs(runs: list[Run]) -> str:
    """All runs, with the numbers of their best epochs."""
    rows = []
    for run in runs:
        chosen, numbers = run.selected(), ["–", *["diverged"] * len(PARTS)]
        if chosen:
            history = [run.history[f"{part}_{run.measure}"] for part in PARTS]
            values = [column[chosen["epoch"] - 1] for column in history]
            numbers = [str(chosen["epoch"])] + [
                "diverged" if v is None else f"{v:.{DECIMALS[run.measure]}f}"
                for v in values
            ]
        commits = dict.fromkeys(s["commit"] or "?" for s in run.sessions)
        rows.append(
            [
                *(run.experiment, SCHEMES[run.scheme].title, str(run.seed)),
                f"{run.epochs_done} of {run.epochs_planned}",
                *numbers,
                f"{sum(run.history['seconds']) / 3600:.1f}",
                ", ".join(commits),
            ]
        )
    heads = ["experiment", "scheme", "seed", "epochs", "best epoch", *PARTS]
    return format_rows([*heads, "hours", "commit"], rows)


BLOCKS: dict[str, Callable[[list[Run]], str]] = {
    "coverage": format_coverage,
    "recipes": format_recipes,
    "runs": format_runs,
    **{
        name: lambda runs, table=table: format_table(runs, table)
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


def empty_page() -> str:
    """A page without text: all tables and figures."""
    lines = ["# Results", ""]
    for name, table in TABLES.items():
        lines += [f"## {table.title}", "", f"<!-- table: {name} -->"]
        lines += ["<!-- end -->", ""]
        for figure in figures.OF_TABLE[name]:
            lines += [f"![{figure}](figures/{figure}.png)", ""]
    lines += ["## All runs", "", "<!-- table: runs -->", "<!-- end -->", ""]
    return "\n".join(lines)


def main(arguments=None) -> int:
    """Runs the command line and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--results-dir",
        type=Path,
        metavar="DIR",
        default=ROOT / "results" / "paper",
        help="default: results/paper; a folder without a page gets one",
    )
    folder = parser.parse_args(arguments).results_dir
    if not folder.is_dir():
        parser.error(f"--results-dir is not a folder. Received: {folder}")
    path = folder / "README.md"
    try:
        runs = load(folder)
        page = path.read_text() if path.exists() else empty_page()
        page = fill(page, runs)
    except (ResultError, ValueError) as error:
        print(f"report.py: error: {error}", file=sys.stderr)
        return 1
    drawn = figures.draw_all(runs, folder / "figures")
    write_text(path, page)
    print(f"{len(runs)} results, {len(drawn)} figures: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
