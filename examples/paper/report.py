"""Fills the tables and draws the figures of a page of results.

    python examples/paper/report.py

Reads the results of `train.py`, draws the figures, and replaces what stands
between `<!-- table: NAME -->` and `<!-- end -->` in `results/paper/README.md`.
The rest of the page is written by people. `--baselines` first computes what
models without a network reach on the texts, and writes `baselines.json`.
"""

import argparse
import collections
import functools
import itertools
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np

from examples.environment import write_json, write_text
from examples.paper import comparisons, data, figures
from examples.paper.recipes import PARTS, RECIPES
from examples.paper.schemes import ALL_SCHEMES, SCHEMES
from examples.paper.tables import (
    PAPER_TABLES,
    TABLES,
    Cell,
    Column,
    ResultError,
    Run,
    Table,
    format_size,
    load,
    shown,
)

DECIMALS = {"error": 2, "loss": 3}
BLOCK = re.compile(r"<!-- table: (\w+) -->\n.*?<!-- end -->", re.DOTALL)
BASELINES = ROOT / "results" / "paper" / "baselines.json"


def format_rows(heads: list, rows: list[list]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def format_cell(cell: Cell | None, baseline: Cell | None = None) -> str:
    """Mean ± standard deviation, the gap to a baseline, runs and epochs."""
    if cell is None:
        return "not run"
    decimals = DECIMALS[cell.runs[0].measure]
    runs, lost = len(cell.runs), len(cell.runs) - len(cell.values)
    text = "diverged"
    if cell.values:
        text = f"**{cell.mean:.{decimals}f}**"
        if len(cell.values) > 1:
            text += f" ± {cell.deviation:.{decimals}f}"
        if baseline and baseline is not cell and baseline.values:
            gap = f" ({cell.mean - baseline.mean:.{decimals}f})"
            text += gap.replace("-", "−")
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
    heads, columns, notes = ["scheme"], [], {}
    baselines = read_baselines()
    for column, sizes, cells in shown(runs, table):
        known = baselines.get(column.recipe.removesuffix("_short"), {})
        if column.paper and f"{column.title}, paper" not in heads:
            heads.append(f"{column.title}, paper")
            blank = [""] * len(known)
            columns.append([column.paper[s] for s in table.schemes] + blank)
        ours = ", ".join(
            format_size(name, size)
            for name, size in sizes.items()
            if name != "recipe"
        )
        heads.append(f"{column.title}, ours" + (f" ({ours})" if ours else ""))
        gap_to = cells["full_precision"] if table.equal_epochs else None
        texts = []
        for cell in cells.values():
            texts.append(format_cell(cell, gap_to))
            if note := footnote(cell, column):
                mark = notes.setdefault(note, len(notes) + 1)
                texts[-1] += f" <sup>{mark}</sup>"
        columns.append(texts + [f"{value:.3f}" for value in known.values()])
    titles = [SCHEMES[scheme].title for scheme in table.schemes] + list(known)
    rows = [list(row) for row in zip(titles, *columns)]
    lines = [f"{number}. {text}" for text, number in notes.items()]
    return "\n".join([format_rows(heads, rows), "", *lines]).strip()


def read_baselines() -> dict[str, dict[str, float]]:
    """The cross-entropies of models without a network, by text and model."""
    if not BASELINES.exists():
        return {}
    return json.loads(BASELINES.read_text())["test_loss"]


def write_baselines(folder: str | None) -> None:
    """Computes the cross-entropies of byte frequencies and of bigrams.

    Both count in the training part, with 0.1 added to each count, and predict
    the test part.
    """
    losses, files = {}, {}
    for load_text in (data.war_and_peace, data.linux_kernel):
        text = load_text(folder)
        counts = np.zeros((text.classes, text.classes)) + 0.1
        np.add.at(counts, (text.train.x.ravel(), text.train.y.ravel()), 1)
        single = counts.sum(axis=0, keepdims=True)
        losses[load_text.__name__] = {
            name: float(-np.log(share[x, text.test.y]).mean())
            for name, share, x in (
                ("byte frequencies", single / single.sum(), 0),
                (
                    "bigrams",
                    counts / counts.sum(axis=1, keepdims=True),
                    text.test.x,
                ),
            )
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
            recipes = {
                ours.get("recipe", column.recipe) for ours in column.ours
            }
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


def format_coverage(runs: list[Run]) -> str:
    """How many cells of each of the paper's tables ran."""
    rows = []
    for name, cells in coverage(runs).items():
        kinds = collections.Counter(kind for kind, _ in cells)
        seeds = max(seeds for _, seeds in cells)
        kinds = [kinds[kind] for kind in ("full", "reduced", "not run")]
        title = name.replace("table", "Table ")
        rows.append([title, len(cells), *kinds, seeds])
    heads = ["", "cells", "full protocol", "reduced", "not run"]
    return format_rows([*heads, "most seeds per cell"], rows)


def format_recipes(_) -> str:
    """The settings of each experiment."""
    rows = []
    for name, recipe in RECIPES.items():
        decay, clip = recipe.decay, recipe.clip_gradient
        when = f"every epoch from {decay.beyond + 1} on"
        if decay.every > 1:
            when = f"every {decay.every:g} epochs"
        elif decay.after:
            when = f"epochs {' and '.join(map(str, decay.after))}"
        sizes = [format_size(*size) for size in recipe.sizes.items()]
        row = [f"`{name}`", ", ".join(sizes), recipe.batch, recipe.epochs]
        row += [recipe.rate, recipe.sign_rate]
        row += [
            f"×{decay.factor:g} after {when}",
            f"±{clip:g}" if clip else "–",
        ]
        norm = "0.9, 1e-5" if recipe.batch_norm else "–"
        weights = "±0.08, uniform" if clip else "Glorot uniform"
        loss = (
            "cross-entropy"
            if recipe.task.measure == "loss"
            else "squared hinge"
        )
        rows.append([*row, norm, weights, loss])
    heads = ["experiment", "sizes", "batch", "epochs", "learning rate"]
    heads += ["with binary activations", "decay", "gradients clipped at"]
    heads += ["batch norm: momentum, ε", "initial weights", "loss"]
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
        row = [run.experiment, ALL_SCHEMES[run.scheme].title, run.seed]
        row += [f"{run.epochs_done} of {run.epochs_planned}", best, *numbers]
        zeroed = run.history.get("zeroed_gradients")
        row += ["–" if zeroed is None else sum(filter(None, zeroed))]
        row += [f"{sum(run.history['seconds']) / 3600:.1f}"]
        commits = dict.fromkeys(s["commit"] or "?" for s in run.sessions)
        rows.append([*row, ", ".join(commits)])
    heads = ["experiment", "scheme", "seed", "epochs", "best epoch", *PARTS]
    heads += ["gradient entries set to zero", "hours", "commit"]
    return format_rows(heads, rows)


# Below its table, and only if there is one.
WHY_FIGURE = (
    "\n\n![Test cross-entropy by update, and the difference to BWN with the "
    "same seed, with bands of one standard deviation](figures/why.png)"
)


def format_comparison(runs: list[Run], name: str) -> str:
    """A table of `comparisons`, if its runs are there."""
    heads, rows = comparisons.TABLES[name](runs)
    if not rows:
        return "Not run yet."
    return format_rows(heads, rows) + WHY_FIGURE * (name == "why")


BLOCKS = {
    "first_line": format_first_line,
    "coverage": format_coverage,
    "recipes": format_recipes,
    "runs": format_runs,
    **{
        name: functools.partial(format_table, table=table)
        for name, table in TABLES.items()
    },
    **{
        name: functools.partial(format_comparison, name=name)
        for name in comparisons.TABLES
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
    add = parser.add_argument
    add("--results-dir", type=Path, metavar="DIR", default=BASELINES.parent,
        help="the folder of the results and the page; default: results/paper"
        )  # fmt: skip
    add("--baselines", action="store_true",
        help="compute baselines.json again; needs both texts")  # fmt: skip
    options = parser.parse_args(arguments)
    folder = options.results_dir
    try:
        if options.baselines:
            write_baselines(None)
        runs = load(folder)
        page = fill((folder / "README.md").read_text(), runs)
    except (OSError, ResultError, ValueError, data.DataError) as error:
        print(f"report.py: error: {error}", file=sys.stderr)
        return 1
    drawn = figures.draw_all(runs, folder / "figures")
    write_text(folder / "README.md", page)
    print(f"{len(runs)} results, {len(drawn)} figures: {folder / 'README.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
