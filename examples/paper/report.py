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

from examples.environment import write_json, write_text
from examples.paper import data, figures, tables
from examples.paper.recipes import PARTS, RECIPES
from examples.paper.results import Run, RunError, format_size, load
from examples.paper.schemes import SCHEMES
from examples.paper.tables import PAPER_TABLES, TABLES, Cell, Column, Table

DECIMALS = {"error": 2, "loss": 3}
BLOCK = re.compile(r"<!-- table: (\w+) -->\n.*?<!-- end -->", re.DOTALL)
BASELINES = ROOT / "results" / "paper" / "baselines.json"


def format_rows(rows: list[dict]) -> str:
    """A table in Markdown. Its heads are the keys of the rows."""
    lines = [rows[0], ["---"] * len(rows[0]), *(row.values() for row in rows)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def format_cell(cell: Cell | None, baseline: Cell | None = None) -> str:
    """Mean ± standard deviation, the gap to a baseline, runs and epochs."""
    if cell is None:
        return "not run"
    decimals = DECIMALS[cell.runs[0].measure]
    runs, lost = len(cell.runs), len(cell.runs) - len(cell.values)
    text = "diverged"
    if cell.values:
        text = tables.spread(cell.values, decimals)
        if baseline and baseline is not cell and baseline.values:
            gap = fmean(cell.values) - fmean(baseline.values)
            text += f" ({gap:.{decimals}f})".replace("-", "−")
        text += f", {lost} diverged" * bool(lost)
    return f"{text}; {runs} run{'s' * (runs > 1)}, {cell.epochs} epochs"


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
    rows = {s: {"scheme": SCHEMES[s].title} for s in table.schemes}
    notes, baselines = {}, read_baselines()
    for column, sizes, cells in tables.shown(runs, table):
        words = [format_size(*s) for s in sizes.items() if s[0] != "recipe"]
        ours = f"{column.title}, ours" + f" ({', '.join(words)})" * bool(words)
        for scheme, cell in cells.items():
            if column.paper:
                rows[scheme][f"{column.title}, paper"] = column.paper[scheme]
            gap_to = cells["full_precision"] if table.equal_epochs else None
            text = format_cell(cell, gap_to)
            if note := footnote(cell, column):
                mark = notes.setdefault(note, len(notes) + 1)
                text += f" <sup>{mark}</sup>"
            rows[scheme][ours] = text
        known = baselines.get(column.recipe.removesuffix("_short"), {})
        for name, loss in known.items():
            row = rows.setdefault(name, {"scheme": name})
            if column.paper:
                row[f"{column.title}, paper"] = ""
            row[ours] = f"{loss:.3f}"
    lines = [f"{number}. {text}" for text, number in notes.items()]
    return "\n".join([format_rows(list(rows.values())), "", *lines]).strip()


def read_baselines() -> dict[str, dict[str, float]]:
    """The cross-entropies of models without a network, by text and model."""
    if not BASELINES.exists():
        return {}
    return json.loads(BASELINES.read_text())["test_loss"]


def write_baselines() -> None:
    """Computes the cross-entropies of byte frequencies and of bigrams.

    Both count in the training part, with 0.1 added to each count, and predict
    the test part.
    """
    losses, files = {}, {}
    for load_text in (data.war_and_peace, data.linux_kernel):
        text = load_text()
        counts = np.zeros((text.classes, text.classes)) + 0.1
        np.add.at(counts, (text.train.x.ravel(), text.train.y.ravel()), 1)
        single, (x, y) = counts.sum(axis=0), text.test
        bigrams = counts / counts.sum(axis=1, keepdims=True)
        losses[load_text.__name__] = {
            "byte frequencies": float(-np.log(single / single.sum())[y].mean()),
            "bigrams": float(-np.log(bigrams[x, y]).mean()),
        }
        files |= text.files
    write_json(BASELINES, {"test_loss": losses, "files": files})


def coverage(runs: list[Run]) -> dict[str, list]:
    """For each cell of the paper's tables how it ran, and with how many seeds.

    A cell is `"full"` if a run has the paper's sizes, data and epochs.
    """
    found = {}
    for name in PAPER_TABLES:
        table, found[name] = TABLES[name], []
        for column, scheme in itertools.product(table.columns, table.schemes):
            recipes = {o.get("recipe", column.recipe) for o in column.ours}
            fitting = [
                run
                for run in runs
                if any(run.fits(column, scheme, recipe=r) for r in recipes)
            ]
            whole = [
                r for r in fitting if not r.differences(column, r.epochs_done)
            ]
            kind = "full" if whole else "reduced" if fitting else "not run"
            seeds = len({run.seed for run in whole or fitting})
            found[name].append((kind, seeds))
    return found


def format_first_line(runs: list[Run]) -> str:
    """How many cells of the paper's tables ran, and with how many seeds."""
    cells = list(itertools.chain(*coverage(runs).values()))

    def seeds(kind):
        found = sorted({seeds for k, seeds in cells if k == kind})
        if not found:
            return ""
        span = "–".join(map(str, dict.fromkeys((found[0], found[-1]))))
        return f" ({span} seed{'s' * (found[-1] > 1)} each)"

    count = collections.Counter(kind for kind, _ in cells)
    return (
        f"Of the {len(cells)} cells of the paper's tables, {count['full']} ran "
        f"at the full protocol{seeds('full')}, {count['reduced']} ran smaller "
        f"or shorter{seeds('reduced')}, and {count['not run']} did not run."
    )


def coverage_rows(runs: list[Run]) -> Iterable[dict]:
    """How many cells of each of the paper's tables ran."""
    for name, cells in coverage(runs).items():
        kinds = collections.Counter(kind for kind, _ in cells)
        yield {
            "": name.replace("table", "Table "),
            "cells": len(cells),
            "full protocol": kinds["full"],
            "reduced": kinds["reduced"],
            "not run": kinds["not run"],
            "most seeds per cell": max(seeds for _, seeds in cells),
        }


def recipe_rows(_) -> Iterable[dict]:
    """The settings of each experiment."""
    for name, recipe in RECIPES.items():
        decay, clip = recipe.decay, recipe.clip_gradient
        when = f"every epoch from {decay.beyond + 1} on"
        if decay.every > 1:
            when = f"every {decay.every:g} epochs"
        elif decay.after:
            when = f"epochs {' and '.join(map(str, decay.after))}"
        is_text = recipe.task.measure == "loss"
        yield {
            "experiment": f"`{name}`",
            "sizes": ", ".join(format_size(*s) for s in recipe.sizes.items()),
            "batch": recipe.batch,
            "epochs": recipe.epochs,
            "learning rate": recipe.rate,
            "with binary activations": recipe.sign_rate,
            "decay": f"×{decay.factor:g} after {when}",
            "gradients clipped at": f"±{clip:g}" if clip else "–",
            "batch norm: momentum, ε": "0.9, 1e-5"
            if recipe.batch_norm
            else "–",
            "initial weights": "±0.08, uniform" if clip else "Glorot uniform",
            "loss": "cross-entropy" if is_text else "squared hinge",
        }


def run_rows(runs: list[Run]) -> Iterable[dict]:
    """All runs, with the numbers of their best epochs."""
    for run in runs:
        best = (run.selected() or {"epoch": None})["epoch"]
        row = {
            "experiment": run.experiment,
            "scheme": run.title,
            "seed": run.seed,
            "epochs": f"{run.epochs_done} of {run.epochs_planned}",
            "best epoch": best or "–",
        }
        for part in PARTS:
            value = best and run.history[f"{part}_{run.measure}"][best - 1]
            row[part] = (
                "diverged"
                if value is None
                else f"{value:.{DECIMALS[run.measure]}f}"
            )
        zeroed = run.history.get("zeroed_gradients")
        if zeroed is not None:
            zeroed = sum(filter(None, zeroed))
        commits = dict.fromkeys(s["commit"] or "?" for s in run.sessions)
        yield row | {
            "gradient entries set to zero": "–" if zeroed is None else zeroed,
            "hours": f"{sum(run.history['seconds']) / 3600:.1f}",
            "commit": ", ".join(commits),
        }


# Below its table, and only if there is one.
WHY_FIGURE = (
    "\n\n![Test cross-entropy by update, and the difference to BWN with the "
    "same seed, with bands of one standard deviation](figures/why.png)"
)


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
        return format_first_line(runs)
    if name in TABLES:
        return format_table(runs, TABLES[name])
    rows = list(ROWS[name](runs))
    text = format_rows(rows) if rows else "Not run yet."
    return text + WHY_FIGURE if rows and name == "why" else text


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
    print(f"{len(runs)} results, {len(drawn)} figures: {folder / 'README.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
