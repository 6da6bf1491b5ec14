"""Writes the tables from the JSON files alone.

    python -m benchmarks --report

A document says where a table goes with two comments:

    <!-- benchmarks: resnet8 -->
    <!-- benchmarks: end -->

Everything else in it is written by hand. `BLOCKS` has the names.
"""

import re
from pathlib import Path

from benchmarks import harness, runtime_table, tables
from benchmarks.headline import headline
from examples.environment import write_text

ROOT = harness.RESULTS.parents[1]
DOCUMENTS = ("results/benchmarks/README.md", "README.md", "docs/**/*.md")
# The tables by name, each with the part that it is made of.
BLOCKS = {**tables.BLOCKS, "runtimes": ("runtimes", runtime_table.table)}
BLOCKS |= {
    f"{part}_machine": (part, tables.machine) for part, _ in BLOCKS.values()
}
MARKERS = "<!-- benchmarks: {} -->\n{}<!-- benchmarks: end -->"


def load(folder: Path) -> dict:
    """Returns the contents of the JSON files of a folder, by part."""
    return {p.stem: harness.read_result(p) for p in folder.glob("*.json")}


def insert(text: str, results: dict) -> str:
    """Returns a document with the tables between its markers made again."""

    def block(found):
        name, text = found[1], "Not run.\n"
        if name == "headline":
            return MARKERS.format(name, headline(results))
        if name not in BLOCKS:
            raise harness.ResultError(f"There is no table {name!r}.")
        part, make = BLOCKS[name]
        if part in results:
            text = make(results[part])
        return MARKERS.format(name, text)

    return re.sub(MARKERS.format(r"(\w+)", ".*?"), block, text, flags=re.S)


def write(folder: Path) -> list[Path]:
    """Writes the tables of a folder of results, and returns the files.

    A folder without a page gets one. Published results are in all documents.
    """
    results, page = load(folder), folder / "README.md"
    if not page.exists():
        blocks = [MARKERS.format(name, "") for name in ["headline", *BLOCKS]]
        write_text(page, "\n\n".join(["# Benchmarks", *blocks]) + "\n")
    written = documents() if folder == harness.RESULTS else [page]
    for path in written:
        write_text(path, insert(path.read_text(), results))
    return written


def documents() -> list[Path]:
    """Returns the documents of the repository that have tables."""
    found = [p for glob in DOCUMENTS for p in sorted(ROOT.glob(glob))]
    return [p for p in found if "<!-- benchmarks: " in p.read_text()]
