"""Fills the tables and draws the figures of a page of results.

    python examples/paper/report.py

Reads the results of `train.py`, draws the figures, and replaces what stands
between `<!-- table: NAME -->` and `<!-- end -->` in `results/paper/README.md`.
The rest of the page is written by people. `--baselines` first computes what
models without a network reach on the texts, and writes `baselines.json`.
"""

import argparse
import collections
import itertools
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np

from examples.environment import markdown_table, write_json, write_text
from examples.paper import data, figures, tables
from examples.paper.recipes import PARTS, RECIPES
from examples.paper.results import Run, RunError, format_size, load
from examples.paper.schemes import SCHEMES
from examples.paper.tables import TABLES, Cell, Column, Table

DECIMALS = {"error": 2, "loss": 3}
BLOCK = re.compile(r"<!-- table: (\w+) -->\n.*?<!-- end -->", re.DOTALL)
BASELINES = ROOT / "results" / "paper" / "baselines.json"
# Below its table, and only if there is one.
WHY_FIGURE = (
    "\n\n![Test cross-entropy by update, and the difference to BWN with the "
    "same seed, with bands of one standard deviation](figures/why.png)"
)


def format_rows(rows: list[dict]) -> str:
    """A table in Markdown. Its heads are the keys of the rows."""
    lines = [["–" if x is None else x for x in row.values()] for row in rows]
    return markdown_table(list(rows[0]), lines)


def format_cell(cell: Cell | None, baseline: Cell | None = None) -> str:
    """Mean ± standard deviation, the gap to a baseline, runs and epochs."""
    if cell is None:
        return "not run"
    decimals = DECIMALS[cell.runs[0].measure]
    runs, values = len(cell.runs), cell.values
    text = tables.spread(values, decimals) if values else "diverged"
    if values and baseline and baseline is not cell and baseline.values:
        gap = fmean(values) - fmean(baseline.values)
        text += f" ({gap:.{decimals}f})".replace("-", "−")
    if 0 < len(values) < runs:
        text += f", {runs - len(values)} diverged"
    return f"{text}; {runs} run{'s' * (runs > 1)}, {cell.epochs} epochs"


def footnote(cell: Cell | None, column: Column) -> str:
    """How the runs of a cell differ from the paper's."""
    if cell is None:
        return ""
    paper = (RECIPES[column.recipe], column.sizes)
    found = [run.differences(*paper, cell.epochs) for run in cell.runs]
    parts = list(dict.fromkeys(itertools.chain(*found)))
    if cell.unfinished:
        parts.append("not finished")
    if left := cell.left_out:
        parts.append(f"{left} run{'s' * (left > 1)} with fewer epochs left out")
    return "; ".join(parts)


def format_table(runs: list[Run], table: Table) -> str:
    """A table with the paper's numbers and ours, and its footnotes."""
    rows = {s: {"scheme": SCHEMES[s].title} for s in table.schemes}
    notes, baselines = [], read_baselines()
    for column, _, sizes, cells in tables.shown(runs, table):
        words = ", ".join(format_size(*size) for size in sizes.items())
        ours = f"{column.title}, ours" + f" ({words})" * bool(words)
        paper = f"{column.title}, paper"
        gap_to = cells["full_precision"] if table.equal_epochs else None
        for scheme, cell in cells.items():
            if column.paper:
                rows[scheme][paper] = column.paper[scheme]
            rows[scheme][ours] = format_cell(cell, gap_to)
            if note := footnote(cell, column):
                if note not in notes:
                    notes.append(note)
                number = notes.index(note) + 1
                rows[scheme][ours] += f" <sup>{number}</sup>"
        known = baselines.get(column.recipe.removesuffix("_short"), {})
        for name, loss in known.items():
            row = rows.setdefault(name, {"scheme": name})
            if column.paper:
                row[paper] = ""
            row[ours] = f"{loss:.3f}"
    lines = [f"{number}. {note}" for number, note in enumerate(notes, start=1)]
    return "\n".join([format_rows(list(rows.values())), "", *lines]).strip()


def read_baselines() -> dict[str, dict[str, float]]:
    """The cross-entropies of models without a network, by text and model."""
    if not BASELINES.exists():
        return {}
    return json.loads(BASELINES.read_text())["test_loss"]


def baseline_losses(text: data.Dataset) -> dict[str, float]:
    """The cross-entropies of byte frequencies and of bigrams.

    Both count in the training part, with 0.1 added to each count, and predict
    the test part.
    """
    counts = np.zeros((text.classes, text.classes)) + 0.1
    np.add.at(counts, (text.train.x.ravel(), text.train.y.ravel()), 1)
    single, (x, y) = counts.sum(axis=0), text.test
    bigrams = counts / counts.sum(axis=1, keepdims=True)
    return {
        "byte frequencies": float(-np.log(single / single.sum())[y].mean()),
        "bigrams": float(-np.log(bigrams[x, y]).mean()),
    }


def write_baselines() -> None:
    """Writes `baselines.json`."""
    losses, files = {}, {}
    for name in ("war_and_peace", "linux_kernel"):
        text = RECIPES[name].load(None)
        losses[name] = baseline_losses(text)
        files |= text.files
    write_json(BASELINES, {"test_loss": losses, "files": files})


