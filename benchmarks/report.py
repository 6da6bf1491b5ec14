"""Writes the tables and the figure from the JSON files alone.

    python -m benchmarks --report

A document says where a table goes with two comments:

    <!-- benchmarks: growth -->
    <!-- benchmarks: end -->

Everything else in it is written by hand. `BLOCKS` has the names.
"""

import re
import statistics
from pathlib import Path

from benchmarks import harness, runtime_table, tables
from benchmarks.headline import headline
from benchmarks.tables import TASKS

ROOT = harness.RESULTS.parents[1]
DOCUMENTS = ("results/benchmarks/README.md", "README.md", "docs/**/*.md")
COLOURS = {"keras": "#777777", "lab": "#c0392b", "export": "#2471a3"}
BLOCKS = {
    **tables.BLOCKS,
    "runtimes": ("runtimes", runtime_table.table),
    "runtimes_machine": ("runtimes", tables.machine),
}
MARKERS = "<!-- benchmarks: {} -->\n{}<!-- benchmarks: end -->"


def load(folder: Path) -> dict:
    """Returns the contents of the JSON files of a folder, by part."""
    parts = {part for part, _ in BLOCKS.values()}
    paths = [folder / f"{part}.json" for part in parts]
    return {p.stem: harness.read_result(p) for p in paths if p.exists()}


def insert(text: str, results: dict) -> str:
    """Returns a document with the tables between its markers made again."""

    def block(found):
        name = found[1]
        if name == "headline":
            return MARKERS.format(name, headline(results))
        if name not in BLOCKS:
            raise harness.ResultError(f"There is no table {name!r}.")
        part, made = BLOCKS[name]
        text = made(results[part]) if part in results else "Not run.\n"
        return MARKERS.format(name, text)

    return re.sub(MARKERS.format(r"(\w+)", ".*?"), block, text, flags=re.S)


def write(folder: Path) -> list[Path]:
    """Writes the tables of a folder of results, and returns the files.

    A folder without a page gets one with the tables alone. The published
    results are also in other documents.
    """
    results, page = load(folder), folder / "README.md"
    if not page.exists():
        blocks = [MARKERS.format(name, "") for name in ["headline", *BLOCKS]]
        harness.write_text(page, "\n\n".join(["# Benchmarks", *blocks]) + "\n")
    written = documents() if folder == harness.RESULTS else [page]
    for path in written:
        harness.write_text(path, insert(path.read_text(), results))
    if "growth" in results:
        written.append(folder / "growth.png")
        draw_growth(results["growth"]["rows"], written[-1])
    return written


def documents() -> list[Path]:
    """Returns the documents of the repository that have tables."""
    found = [p for glob in DOCUMENTS for p in sorted(ROOT.glob(glob))]
    return [p for p in found if "<!-- benchmarks: " in p.read_text()]


def draw_growth(rows, path):
    """Draws time and memory against the number of weights."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for axis, label, value in (
        (axes[0], "seconds", lambda row: statistics.median(row["seconds"])),
        (axes[1], "peak memory, GB", lambda row: row["peak_bytes"] / 1e9),
    ):
        for task, title in TASKS.items():
            made = [r for r in rows if r["task"] == task and "cannot" not in r]
            points = sorted((row["weights"], value(row)) for row in made)
            axis.loglog(*zip(*points), "o-", color=COLOURS[task], label=title)
        axis.set(xlabel="weights", ylabel=label)
        axis.grid(alpha=0.3)
    # Less than a factor of ten: numbers, not powers.
    axes[1].yaxis.set_major_formatter("{x:g}")
    axes[1].yaxis.set_minor_formatter("{x:g}")
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)
