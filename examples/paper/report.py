"""Fills the tables and draws the figures of a page of results.

    python examples/paper/report.py

Reads the results of `train.py`, draws the figures, and replaces what stands
between the markers of the tables in `results/paper/README.md`. The rest of the
page is written by people. `--baselines` first computes what models without a
network reach on the texts, and writes `baselines.json`.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np

from examples.environment import write_json, write_text
from examples.pages import fill, markdown_table
from examples.paper import comparisons, data, figures, tables
from examples.paper.recipes import PARTS, RECIPES, describe
from examples.paper.results import Run, RunError, load

BASELINES = ROOT / "results" / "paper" / "baselines.json"


def baseline_rows(_) -> Iterator[dict]:
    """The cross-entropies of models without a network, for each text."""
    losses = json.loads(BASELINES.read_text())["test_loss"]
    for text, of_models in losses.items():
        numbers = {name: f"{loss:.3f}" for name, loss in of_models.items()}
        yield {"text": f"`{text}`", **numbers}


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


def recipe_rows(_) -> Iterator[dict]:
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
            "sizes": describe(recipe.sizes),
            "batch": recipe.batch,
            "epochs": recipe.epochs,
            "learning rate": recipe.rate,
            "with binary activations": recipe.sign_rate,
            "decay": f"×{decay.factor:g} after {when}",
        }


def run_rows(runs: list[Run]) -> Iterator[dict]:
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
            decimals = tables.DECIMALS[run.measure]
            row[part] = "diverged" if value is None else f"{value:.{decimals}f}"
        zeroed = run.history.get("zeroed_gradients")
        zeroed = zeroed and sum(filter(None, zeroed))
        yield {**row, "gradient entries set to zero": zeroed}


# The rows of each table, as a function of all runs.
TABLES = {
    name: partial(tables.rows, table=table)
    for name, table in tables.TABLES.items()
} | {
    "baselines": baseline_rows,
    "coverage": tables.coverage,
    "recipes": recipe_rows,
    "runs": run_rows,
    "leads": comparisons.leads,
    "why": comparisons.why,
    "ratios": comparisons.ratios,
    "byte_rows": comparisons.byte_rows,
    "paired_errors": comparisons.paired_errors,
    "gradients": comparisons.gradients,
    "code": comparisons.code,
}


def format_table(name: str, runs: list[Run]) -> str:
    """A table in Markdown. Its heads are the keys of its rows."""
    if name not in TABLES:
        known = ", ".join(TABLES)
        raise ValueError(f"There are tables {known}. Received: {name}")
    rows = list(TABLES[name](runs))
    if not rows:
        return "Not run yet."
    lines = [["–" if x is None else x for x in row.values()] for row in rows]
    return markdown_table(list(rows[0]), lines)


def make_page(page: str, runs: list[Run]) -> str:
    """A page with its tables made from the runs."""
    return fill(page, "table", partial(format_table, runs=runs))


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
        page = make_page((folder / "README.md").read_text(), runs)
    except (OSError, RunError, ValueError, data.DataError) as error:
        print(f"report.py: error: {error}", file=sys.stderr)
        return 1
    drawn = figures.draw_all(runs, folder / "figures")
    write_text(folder / "README.md", page)
    print(f"{len(runs)} results, {drawn} figures: {folder / 'README.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