def coverage(runs: list[Run]) -> Iterable[tuple[str, str, int]]:
    """How each cell of the paper's tables ran: its table, how, and the seeds.

    It is `"full protocol"` if a run has the paper's sizes, data and epochs.
    """
    for name in ("table1", "table2", "table3", "table4"):
        columns, schemes, _ = TABLES[name]
        for column, scheme in itertools.product(columns, schemes):
            paper = (RECIPES[column.recipe], column.sizes)
            sizes = {**paper[0].sizes, **column.sizes}
            shown = [{**sizes, **ours} for ours in column.ours]
            ran = tables.as_in_paper(runs, column.recipe, scheme)
            ran = [run for run in ran if run.sizes in shown]
            if column.short:
                ran += tables.as_in_paper(runs, column.short, scheme)
            whole = [r for r in ran if not r.differences(*paper, r.epochs_done)]
            kind = "full protocol" if whole else "reduced" if ran else "not run"
            yield name, kind, len({run.seed for run in whole or ran})


def first_line(runs: list[Run]) -> str:
    """How many cells of the paper's tables ran, and with how many seeds."""
    cells = list(coverage(runs))

    def ran(kind):
        seeds = [seeds for _, k, seeds in cells if k == kind]
        few, most = min(seeds, default=0), max(seeds, default=0)
        if not most:
            return ""
        span = f"{few}–{most}" if few < most else most
        return f" ({span} seed{'s' * (most > 1)} each)"

    count = collections.Counter(kind for _, kind, _ in cells)
    return (
        f"Of the {len(cells)} cells of the paper's tables, "
        f"{count['full protocol']} ran at the full protocol"
        f"{ran('full protocol')}, {count['reduced']} ran smaller or shorter"
        f"{ran('reduced')}, and {count['not run']} did not run."
    )


def coverage_rows(runs: list[Run]) -> Iterable[dict]:
    """How many cells of each of the paper's tables ran."""
    for name, cells in itertools.groupby(coverage(runs), lambda cell: cell[0]):
        _, kinds, seeds = zip(*cells)
        yield {
            "": name.replace("table", "Table "),
            "cells": len(kinds),
            "full protocol": kinds.count("full protocol"),
            "reduced": kinds.count("reduced"),
            "not run": kinds.count("not run"),
            "most seeds per cell": max(seeds),
        }


def recipe_rows(_) -> Iterable[dict]:
    """The settings of each experiment."""
    for name, recipe in RECIPES.items():
        decay = recipe.decay
        when = f"every epoch from {decay.beyond + 1} on"
        if decay.every > 1:
            when = f"every {decay.every:g} epochs"
        elif decay.after:
            when = f"epochs {' and '.join(map(str, decay.after))}"
        yield {
            "experiment": f"`{name}`",
            "sizes": ", ".join(format_size(*s) for s in recipe.sizes.items()),
            "batch": recipe.batch,
            "epochs": recipe.epochs,
            "learning rate": recipe.rate,
            "with binary activations": recipe.sign_rate,
            "decay": f"×{decay.factor:g} after {when}",
        }


def run_rows(runs: list[Run]) -> Iterable[dict]:
    """All runs, with the numbers of their best epochs."""
    for run in runs:
        best = run.selected()
        row = {
            "experiment": run.experiment,
            "scheme": run.title,
            "seed": run.seed,
            "epochs": f"{run.epochs_done} of {run.epochs_planned}",
            "best epoch": best and best["epoch"],
        }
        for part in PARTS:
            values = run.history[f"{part}_{run.measure}"]
            value = best and values[best["epoch"] - 1]
            decimals = DECIMALS[run.measure]
            row[part] = "diverged" if value is None else f"{value:.{decimals}f}"
        zeroed = run.history.get("zeroed_gradients")
        zeroed = zeroed and sum(filter(None, zeroed))
        yield {**row, "gradient entries set to zero": zeroed}


ROWS = {
    "coverage": coverage_rows,
    "recipes": recipe_rows,
    "runs": run_rows,
    "leads": tables.leads,
    "why": tables.why,
    "ratios": tables.ratios,
    "byte_rows": tables.byte_rows,
    "paired_errors": tables.paired_errors,
    "gradients": tables.gradients,
    "code": tables.code,
}
BLOCKS = ("first_line", *TABLES, *ROWS)


def format_block(name: str, runs: list[Run]) -> str:
    """What stands between the markers of this name."""
    if name == "first_line":
        return first_line(runs)
    if name in TABLES:
        return format_table(runs, TABLES[name])
    rows = list(ROWS[name](runs))
    if not rows:
        return "Not run yet."
    return format_rows(rows) + WHY_FIGURE * (name == "why")


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
        text = format_block(name, runs)
        return f"<!-- table: {name} -->\n\n{text}\n\n<!-- end -->"

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
    add = parser.add_argument
    add("--results-dir", type=Path, default=BASELINES.parent,
        help="the folder of the results and the page; default: results/paper"
        )  # fmt: skip
    add("--baselines", action="store_true",
        help="compute baselines.json again; needs both texts")  # fmt: skip
    options = parser.parse_args(arguments)
    folder = options.results_dir
    try:
        if options.baselines:
            write_baselines()
        runs = load(folder)
        page = fill((folder / "README.md").read_text(), runs)
    except (OSError, RunError, ValueError, data.DataError) as error:
        print(f"report.py: error: {error}", file=sys.stderr)
        return 1
    drawn = figures.draw_all(runs, folder / "figures")
    write_text(folder / "README.md", page)
    print(f"{len(runs)} results, {drawn} figures: {folder / 'README.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
